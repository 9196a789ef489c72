//! What an operator sees of what happened while nobody looked: disks that come and go, an origin that dies and is back, who gave which
//! command; live with `--follow`, over a restart of the daemon, and with a client that is too slow.

use anyhow::{Context as _, ensure};
use e2e::{
    Hearth, LONG, Process, Stack, StackSettings, hearth_program, nbdsh, scenario, wait_until,
};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// More events than the daemon keeps, which are 4096.
const FLOOD: usize = 5000;

fn kinds(events: &Value) -> Vec<String> {
    let events = events["events"].as_array().into_iter().flatten();
    let kinds = events.filter_map(|event| event["kind"].as_str());
    kinds.map(str::to_owned).collect()
}

/// The last event of a kind.
fn last(hearth: &Hearth, kind: &str) -> anyhow::Result<Value> {
    let events = hearth.json(&["events", "--kind", kind])?;
    let last = events["events"].as_array().and_then(|events| events.last());
    last.cloned()
        .with_context(|| format!("no {kind}: {events}"))
}

fn wait_for_kind(hearth: &Hearth, kind: &str) -> anyhow::Result<Value> {
    wait_until(kind, LONG, || {
        let events = hearth.json(&["events", "--kind", kind])?;
        Ok(!kinds(&events).is_empty())
    })?;
    last(hearth, kind)
}

#[test]
fn an_origin_that_dies_and_commands_are_events() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(Some(&uri), "h.pread(4096, 0)")?;
        let before = kinds(&stack.hearth().json(&["events"])?);
        for kind in ["cache-ready", "disk-attached", "daemon-started"] {
            ensure!(
                before.iter().any(|other| other == kind),
                "{kind}: {before:?}"
            );
        }

        stack.origin.kill()?;
        let lost = wait_for_kind(stack.hearth(), "origin-lost")?;
        ensure!(lost["disk"] == Stack::DISK, "{lost}");
        ensure!(lost["severity"] == "warning", "{lost}");
        stack.origin.restart(lab)?;
        let back = wait_for_kind(stack.hearth(), "origin-back")?;
        ensure!(back["number"].as_u64() > lost["number"].as_u64(), "{back}");

        let hearth = stack.hearth();
        hearth.command(&["disk", "set", Stack::DISK, "--write-policy", "around"])?;
        let set = last(hearth, "setting-changed")?;
        let text = set["text"].as_str().unwrap_or_default();
        ensure!(text.contains("around"), "{set}");
        let uid = u64::from(rustix::process::getuid().as_raw());
        ensure!(set["who"]["uid"].as_u64() == Some(uid), "{set}");
        ensure!(set["who"]["pid"].as_u64() > Some(1), "{set}");
        hearth.command(&["disk", "detach", Stack::DISK])?;
        let done = last(hearth, "command")?;
        ensure!(done["disk"] == Stack::DISK, "{done}");
        last(hearth, "disk-detached")?;
        // What is refused has changed nothing.
        hearth.refused_command(&["disk", "detach", "nobody"])?;
        ensure!(
            last(hearth, "command")? == done,
            "a refused command is an event"
        );

        let text = hearth.command(&["events", "--severity", "warning"])?.stdout;
        ensure!(
            text.contains("origin-lost") && !text.contains("origin-back"),
            "{text}"
        );
        let refused = hearth.refused_command(&["events", "--kind", "no-such-kind"])?;
        ensure!(refused.stderr.contains("origin-lost"), "{}", refused.stderr);
        Ok(())
    });
}

/// Lines of a command that follows.
fn lines(log: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(log)?;
    // The last line may be half there.
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(lines.collect())
}

