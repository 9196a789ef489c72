//! The daemon's life: what survives a restart, who may start, what signals do.

use crate::rig::{Rig, hearth, run, stderr, stdout, wait_for};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, Stdio};

fn uri(rig: &Rig, disk: &str) -> String {
    format!(
        "nbd+unix:///{disk}?socket={}",
        rig.path("nbd.sock").display()
    )
}

fn attach(rig: &Rig, disk: &str, file: &str) {
    let origin = rig.path(file).display().to_string();
    let output = rig.cli(&["disk", "attach", disk, "--origin", &origin]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn disks_attached_at_run_time_come_back_after_a_stop_and_after_a_kill() {
    let mut rig = Rig::new();
    let config = rig.config(&rig.disk("a", "a.raw"));
    rig.start(&config);
    attach(&rig, "b", "b.raw");
    rig.json(&["disk", "set", "b", "--write-policy", "around"]);
    assert_eq!(rig.stop(), Some(0));
    rig.start(&config);
    assert_eq!(rig.json(&["disk", "show", "b"])["source"], "runtime");
    assert_eq!(rig.json(&["disk", "show", "b"])["write_policy"], "around");
    rig.kill();
    rig.start(&config);
    assert_eq!(rig.json(&["disk", "show", "b"])["state"], "attached");
    rig.json(&["disk", "detach", "b"]);
    rig.kill();
    rig.start(&config);
    assert_eq!(rig.cli(&["disk", "show", "b"]).status.code(), Some(6));
}

#[test]
fn a_disk_of_the_file_that_is_detached_comes_back_with_the_restart() {
    let mut rig = Rig::new();
    let config = rig.config(&rig.disk("a", "a.raw"));
    rig.start(&config);
    rig.json(&["disk", "detach", "a"]);
    assert_eq!(rig.cli(&["disk", "show", "a"]).status.code(), Some(6));
    assert_eq!(rig.stop(), Some(0));
    rig.start(&config);
    assert_eq!(rig.json(&["disk", "show", "a"])["source"], "config");
}

#[test]
fn the_configuration_file_wins_over_a_remembered_disk_of_its_name() {
    let mut rig = Rig::new();
    rig.start(&rig.config(""));
    attach(&rig, "b", "b.raw");
    assert_eq!(rig.stop(), Some(0));
    rig.start(&rig.config(&rig.disk("b", "a.raw")));
    let disk = rig.json(&["disk", "show", "b"]);
    assert_eq!(disk["source"], "config");
    assert!(disk["origin"].as_str().unwrap().ends_with("a.raw"));
}

#[test]
fn a_disk_whose_origin_is_away_waits_and_is_attached_when_it_comes() {
    let mut rig = Rig::new();
    rig.start(&rig.config(&(rig.disk("a", "a.raw") + &rig.disk("late", "c.raw"))));
    let disk = rig.json(&["disk", "show", "late"]);
    assert_eq!(disk["state"], "waiting");
    assert!(disk["reason"].as_str().unwrap().contains("c.raw"));
    assert_eq!(rig.json(&["disk", "show", "a"])["state"], "attached");
    let flush = rig.cli(&["disk", "flush", "late"]);
    assert_eq!(flush.status.code(), Some(4));
    std::fs::copy(rig.path("a.raw"), rig.path("c.raw")).unwrap();
    wait_for("the disk to be attached", || {
        (rig.json(&["disk", "show", "late"])["state"] == "attached").then_some(())
    });
    assert_eq!(rig.stop(), Some(0));
}

#[test]
fn a_second_daemon_with_the_same_state_or_flash_is_refused() {
    let mut rig = Rig::new();
    let config = rig.config("");
    rig.start(&config);
    let path = rig.path("hearth.toml");
    let second = run(hearth().args(["serve", "--config"]).arg(&path));
    assert_eq!(second.status.code(), Some(4));
    assert!(stderr(&second).contains("another hearth uses the state directory"));
    let elsewhere = config
        .replace("/state'", "/state2'")
        .replace("/admin.sock'", "/admin2.sock'")
        .replace("/nbd.sock'", "/nbd2.sock'");
    std::fs::write(&path, elsewhere).unwrap();
    let third = run(hearth().args(["serve", "--config"]).arg(&path));
    assert_eq!(third.status.code(), Some(4));
    assert!(
        stderr(&third).contains("is in use: hearth has it (pid "),
        "{}",
        stderr(&third)
    );
    // It says so before it waits, not after.
    assert!(
        stderr(&third).contains("waiting up to 10 s for it to be let go"),
        "{}",
        stderr(&third)
    );
    assert_eq!(rig.stop(), Some(0));
}

#[test]
fn both_signals_stop_it_cleanly_and_a_hangup_does_not() {
    let mut rig = Rig::new();
    let config = rig.config(&rig.disk("a", "a.raw"));
    rig.start(&config);
    rig.signal("HUP");
    wait_for("the hangup's line", || {
        rig.log().contains("SIGHUP is ignored").then_some(())
    });
    assert_eq!(rig.json(&["status"])["disks"], 1);
    rig.signal("INT");
    assert_eq!(rig.wait_for_end(), Some(0));
    assert!(rig.log().contains("stopped"));
    assert!(!rig.path("admin.sock").exists());
    assert!(!rig.path("nbd.sock").exists());
    rig.start(&config);
    assert_eq!(rig.stop(), Some(0));
}

/// A client that stays connected to a disk until its standard input is closed.
fn client(rig: &Rig, disk: &str) -> Child {
    let client = Command::new("qemu-io")
        .args(["-f", "raw"])
        .arg(uri(rig, disk))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the client to be connected", || {
        let connections = &rig.json(&["disk", "show", disk])["connections"];
        (connections.as_u64() == Some(1)).then_some(())
    });
    client
}

