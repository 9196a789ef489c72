//! `hearth bench --replay`: a trace on a disk over NBD and vhost-user. What it asks is what the daemon counts and what a recording
//! of it holds; reads only unless writes are asked for; a trace beyond the disk's end, of several VMs, without times or of no
//! format; requests that come late, and a replay that is interrupted.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, SHORT, Stack,
    StackSettings, hearth, hearth_program, scenario, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const HEADER: &str = "time_us,vm,volume,op,offset_bytes,length_bytes\n";

/// Requests of a guest within 2 ms, and a VM beside it.
const ROWS: &str = "\
1000,web-1,root,read,0,4096
1000,db-1,root,read,0,512
1200,web-1,root,write,8192,8192
1300,web-1,root,flush,0,0
1500,web-1,root,read,0,4096
2000,web-1,root,write-zeroes,65536,4096
2500,web-1,root,discard,131072,65536
3000,web-1,root,read,1048576,65536
";
const ASKED: [&str; 7] = [
    "read,0,4096",
    "write,8192,8192",
    "flush,0,0",
    "read,0,4096",
    "write-zeroes,65536,4096",
    "discard,131072,65536",
    "read,1048576,65536",
];

fn trace(lab: &Lab, name: &str, rows: &str) -> anyhow::Result<String> {
    let path = lab.path(name);
    std::fs::write(&path, format!("{HEADER}{rows}"))?;
    Ok(path.display().to_string())
}

/// So many reads of a block each, one after so many microseconds.
fn reads(count: u64, gap_us: u64) -> String {
    let row = |n| format!("{},vm,disk,read,{},4096\n", n * gap_us, n * 4096);
    (0..count).map(row).collect()
}

fn counters(daemon: &Hearth) -> anyhow::Result<Value> {
    Ok(daemon.json(&["disk", "show", "disk"])?["counters"].clone())
}

fn count(report: &Value, kind: &str) -> u64 {
    report[kind]["total_ios"].as_u64().unwrap_or(u64::MAX)
}

#[test]
fn reads_are_what_the_daemon_counts_and_change_no_byte() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let before = std::fs::read(image.path())?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let socket = lab.path("disk-vhost.sock");
        let disk = DiskSettings::on_nbd("disk", &origin.uri()).vhost_user(&socket, "");
        let daemon = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        wait_until("the disk's socket", SHORT, || Ok(socket.exists()))?;
        let trace = trace(lab, "guest.csv", ROWS)?;
        let vhost = format!("vhost-user:{}", socket.display());
        for (target, reads_before) in [(daemon.uri("disk"), 0), (vhost, 3)] {
            let words = ["bench", &target, "--replay", &trace, "--vm", "web-1"];
            let report = daemon.json(&words)?;
            ensure!(count(&report, "read") == 3, "{report}");
            ensure!(report["read"]["io_bytes"] == 73_728, "{report}");
            ensure!(count(&report, "write") == 0, "{report}");
            ensure!(report["left_out_requests"] == 4, "{report}");
            ensure!(report["daemon"]["disk"] == "disk", "{report}");
            // 18 blocks are read, and one of them a second time.
            ensure!(report["daemon"]["read_blocks"] == 18, "{report}");
            ensure!(report["trace_rereference_share"] == 1.0 / 18.0, "{report}");
            let counted = counters(&daemon)?;
            ensure!(counted["read_requests"] == reads_before + 3, "{counted}");
            ensure!(counted["write_requests"] == 0, "{counted}");
            ensure!(counted["erase_requests"] == 0, "{counted}");
        }
        daemon.stop()?;
        ensure!(std::fs::read(image.path())? == before, "a byte was changed");
        Ok(())
    });
}

#[test]
fn a_recording_of_the_replay_is_the_trace() {
    scenario(&["nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        let from = trace(lab, "guest.csv", ROWS)?;
        let to = lab.path("again.csv").display().to_string();
        let words = ["bench", &uri, "--replay", &from, "--vm", "web-1", "--write"];
        let refused = stack.hearth().refused_command(&words)?;
        ensure!(refused.stderr.contains("--yes"), "{}", refused.stderr);
        ensure!(refused.stderr.contains("is lost"), "{}", refused.stderr);
        ensure!(
            counters(stack.hearth())?["write_requests"] == 0,
            "it was written"
        );

        let daemon = stack.hearth();
        daemon.json(&["trace", "record", "--output", &to, "--disk", "disk"])?;
        // One at a time, so that the daemon has them in the trace's order.
        let one = ["--yes", "--iodepth=1"];
        let report = daemon.json(&[&words[..], &one].concat())?;
        daemon.json(&["trace", "record", "--stop"])?;
        for (kind, expected) in [("read", 3), ("write", 1), ("sync", 1), ("trim", 1)] {
            ensure!(count(&report, kind) == expected, "{kind}: {report}");
        }
        ensure!(count(&report, "write_zeroes") == 1, "{report}");
        let text = std::fs::read_to_string(&to)?;
        let rows = text.lines().filter(|row| row.contains(",disk,"));
        let asked: Option<Vec<&str>> = rows
            .map(|row| row.split_once(",disk,disk,").map(|(_, asked)| asked))
            .collect();
        let asked = asked.with_context(|| text.clone())?;
        ensure!(asked == ASKED, "{asked:?}");
        Ok(())
    });
}