#[test]
fn who_follows_sees_what_happens_over_a_restart() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let socket = stack.hearth().admin_socket().to_owned();
        let mut command = Command::new(hearth_program()?);
        command
            .arg("--socket")
            .arg(&socket)
            .args(["events", "--follow", "--json"]);
        let following = Process::start(lab, "following", &mut command)?;
        let log = following.log().to_path_buf();
        let wait_for = |kind: &str, times: usize| {
            wait_until(kind, LONG, || {
                let seen = lines(&log)?;
                Ok(seen.iter().filter(|event| event["kind"] == kind).count() >= times)
            })
        };
        // A command after it has begun to follow is seen.
        let drop = ["disk", "drop", Stack::DISK];
        wait_until("a command to be seen", LONG, || {
            stack.hearth().command(&drop)?;
            Ok(lines(&log)?.iter().any(|event| event["kind"] == "command"))
        })?;
        stack.stop_hearth()?;
        wait_for("daemon-stops", 1)?;
        stack.start_hearth(lab)?;
        wait_for("daemon-started", 1)?;
        stack.hearth().command(&drop)?;
        wait_until("the next run's command", LONG, || {
            let seen = lines(&log)?;
            let runs = |event: &Value| {
                event["id"]
                    .as_str()
                    .map(|id| id.split('-').next().map(str::to_owned))
            };
            let commands = seen.iter().filter(|event| event["kind"] == "command");
            let mut runs: Vec<_> = commands.map(runs).collect();
            runs.dedup();
            Ok(runs.len() == 2)
        })?;
        let seen = lines(&log)?;
        for pair in seen.windows(2) {
            let number = |event: &Value| event["number"].as_u64();
            let follows = number(&pair[1]) == number(&pair[0]).map(|number| number + 1);
            ensure!(follows || number(&pair[1]) == Some(1), "a gap: {pair:?}");
        }
        let said = std::fs::read_to_string(&log)?;
        ensure!(said.contains("started anew"), "{said}");
        following.kill()
    });
}

/// Has the daemon tell of many commands, fast.
fn flood(socket: &Path) -> anyhow::Result<()> {
    let mut admin = UnixStream::connect(socket)?;
    let mut answers = BufReader::new(admin.try_clone()?);
    for _ in 0..FLOOD {
        let path = format!("/v1/disks/{}/drop", Stack::DISK);
        write!(
            admin,
            "POST {path} HTTP/1.1\r\nHost: hearth\r\nContent-Length: 0\r\n\r\n"
        )?;
        let (mut line, mut length) = (String::new(), 0);
        answers.read_line(&mut line)?;
        ensure!(line.contains(" 200 "), "{line}");
        while line.trim() != "" {
            line.clear();
            answers.read_line(&mut line)?;
            let header = line.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        answers.read_exact(&mut vec![0; length])?;
    }
    Ok(())
}

#[test]
fn a_slow_client_misses_events_and_is_told_so() {
    scenario(&["nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let socket = stack.hearth().admin_socket().to_owned();
        let mut slow = UnixStream::connect(&socket)?;
        slow.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(
            slow,
            "GET /v1/events?after=0 HTTP/1.1\r\nHost: hearth\r\nAccept: text/event-stream\r\n\r\n"
        )?;
        let mut slow = BufReader::new(slow);
        let mut line = String::new();
        slow.read_line(&mut line)?;
        ensure!(line.contains(" 200 "), "{line}");
        flood(&socket)?;

        // Commands are answered, and the daemon keeps no more than its limit.
        let hearth = stack.hearth();
        let events = hearth.json(&["events"])?;
        let count = kinds(&events).len();
        ensure!((1000..=4096).contains(&count), "{count} events are kept");
        let last = last(hearth, "command")?["number"]
            .as_u64()
            .context("a number")?;
        let (mut missed, mut number, mut seen) = (0, 0, 0);
        while number < last {
            line.clear();
            ensure!(
                slow.read_line(&mut line)? > 0,
                "the stream ended at {number}"
            );
            let Some(data) = line.strip_prefix("data: ") else {
                continue;
            };
            let data: Value = serde_json::from_str(data)?;
            if let Some(more) = data["missed"].as_u64() {
                missed += more;
            } else {
                let next = data["number"].as_u64().context("a number")?;
                ensure!(next > number, "{next} after {number}");
                (number, seen) = (next, seen + 1);
            }
        }
        ensure!(missed > 0, "nothing was missed: {seen} events were read");
        ensure!(
            missed + seen == last,
            "{missed} missed, {seen} seen, of {last}"
        );

        // A page behind the oldest one says how many are gone.
        let late = hearth.json(&["events", "--after", "1"])?;
        ensure!(late["missed"].as_u64() > Some(0), "{}", late["missed"]);
        Ok(())
    });
}
