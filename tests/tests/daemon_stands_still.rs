//! The daemon stands still for a while under load, as in a freezer or on a host that was suspended:
//! its own pause is not taken for slow flash, and what is warm stays warm.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::ensure;
use e2e::{Fio, LONG, Process, Stack, StackSettings, scenario};
use rustix::process::Signal;

#[test]
fn a_daemon_that_was_stopped_for_a_while_keeps_its_flash() {
    scenario(&["fio", "nbdcopy", "nbdkit"], |lab| {
        let settings = StackSettings {
            cache_keys: "flash_timeout = '500ms'",
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        stack.read_disk(lab)?;
        let mut fio: Command = Fio::new(lab, "load", &stack.uri())
            .with("rw=randrw")
            .with("bs=4k")
            .with("iodepth=32")
            .with("size=32m")
            .with("time_based=1")
            .with("runtime=15")
            .into_command();
        let fio = Process::start(lab, "fio", &mut fio)?;
        for _ in 0..3 {
            sleep(Duration::from_secs(1));
            stack.hearth().signal(Signal::STOP)?;
            // Longer than the flash may take over anything.
            sleep(Duration::from_secs(3));
            stack.hearth().signal(Signal::CONT)?;
        }
        let ended = fio.wait(LONG)?;
        ensure!(ended.success(), "fio ended with {ended}");
        let shown = stack.hearth().json(&["status"])?["caches"][0].clone();
        ensure!(
            shown["state"] == "serving",
            "{} {}",
            shown["state"],
            shown["reason"]
        );
        stack.check_disk_equals_origin(lab)
    });
}
