//! The admin API over its socket, and the CLI on top of it, against a real daemon.

use crate::rig::{Rig, stderr, stdout};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

fn parsed((status, body): (u16, String)) -> (u16, Value) {
    let body = serde_json::from_str(&body).unwrap_or_else(|_| panic!("JSON, not {body}"));
    (status, body)
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    rig
}

#[test]
fn status_and_disks_tell_what_is_served() {
    let rig = rig();
    let (code, status) = parsed(rig.http("GET", "/v1/status", ""));
    assert_eq!(code, 200);
    assert_eq!(status["pid"], rig.pid());
    assert_eq!(status["disks"], 1);
    assert_eq!(status["caches"][0]["name"], "main");
    assert_eq!(status["caches"][0]["state"], "serving");
    assert_eq!(status["caches"][0]["flash_bytes"], 64 << 20);
    let socket = rig.path("nbd.sock");
    let address = format!("nbd+unix:///?socket={}", socket.display());
    assert_eq!(status["listeners"][0]["address"], address);

    let (code, disks) = parsed(rig.http("GET", "/v1/disks", ""));
    assert_eq!(code, 200);
    let disk = &disks["disks"][0];
    assert_eq!(disk["name"], "a");
    assert_eq!(disk["vm"], "a");
    assert_eq!(disk["cache"], "main");
    assert_eq!(disk["source"], "config");
    assert_eq!(disk["state"], "attached");
    assert_eq!(disk["size_bytes"], 1 << 20);
    assert_eq!(parsed(rig.http("GET", "/v1/disks/a", "")).1, *disk);
}

#[test]
fn a_disk_comes_and_goes_while_the_daemon_runs() {
    let rig = rig();
    let origin = rig.path("b.raw");
    let request = json!({
        "name": "b", "vm": "db", "origin": { "file": origin }, "size": "1MiB",
        "write_policy": "around",
    });
    let (code, disk) = parsed(rig.http("POST", "/v1/disks", &request.to_string()));
    assert_eq!(code, 201, "{disk}");
    assert_eq!(disk["source"], "runtime");
    assert_eq!(disk["vm"], "db");
    assert_eq!(disk["write_policy"], "around");

    let (code, problem) = parsed(rig.http("POST", "/v1/disks", &request.to_string()));
    assert_eq!(code, 409);
    assert_eq!(problem["type"], "urn:hearth:problem:already-attached");
    assert_eq!(problem["remedy"], "hearth disk detach b");

    let (code, disk) = parsed(rig.http("PATCH", "/v1/disks/b", "{\"write_policy\":\"through\"}"));
    assert_eq!((code, &disk["write_policy"]), (200, &json!("through")));
    assert_eq!(rig.http("POST", "/v1/disks/b/flush", "").0, 200);
    assert_eq!(rig.http("POST", "/v1/disks/b/drop", "").0, 200);
    assert_eq!(rig.http("DELETE", "/v1/disks/b", "").0, 200);
    let (code, problem) = parsed(rig.http("GET", "/v1/disks/b", ""));
    assert_eq!(code, 404);
    assert_eq!(problem["type"], "urn:hearth:problem:no-such-disk");
    assert_eq!(problem["status"], 404);
}