#[test]
fn a_disk_in_use_is_detached_only_by_force() {
    let mut rig = Rig::new();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    let mut client = client(&rig, "a");
    let refused = rig.cli(&["disk", "detach", "a"]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(stderr(&refused).contains("hearth disk detach a --force"));
    assert_eq!(rig.json(&["disk", "show", "a"])["state"], "attached");
    assert!(
        rig.cli(&["disk", "detach", "a", "--force"])
            .status
            .success()
    );
    drop(client.stdin.take());
    client.wait().unwrap();
}

#[test]
fn a_client_that_leaves_meanwhile_does_not_hold_up_a_detach() {
    let mut rig = Rig::new();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    let mut client = client(&rig, "a");
    drop(client.stdin.take());
    let detached = rig.cli(&["disk", "detach", "a"]);
    assert!(detached.status.success(), "{}", stderr(&detached));
    client.wait().unwrap();
}

#[test]
fn a_stop_does_not_wait_for_clients_to_leave() {
    let mut rig = Rig::new();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    let mut client = client(&rig, "a");
    assert_eq!(rig.stop(), Some(0));
    drop(client.stdin.take());
    client.wait().unwrap();
}

#[test]
fn the_service_manager_is_told_ready_and_stopping() {
    let mut rig = Rig::new();
    let path = rig.path("notify");
    let notify = UnixDatagram::bind(&path).unwrap();
    notify.set_read_timeout(Some(crate::rig::PATIENCE)).unwrap();
    let config = rig.write_config(&rig.config(""));
    let daemon = hearth()
        .args(["serve", "--config"])
        .arg(config)
        .env("NOTIFY_SOCKET", &path)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    rig.adopt(daemon);
    let next = || {
        let mut bytes = [0; 512];
        let length = notify.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    // The sockets of the API and of NBD, to be kept for who comes after this one.
    for socket in ["admin.sock", "nbd.sock"] {
        let said = next();
        let is_named = said.lines().any(|line| line.ends_with(socket));
        assert!(said.contains("FDSTORE=1") && is_named, "{said}");
    }
    assert!(next().contains("READY=1"));
    assert!(rig.cli(&["status"]).status.success());
    rig.signal("TERM");
    assert!(next().contains("STOPPING=1"));
    assert_eq!(rig.wait_for_end(), Some(0));
}

/// Binds a unix socket, makes it descriptor 3, and becomes the program, as systemd would.
const HAND_OVER: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_socket_of_the_service_manager_is_used_and_left_in_place() {
    let mut rig = Rig::new();
    let config = rig.write_config(&rig.config(&rig.disk("a", "a.raw")));
    let socket = rig.path("nbd.sock");
    let daemon = Command::new("python3")
        .args(["-c", HAND_OVER])
        .arg(&socket)
        .args([env!("CARGO_BIN_EXE_hearth"), "serve", "--config"])
        .arg(config)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    rig.adopt(daemon);
    wait_for("the socket", || UnixStream::connect(&socket).ok());
    // The client waits in the socket's queue until the daemon is ready.
    let read = run(Command::new("qemu-io")
        .args(["-f", "raw", "-c", "read -P 7 0 1M"])
        .arg(uri(&rig, "a")));
    assert!(read.status.success(), "{}", stderr(&read));
    assert_eq!(rig.stop(), Some(0));
    assert!(socket.exists());
}

#[test]
fn a_cache_whose_flash_is_missing_is_bypassed_and_its_disks_are_served() {
    let mut rig = Rig::new();
    std::fs::remove_file(rig.path("flash")).unwrap();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    let status = rig.json(&["status"]);
    assert_eq!(status["caches"][0]["state"], "bypassed");
    assert!(status["caches"][0]["reason"].is_string());
    let read = run(Command::new("qemu-io")
        .args(["-f", "raw", "-c", "read -P 7 0 1M"])
        .arg(uri(&rig, "a")));
    assert!(read.status.success() && !stdout(&read).contains("verification failed"));
    assert_eq!(rig.stop(), Some(0));
}

#[test]
fn a_place_to_listen_that_is_taken_is_told_with_its_key_and_a_way_out() {
    let rig = Rig::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    let taken = std::os::unix::net::UnixListener::bind(rig.path("taken.sock")).unwrap();
    for (from, to, key, remedy) in [
        (
            "/nbd.sock'".to_owned(),
            format!("/nbd.sock'\ntcp_address = '{address}'"),
            "nbd.tcp_address",
            "give nbd.tcp_address another port",
        ),
        (
            "/nbd.sock'".to_owned(),
            "/taken.sock'".to_owned(),
            "nbd.unix_socket",
            "give nbd.unix_socket another path",
        ),
    ] {
        let path = rig.write_config(&rig.config("").replace(&from, &to));
        let output = run(hearth().args(["serve", "--config"]).arg(&path));
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&format!("error: {key}: ")), "{said}");
        assert!(said.contains(remedy), "{said}");
    }
    drop(taken);
}
