//! What a guest that does not go on is doing, for whoever reads a failed test: whether it is its
//! processors that stand still, QEMU, the daemon, or a disk.

use std::fmt::Write as _;
use std::fs::read_to_string;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::hearth::ADMIN_SOCKET;
use crate::{Qmp, hearth};

/// Between the two looks at the processors: one that computes is somewhere else afterwards.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The threads of the QEMU with the process id `qemu`, what its monitor tells, and the daemon in the
/// same folder.
pub(crate) fn state(qemu: u32, monitor: &Path) -> String {
    let mut said = String::new();
    if threads(u64::from(qemu), &mut said).is_err() {
        return "QEMU has ended".to_owned();
    }
    // It does not answer while QEMU waits for a disk in its main loop.
    let of_qemu = ask(monitor, &mut said).context("the monitor");
    let of_daemon = daemon(&monitor.with_file_name(ADMIN_SOCKET), &mut said).context("the daemon");
    for error in [of_qemu, of_daemon].into_iter().filter_map(Result::err) {
        writeln!(said, "{error:#}").expect("a string takes everything");
    }
    said
}

/// Where in the kernel each thread waits, if it waits.
fn threads(process: u64, said: &mut String) -> anyhow::Result<()> {
    for task in std::fs::read_dir(format!("/proc/{process}/task")).context("its threads")? {
        let task = task?.path();
        let of = |what: &str| read_to_string(task.join(what)).unwrap_or_default();
        let (name, waits) = (of("comm"), of("wchan"));
        writeln!(said, "thread {}: {waits}", name.trim())?;
    }
    Ok(())
}

/// The daemon's threads, and what it has seen of each disk.
fn daemon(socket: &Path, said: &mut String) -> anyhow::Result<()> {
    let socket = socket.to_string_lossy();
    let asked = |words: &[&str]| {
        hearth(&[words, &["--json", "--socket", &socket]].concat()).and_then(|told| told.json())
    };
    let status = asked(&["status"])?;
    threads(status["pid"].as_u64().context("a number")?, said)?;
    let disks = asked(&["disk", "list"])?;
    for disk in disks["disks"].as_array().context("a list")? {
        let (name, vhost_user, counters) = (&disk["name"], &disk["vhost_user"], &disk["counters"]);
        writeln!(said, "{name}: {vhost_user} {counters}")?;
    }
    Ok(())
}

fn ask(monitor: &Path, said: &mut String) -> anyhow::Result<()> {
    let mut monitor = Qmp::connect(monitor)?;
    let status = monitor.ask("query-status", &json!({}))?;
    writeln!(said, "status: {status}")?;
    for look in 0..2 {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let asked = json!({ "command-line": "info registers -a" });
        let registers = monitor.ask("human-monitor-command", &asked)?;
        let lines = registers.as_str().context("text")?.lines();
        for line in lines.filter(|line| line.starts_with("CPU#") || line.starts_with("RIP=")) {
            writeln!(said, "{line}")?;
        }
    }
    let devices = monitor.ask("x-query-virtio", &json!({}))?;
    for device in devices.as_array().context("a list")? {
        let path = &device["path"];
        let device = monitor.ask("x-query-virtio-status", &json!({ "path": path }))?;
        writeln!(said, "{path}: {}", device["status"])?;
    }
    Ok(())
}