#[test]
fn what_write_back_cannot_do_is_told_with_the_arithmetic() {
    let rig = rig();
    let wrong = |method: &str, path: &str, body: &str, words: &str| {
        let (status, problem) = parsed(rig.http(method, path, body));
        assert_eq!(status, 400, "{method} {path} {body}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    };
    let disk = "/v1/disks/a";
    let back = "{\"write_policy\":\"back\",\"write_back\":{\"dirty_max\":\"1GiB\"}}";
    wrong(
        "PATCH",
        disk,
        back,
        "the dirty_max of a (1GiB) exceeds 32MiB",
    );
    wrong("PATCH", disk, "{}", "nothing is to be changed");
    let small = "{\"write_back\":{\"dirty_max\":\"1MiB\"}}";
    wrong("PATCH", disk, small, "1MiB is less than 16MiB");
    let drop = "/v1/disks/a?dirty=drop";
    wrong("DELETE", drop, "", "needs yes_lose_data");
    let yes = "/v1/disks/a?yes_lose_data=true";
    wrong("DELETE", yes, "", "needs yes_lose_data");
}

#[test]
fn requests_that_make_no_sense_are_told_why() {
    let rig = rig();
    let wrong = |method: &str, path: &str, body: &str, code: u16, words: &str| {
        let (status, problem) = parsed(rig.http(method, path, body));
        assert_eq!(status, code, "{method} {path} {body}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
        assert!(problem["title"].is_string());
    };
    wrong("POST", "/v1/disks", "", 400, "EOF");
    wrong("POST", "/v1/disks", "{", 400, "EOF");
    let unknown = "{\"name\":\"x\",\"origin\":{\"file\":\"/x\"},\"readonly\":true}";
    wrong(
        "POST",
        "/v1/disks",
        unknown,
        400,
        "unknown field `readonly`",
    );
    let nameless = "{\"name\":\"a/b\",\"origin\":{\"file\":\"/x\"}}";
    wrong("POST", "/v1/disks", nameless, 400, "is not a name");
    wrong(
        "POST",
        "/v1/disks",
        "{\"name\":\"x\",\"origin\":{}}",
        400,
        "one of file, nbd, rbd, iscsi",
    );
    let elsewhere = "{\"name\":\"x\",\"cache\":\"no\",\"origin\":{\"file\":\"/x\"}}";
    wrong("POST", "/v1/disks", elsewhere, 404, "no cache 'no'");
    let gone = "{\"name\":\"x\",\"origin\":{\"file\":\"/nonexistent\"}}";
    wrong("POST", "/v1/disks", gone, 502, "/nonexistent");
    wrong(
        "PATCH",
        "/v1/disks/a",
        "{\"write_policy\":\"sideways\"}",
        400,
        "unknown variant `sideways`",
    );
    wrong("DELETE", "/v1/disks/a?force=maybe", "", 400, "force");
    wrong("POST", "/v1/disks/no/flush", "", 404, "no disk 'no'");
    wrong("POST", "/v1/disks/%00/flush", "", 404, "no disk");
    wrong("GET", "/v2/status", "", 404, "/v2/status");
    wrong("PUT", "/v1/disks", "", 404, "PUT /v1/disks");
    wrong(
        "POST",
        "/v1/disks",
        &"x".repeat((256 << 10) + 1),
        400,
        "length limit",
    );
    // None of it left anything behind.
    assert_eq!(
        parsed(rig.http("GET", "/v1/disks", "")).1["disks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_recording_is_begun_shown_and_ended() {
    let rig = rig();
    let output = rig.path("trace.csv.zst");
    let (code, problem) = parsed(rig.http("GET", "/v1/recording", ""));
    assert_eq!(code, 409);
    assert_eq!(problem["type"], "urn:hearth:problem:not-recording");
    assert_eq!(rig.http("DELETE", "/v1/recording", "").0, 409);
    let refused = |request: Value, code: u16, words: &str| {
        let (status, problem) = parsed(rig.http("POST", "/v1/recording", &request.to_string()));
        assert_eq!(status, code, "{request}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    };
    refused(json!({ "output": "trace.csv" }), 400, "absolute path");
    refused(
        json!({ "output": output, "sample_one_in": 0 }),
        400,
        "sample_one_in",
    );
    refused(
        json!({ "output": output, "size_bytes_max": 1000 }),
        400,
        "64 KiB",
    );
    refused(
        json!({ "output": output, "duration_seconds_max": -1.0 }),
        400,
        "above zero",
    );
    refused(
        json!({ "output": output, "disks": ["no"] }),
        404,
        "no disk 'no'",
    );
    refused(json!({ "output": "/nonexistent/x" }), 500, "/nonexistent/x");
    refused(
        json!({ "output": rig.path("a.raw") }),
        409,
        "exists already",
    );
    assert!(!output.exists());

    let request = json!({ "output": output, "disks": ["a"], "sample_one_in": 10 });
    let (code, begun) = parsed(rig.http("POST", "/v1/recording", &request.to_string()));
    assert_eq!(code, 201, "{begun}");
    assert_eq!(begun["state"], "recording");
    assert_eq!(begun["size_bytes_max"], 1 << 30);
    refused(request, 409, "is being recorded");
    let words = stdout(&rig.cli(&["status"]));
    assert!(words.contains("recording to"), "{words}");
    let (_, metrics) = rig.http("GET", "/metrics", "");
    assert!(metrics.contains("hearth_trace_recording 1\n"), "{metrics}");
    let (code, ended) = parsed(rig.http("DELETE", "/v1/recording", ""));
    assert_eq!((code, &ended["state"]), (200, &json!("ended")));
    assert_eq!(ended["reason"], "it was stopped");
    assert_eq!(parsed(rig.http("GET", "/v1/recording", "")).1, ended);
    let (_, metrics) = rig.http("GET", "/metrics", "");
    assert!(metrics.contains("hearth_trace_recording 0\n"));
    assert!(metrics.contains("hearth_trace_requests_total{result=\"lost\"} 0\n"));
}

#[test]
fn a_size_that_the_origin_does_not_have_is_refused() {
    let rig = rig();
    let origin = rig.path("b.raw").display().to_string();
    let output = rig.cli(&["disk", "attach", "b", "--origin", &origin, "--size", "2MiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("the origin has 1MiB"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_document_and_the_metrics_are_served() {
    let rig = rig();
    let (code, document) = rig.http("GET", "/v1/openapi.json", "");
    assert_eq!((code, document), (200, daemon::admin::document()));
    let (code, metrics) = rig.http("GET", "/metrics", "");
    assert_eq!(code, 200);
    assert!(metrics.contains("hearth_disk_attached{disk=\"a\",vm=\"a\",cache=\"main\"} 1\n"));
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn the_admin_socket_is_its_owners_alone() {
    let rig = rig();
    let mode = std::fs::metadata(rig.path("admin.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_cli_answers_in_words_and_in_json() {
    let rig = rig();
    let words = |words: &[&str]| {
        let output = rig.cli(words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert!(words(&["status"]).contains("cache main: serving"));
    assert!(words(&["disk", "list"]).starts_with("DISK  VM  CACHE"));
    assert!(words(&["disk", "show", "a"]).contains("attached by  the configuration file"));
    let origin = rig.path("b.raw").display().to_string();
    let attached = words(&["disk", "attach", "b", "--origin", &origin]);
    assert_eq!(
        attached,
        "b is attached: 1.00MiB in cache main, 0 blocks of it warm\n"
    );
    assert_eq!(
        words(&["disk", "set", "b", "--write-policy", "around"]),
        "b: writes go around\n"
    );
    assert_eq!(words(&["disk", "flush", "b"]), "b is flushed\n");
    assert_eq!(words(&["disk", "drop", "b"]), "b has 0 cached blocks\n");
    assert_eq!(rig.json(&["disk", "detach", "b"])["name"], "b");
    assert!(words(&["top", "--once", "--interval", "100ms"]).contains("cache main: 0B cached"));
    assert_eq!(
        rig.json(&["top", "--interval", "100ms"])["disks"][0]["disk"],
        "a"
    );

    let missing = rig.cli(&["disk", "show", "b"]);
    assert_eq!(missing.status.code(), Some(6));
    assert_eq!(
        stderr(&missing),
        "error: there is no disk 'b'\n  try: hearth disk list\n"
    );
}

#[test]
fn prometheus_asks_by_tcp_and_finds_nothing_else_there() {
    use std::io::{Read, Write};
    // Free a moment ago; nobody else on a test machine takes it so soon.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut rig = Rig::new();
    let config = rig.config("").replace(
        "metrics_address = 'off'",
        &format!("metrics_address = '{address}'"),
    );
    rig.start(&config);
    let ask = |path: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = ask("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    assert!(metrics.contains("application/openmetrics-text; version=1.0.0"));
    assert!(metrics.contains("hearth_cache_bypassed{cache=\"main\"} 0\n"));
    assert!(ask("/v1/status").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_client_that_goes_away_leaves_no_disk_half_attached() {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    let rig = rig();
    // An NBD server that accepts and says nothing: opening the origin takes until its time is up.
    let silent = UnixListener::bind(rig.path("silent.sock")).unwrap();
    let origin = format!("nbd+unix:///x?socket={}", rig.path("silent.sock").display());
    let request = json!({
        "name": "b", "origin": { "nbd": origin, "connect_timeout": "1s" },
    })
    .to_string();
    let mut client = UnixStream::connect(rig.path("admin.sock")).unwrap();
    write!(
        client,
        "POST /v1/disks HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{request}",
        request.len()
    )
    .unwrap();
    let (mut opening, _) = silent.accept().unwrap();
    assert_eq!(rig.json(&["disk", "show", "b"])["state"], "attaching");
    assert_eq!(rig.cli(&["disk", "detach", "b"]).status.code(), Some(4));
    drop(client);
    // The daemon gives up and closes; then the disk is gone and its name is free.
    let _ = opening.read_to_end(&mut Vec::new());
    crate::rig::wait_for("the disk to be gone", || {
        (rig.cli(&["disk", "show", "b"]).status.code() == Some(6)).then_some(())
    });
    let origin = rig.path("b.raw").display().to_string();
    let output = rig.cli(&["disk", "attach", "b", "--origin", &origin]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A disk that a program gives its key.
fn with_key_command(rig: &Rig) -> Value {
    json!({
        "name": "b", "origin": { "file": rig.path("b.raw") }, "size": "1MiB",
        "encryption": { "key_command": ["touch", rig.path("has-run")] },
    })
}

#[test]
fn no_program_is_run_for_who_attaches_a_disk() {
    let rig = rig();
    let request = with_key_command(&rig).to_string();
    let (code, problem) = parsed(rig.http("POST", "/v1/disks", &request));
    assert_eq!(code, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("key_command"));
    assert_eq!(rig.http("GET", "/v1/disks/b", "").0, 404);
    assert!(!rig.path("has-run").exists());
}

#[test]
fn a_remembered_disk_with_a_key_command_waits_and_says_so() {
    let mut rig = Rig::new();
    let state = rig.path("state");
    std::fs::create_dir_all(&state).unwrap();
    let list = json!({ "version": 1, "disks": [with_key_command(&rig)] });
    std::fs::write(state.join("disks.json"), list.to_string()).unwrap();
    let config = rig.config(&rig.disk("a", "a.raw"));
    rig.start(&config);
    let (_, disk) = parsed(rig.http("GET", "/v1/disks/b", ""));
    assert_eq!(disk["state"], "waiting", "{disk}");
    let reason = disk["reason"].as_str().unwrap();
    assert!(reason.contains("into the configuration file"), "{reason}");
    assert!(!rig.path("has-run").exists());
    // A daemon that serves such a disk still is not renewed into one that would not.
    let path = rig.path("hearth.toml").display().to_string();
    let checked = rig.cli(&["serve", "--config", &path, "--check-config"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        stderr(&checked).contains("key_command"),
        "{}",
        stderr(&checked)
    );
}