#[test]
fn a_trace_beyond_the_disk_is_refused_or_wrapped() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 1)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let rows = "0,vm,disk,read,4096,4096\n9,vm,disk,read,1052672,8192\n";
        let trace = trace(lab, "large.csv", rows)?;
        let uri = origin.uri();
        let words = ["--json", "bench", &uri, "--replay", &trace];
        let refused = hearth(&words)?;
        ensure!(refused.code == 2, "{}: {}", refused.code, refused.stderr);
        for word in ["1036KiB", "1MiB", "--wrap"] {
            ensure!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
        ensure!(origin.requests()?.is_empty(), "it was read");
        let report = hearth(&[&words[..], &["--wrap"]].concat())?.json()?;
        ensure!(count(&report, "read") == 2, "{report}");
        // No daemon serves it.
        ensure!(report.get("daemon").is_none(), "{report}");
        let found = origin.requests()?;
        let found: Vec<_> = found.iter().map(|one| (one.offset, one.length)).collect();
        ensure!(found == [(4096, 4096), (4096, 8192)], "{found:?}");
        Ok(())
    });
}

#[test]
fn traces_that_do_not_say_what_to_do_are_refused_with_what_would() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 2)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let several = trace(lab, "several.csv", ROWS)?;
        let writes = trace(lab, "writes.csv", "0,vm,disk,write,0,4096\n")?;
        let damaged = trace(lab, "damaged.csv", "0,vm,disk,read,0,4096\n1,vm,disk\n")?;
        let put = |name: &str, text: &str| {
            let path = lab.path(name);
            std::fs::write(&path, text).map(|()| path.display().to_string())
        };
        let strange = put("strange.dat", "no trace at all\n")?;
        let keys = put("keys.txt", "1\n2\n3\n1\n")?;
        let missing = lab.path("none.csv").display().to_string();
        let uri = origin.uri();
        let refused = |trace: &str, more: &[&str], code: i32, word: &str| {
            let answer = hearth(&[&["bench", &uri, "--replay", trace], more].concat())?;
            ensure!(answer.code == code, "{}: {}", answer.code, answer.stderr);
            ensure!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
            anyhow::Ok(())
        };
        refused(&several, &[], 2, "--vm 'db-1' --volume 'root'")?;
        refused(&several, &["--vm=web-2"], 6, "--vm 'web-1' --volume 'root'")?;
        refused(&writes, &[], 2, "--write")?;
        refused(&damaged, &[], 1, "line 3")?;
        refused(&strange, &[], 2, "hearth trace formats")?;
        refused(&keys, &["--format=text"], 2, "--speed max")?;
        refused(&missing, &[], 1, "none.csv")?;
        refused(&several, &["--rw=read"], 2, "--rw")?;
        ensure!(origin.requests()?.is_empty(), "it was read");
        let report = ["--replay", &keys, "--format=text", "--speed=max"];
        let report = hearth(&[&["--json", "bench", &uri], &report[..]].concat())?.json()?;
        ensure!(count(&report, "read") == 4, "{report}");
        Ok(())
    });
}

#[test]
fn requests_that_wait_for_room_are_late_and_a_faster_clock_changes_no_count() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 1)?;
        let slow = OriginSettings {
            delay: Some("20ms"),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &image, slow)?;
        let uri = origin.uri();
        let replay = |rows: &str, more: &[&str]| {
            let trace = trace(lab, "guest.csv", rows)?;
            hearth(&[&["--json", "bench", &uri, "--replay", &trace], more].concat())?.json()
        };
        // Within 10 us, one at a time: each after the first waits for at least 20 ms.
        let report = replay(&reads(10, 1), &["--iodepth=1"])?;
        ensure!(count(&report, "read") == 10, "{report}");
        ensure!(report["late_requests"].as_u64() >= Some(9), "{report}");
        let nanos = |key: &str| report["read"][key]["max"].as_u64().unwrap_or(0);
        ensure!(nanos("lat_ns") >= 180_000_000, "{report}");
        ensure!(nanos("clat_ns") < nanos("lat_ns"), "{report}");
        // A request after 100 s is not waited for that long.
        let report = replay(&reads(2, 100_000_000), &["--speed=1000"])?;
        ensure!(count(&report, "read") == 2, "{report}");
        ensure!(report["runtime"].as_u64() >= Some(100), "{report}");
        let report = replay(&reads(2, 100_000_000), &["--speed=max"])?;
        ensure!(count(&report, "read") == 2, "{report}");
        ensure!(report["late_requests"] == 0, "{report}");
        Ok(())
    });
}

#[test]
fn an_interrupted_replay_tells_what_it_has_measured() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "disk.raw", 1)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        // The second request is due in an hour.
        let trace = trace(lab, "guest.csv", &reads(2, 3_600_000_000))?;
        let child = Command::new(hearth_program()?)
            .args(["--json", "bench", &origin.uri(), "--replay", &trace])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        wait_until("the first request", SHORT, || {
            Ok(!origin.requests()?.is_empty())
        })?;
        kill_process(Pid::from_child(&child), Signal::INT)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.code() == Some(1), "{:?}", output.status);
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(said.contains("interrupted"), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(count(&report, "read") == 1, "{report}");
        ensure!(report["trace_requests"] == 2, "{report}");
        Ok(())
    });
}
