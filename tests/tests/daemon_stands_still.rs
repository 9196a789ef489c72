//! The daemon stands still for a while under load, as in a freezer or on a host that was suspended:
//! its own pause is not taken for slow flash, nor for an origin that is dead, and what is warm stays warm.

use std::thread::sleep;
use std::time::Duration;

use anyhow::ensure;
use e2e::{Fio, LONG, Lab, OriginSettings, Process, Stack, StackSettings, scenario};
use rustix::process::Signal;

/// Stops the daemon three times for so long, under a load of fio with these settings.
fn stand_still(stack: &mut Stack, lab: &Lab, time: Duration, more: &[&str]) -> anyhow::Result<()> {
    let load = Fio::new(lab, "load", &stack.uri())
        .with("bs=4k")
        .with("time_based=1")
        .with("runtime=15");
    let load = more.iter().fold(load, |load, line| load.with(line));
    let fio = Process::start(lab, "fio", &mut load.into_command())?;
    for _ in 0..3 {
        sleep(Duration::from_secs(1));
        stack.hearth().process().pause()?;
        sleep(time);
        stack.hearth().process().signal(Signal::CONT)?;
    }
    let ended = fio.wait(LONG)?;
    ensure!(ended.success(), "fio ended with {ended}");
    Ok(())
}

#[test]
fn a_daemon_that_was_stopped_for_a_while_keeps_its_flash() {
    scenario(&["fio", "nbdcopy", "nbdkit"], |lab| {
        let settings = StackSettings {
            cache_keys: "flash_timeout = '500ms'",
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        stack.read_disk(lab)?;
        // Longer than the flash may take over anything.
        let time = Duration::from_secs(3);
        stand_still(
            &mut stack,
            lab,
            time,
            &["rw=randrw", "iodepth=32", "size=32m"],
        )?;
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

#[test]
fn a_daemon_that_was_stopped_for_a_while_does_not_take_its_origin_for_dead() {
    scenario(&["fio", "nbdcopy", "nbdkit"], |lab| {
        let settings = StackSettings {
            // Writes to one block wait for each other in the daemon.
            origin: OriginSettings {
                delay: Some("20ms"),
                ..OriginSettings::default()
            },
            origin_keys: "request_timeout = '3s'",
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        let time = Duration::from_secs(5);
        stand_still(
            &mut stack,
            lab,
            time,
            &["rw=randwrite", "iodepth=64", "size=64k"],
        )?;
        stack.check_disk_equals_origin(lab)
    });
}
