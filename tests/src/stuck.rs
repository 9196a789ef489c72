//! What a guest that does not go on is doing, for whoever reads a failed test: whether it is its
//! processors that stand still, QEMU, or a disk.

use std::fmt::Write as _;
use std::fs::read_to_string;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::Qmp;

/// Between the two looks at the processors: one that computes is somewhere else afterwards.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The threads of the QEMU with the process id `qemu`, and what its monitor tells.
pub(crate) fn state(qemu: u32, monitor: &Path) -> String {
    let Ok(mut said) = threads(qemu) else {
        return "QEMU has ended".to_owned();
    };
    if let Err(error) = ask(monitor, &mut said) {
        // It does not answer while QEMU waits for a disk in its main loop.
        writeln!(said, "the monitor: {error:#}").expect("a string takes everything");
    }
    said
}

/// Where in the kernel each thread waits, if it waits.
fn threads(qemu: u32) -> anyhow::Result<String> {
    let mut said = String::new();
    for task in std::fs::read_dir(format!("/proc/{qemu}/task")).context("its threads")? {
        let task = task?.path();
        let of = |what: &str| read_to_string(task.join(what)).unwrap_or_default();
        let (name, waits) = (of("comm"), of("wchan"));
        writeln!(said, "thread {}: {waits}", name.trim())?;
    }
    Ok(said)
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
        let queues = device["num-vqs"].as_u64().unwrap_or(0);
        for queue in 0..queues {
            let asked = json!({ "path": path, "queue": queue });
            let queue = monitor.ask("x-query-virtio-queue-status", &asked)?;
            writeln!(said, "{}", indices(&queue))?;
        }
    }
    Ok(())
}

/// How far a queue was read and answered, as QEMU knows it: of a disk over vhost-user, as it was
/// when QEMU last stopped it.
fn indices(queue: &Value) -> String {
    let of = |what: &str| queue[what].to_string();
    format!(
        "queue {}: last available {}, used {}, in use {}",
        of("queue-index"),
        of("last-avail-idx"),
        of("used-idx"),
        of("inuse")
    )
}
