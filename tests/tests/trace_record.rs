//! What guests ask is recorded while the daemon runs, and read back as it was asked.

use anyhow::{Context, ensure};
use e2e::{Stack, StackSettings, nbdsh, scenario, wait_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Requests of a guest, and what a trace of them says.
const REQUESTS: &str = r"
h.pwrite(b'x' * 8192, 4096)
h.pread(512, 1024)
h.pread(65536, 1 << 20)
h.flush()
h.zero(4096, 40960)
h.trim(65536, 131072)
h.pread(4096, 4096)
";
const ROWS: [&str; 7] = [
    "write,4096,8192",
    "read,1024,512",
    "read,1048576,65536",
    "flush,0,0",
    "write-zeroes,40960,4096",
    "discard,131072,65536",
    "read,4096,4096",
];

/// The rows of a recording without their times, by way of `hearth trace convert`.
fn rows(stack: &mut Stack, trace: &Path) -> anyhow::Result<Vec<String>> {
    let csv = trace.with_extension("plain.csv");
    let (from, to) = (trace.display().to_string(), csv.display().to_string());
    stack
        .hearth()
        .command(&["trace", "convert", &from, "--output", &to, "--force"])?;
    let text = std::fs::read_to_string(&csv).context("the converted trace")?;
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("time_us"));
    let mut last = 0;
    rows.map(|row| {
        let (time, rest) = row.split_once(',').context("a row has columns")?;
        let time: u64 = time.parse().context("a time")?;
        ensure!(time >= last, "{row} is earlier than the row before");
        last = time;
        let rest = rest.strip_prefix("disk,disk,").context("VM and volume")?;
        Ok(rest.to_owned())
    })
    .collect()
}

fn record(stack: &mut Stack, words: &[&str]) -> anyhow::Result<Value> {
    stack.hearth().json(&[&["trace", "record"], words].concat())
}

#[test]
fn a_recording_holds_every_request_in_order() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(Some(&uri), "h.pread(4096, 0)")?;
        let trace = lab.path("guest.csv.zst");
        let output = trace.display().to_string();
        let begun = record(&mut stack, &["--output", &output, "--disk", "disk"])?;
        ensure!(begun["state"] == "recording", "{begun}");
        let refused =
            stack
                .hearth()
                .refused_command(&["trace", "record", "--output", "/nowhere/else"])?;
        ensure!(
            refused.stderr.contains("is being recorded"),
            "{}",
            refused.stderr
        );

        nbdsh(Some(&uri), REQUESTS)?;
        let ended = record(&mut stack, &["--stop"])?;
        ensure!(ended["state"] == "ended", "{ended}");
        ensure!(ended["lost_requests"] == 0, "{ended}");
        nbdsh(Some(&uri), "h.pread(4096, 0)")?;

        // libnbd ends its sessions with a flush if the server knows it.
        let mut found = rows(&mut stack, &trace)?;
        ensure!(ended["rows"] == found.len(), "{ended} for {found:?}");
        found.truncate(ROWS.len());
        ensure!(found == ROWS, "{found:?}");
        let metrics = stack.hearth().json(&["status"])?;
        ensure!(
            metrics["requests_traced"]["recorded"] == ended["requests"],
            "{metrics}"
        );

        let info = stack.hearth().json(&["trace", "info", &output])?;
        ensure!(info["format"] == "hearth", "{info}");
        ensure!(info["operations"]["discard"]["bytes"] == 65536, "{info}");
        let again = stack
            .hearth()
            .refused_command(&["trace", "record", "--output", &output])?;
        ensure!(again.stderr.contains("exists already"), "{}", again.stderr);
        Ok(())
    });
}

#[test]
fn what_was_recorded_before_a_kill_can_be_read() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        let trace = lab.path("guest.csv.zst");
        let output = trace.display().to_string();
        record(&mut stack, &["--output", &output])?;
        nbdsh(Some(&uri), REQUESTS)?;
        wait_until("the recorder to flush", Duration::from_secs(20), || {
            // Before the first flush there is an empty file.
            Ok(rows(&mut stack, &trace).is_ok_and(|rows| rows.len() >= ROWS.len()))
        })?;
        stack.kill_hearth()?;
        stack.start_hearth(lab)?;
        let found = rows(&mut stack, &trace)?;
        ensure!(found.len() >= ROWS.len(), "{found:?}");
        ensure!(found[..ROWS.len()] == ROWS, "{found:?}");
        Ok(())
    });
}

#[test]
fn a_sample_holds_all_accesses_of_the_blocks_in_it_and_ends_by_itself() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        let trace = lab.path("sample.csv.zst");
        let output = trace.display().to_string();
        record(
            &mut stack,
            &["--output", &output, "--sample", "1/8", "--duration", "4s"],
        )?;
        nbdsh(
            Some(&uri),
            "for again in range(3):\n  for block in range(1024):\n    h.pread(4096, block * 4096)\n",
        )?;
        wait_until("the recording to end", Duration::from_secs(20), || {
            let status = record(&mut stack, &["--status"])?;
            Ok(status["state"] == "ended")
        })?;
        let mut counts = std::collections::BTreeMap::new();
        for row in rows(&mut stack, &trace)? {
            if row.starts_with("read") {
                *counts.entry(row).or_insert(0) += 1;
            }
        }
        // 128 of 1024, give or take what chance does.
        ensure!((80..180).contains(&counts.len()), "{} blocks", counts.len());
        ensure!(counts.values().all(|count| *count == 3), "{counts:?}");
        Ok(())
    });
}
