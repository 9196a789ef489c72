//! `hearth bench` over NBD, on a unix socket and on TCP, against somebody else's server: verified
//! writes, fio's keys, a block that was damaged behind its back, a server that is not there.

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::ensure;
use e2e::{
    Answer, Image, Origin, OriginSettings, Process, SHORT, free_port, hearth, hearth_program,
    scenario, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};

fn verified(target: &str, rest: &[&str]) -> anyhow::Result<Answer> {
    let mut words = vec!["--json", "bench", target, "--verify", "crc32c"];
    words.extend(rest);
    hearth(&words)
}

#[test]
fn verified_writes_come_back_and_a_damaged_block_is_found() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let uri = origin.uri();
        let mixed = ["--rw=randrw", "--bssplit=4k/70:64k/30", "--iodepth=16"];
        let mixed = verified(&uri, &[&mixed[..], &["--fsync=32"]].concat())?.json()?;
        let job = &mixed["jobs"][0];
        let bytes = |side: &str| job[side]["io_bytes"].as_u64().unwrap_or(0);
        ensure!(bytes("read") + bytes("write") == 16 << 20, "{job}");
        ensure!(job["verify"]["wrong"] == 0, "{job}");
        ensure!(job["sync"]["total_ios"].as_u64() > Some(0), "{job}");
        let median = &job["read"]["clat_ns"]["percentile"]["50.000000"];
        ensure!(median.as_u64() > Some(0), "{job}");

        verified(&uri, &["--rw=write", "--bs=64k", "--verify_interval=4k"])?.json()?;
        let file = std::fs::File::options().write(true).open(image.path())?;
        file.write_all_at(b"x", 5 * 4096 + 1000)?;
        let read = ["--rw=randread", "--verify_interval=4k", "--iodepth=8"];
        let read = verified(&uri, &read)?;
        ensure!(read.code == 5, "{}: {}", read.code, read.stderr);
        let report: serde_json::Value = serde_json::from_str(&read.stdout)?;
        let verify = &report["jobs"][0]["verify"];
        ensure!(verify["wrong"] == 1 && verify["right"] == 4095, "{verify}");
        ensure!(read.stderr.contains("at offset 20480"), "{}", read.stderr);
        Ok(())
    });
}

#[test]
fn several_connections_over_tcp_share_the_work() {
    scenario(&["nbdkit"], |lab| {
        // nbdkit cannot choose one by itself.
        let port = free_port()?;
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-i", "127.0.0.1", "-p", &port.to_string()]);
        command.args(["-e", "disk", "memory", "16M"]);
        let _server = Process::start(lab, "nbdkit", &mut command)?;
        wait_until("nbdkit to listen", SHORT, || {
            Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        let uri = format!("nbd://127.0.0.1:{port}/disk");
        let jobs = ["--numjobs=2", "--size=8m", "--offset_increment=8m"];
        let load = ["--rw=randwrite", "--iodepth=8", "--group_reporting"];
        let report = verified(&uri, &[jobs, load].concat())?.json()?;
        let job = &report["jobs"][0];
        ensure!(job["write"]["io_bytes"] == 16 << 20, "{job}");
        ensure!(job["verify"]["right"] == 4096, "{job}");
        Ok(())
    });
}

#[test]
fn what_is_not_there_or_makes_no_sense_has_its_exit_code() {
    scenario(&["nbdkit"], |lab| {
        let missing = lab.path("none.sock");
        let uri = format!("nbd+unix:///disk?socket={}", missing.display());
        let answer = hearth(&["bench", &uri])?;
        ensure!(answer.code == 3, "{}: {}", answer.code, answer.stderr);
        ensure!(answer.stderr.contains("try:"), "{}", answer.stderr);

        let image = Image::new(lab, "disk.raw", 1)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let beyond = hearth(&["bench", &origin.uri(), "--size=2m"])?;
        ensure!(beyond.code == 2, "{}: {}", beyond.code, beyond.stderr);
        ensure!(beyond.stderr.contains("--size"), "{}", beyond.stderr);
        let user = std::fs::File::open(image.path())?;
        user.lock_shared()?;
        let path = image.path().display().to_string();
        let locked = hearth(&["bench", &path, "--rw=write", "--direct=0"])?;
        ensure!(locked.code == 4, "{}: {}", locked.code, locked.stderr);
        ensure!(locked.stderr.contains("uses it"), "{}", locked.stderr);
        Ok(())
    });
}

#[test]
fn a_load_that_is_interrupted_tells_what_it_has_measured() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        for signal in [Signal::INT, Signal::TERM] {
            let before = origin.requests()?.len();
            let child = Command::new(hearth_program()?)
                .args(["--json", "bench", &origin.uri(), "--rw=randread", "--bs=4k"])
                .args(["--time_based", "--runtime=1000"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            // It listens for signals before it begins.
            wait_until("the load to begin", SHORT, || {
                Ok(origin.requests()?.len() > before)
            })?;
            kill_process(Pid::from_child(&child), signal)?;
            let output = child.wait_with_output()?;
            ensure!(output.status.code() == Some(1), "{:?}", output.status);
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(said.contains("interrupted"), "{said}");
            let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
            let read = &report["jobs"][0]["read"]["total_ios"];
            ensure!(read.as_u64() > Some(0), "{report}");
        }
        Ok(())
    });
}
