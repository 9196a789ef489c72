//! Signals to stop and to renew, however they meet, and a metrics port that somebody else has.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, free_port, nbdsh, scenario,
    wait_until,
};
use rustix::process::Signal;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;

const DISK: &str = "disk";

fn settings(lab: &Lab) -> anyhow::Result<HearthSettings> {
    let flash = Flash::format(lab, "flash.img", 64)?;
    let image = Image::new(lab, "disk.raw", 16)?;
    Ok(HearthSettings::new(&flash).disk(&DiskSettings::on_file(DISK, image.path())))
}

fn reads(hearth: &Hearth) -> anyhow::Result<()> {
    nbdsh(Some(&hearth.uri(DISK)), "h.pread(4096, 0)").map(drop)
}

#[test]
fn a_daemon_is_renewed_although_the_file_of_one_disk_is_gone() {
    scenario(&["nbdsh"], |lab| {
        let gone = Image::new(lab, "gone.raw", 16)?;
        let other = DiskSettings::on_file("other", gone.path());
        let hearth = Hearth::start(lab, &settings(lab)?.disk(&other))?;
        std::fs::rename(gone.path(), lab.path("elsewhere.raw"))?;
        hearth.process().signal(Signal::USR2)?;
        wait_until("hearth to be renewed", LONG, || {
            let log = hearth.log()?;
            ensure!(!log.contains("serving on"), "it was refused");
            Ok(log.matches(" serving version=").count() == 2)
        })?;
        reads(&hearth)?;
        // And the disk comes when its file does.
        std::fs::rename(lab.path("elsewhere.raw"), gone.path())?;
        wait_until("the other disk", LONG, || {
            Ok(hearth.json(&["disk", "show", "other"])?["state"] == "attached")
        })?;
        hearth.stop().map(drop)
    });
}

/// Whether a process has a child.
fn has_child(id: u32) -> anyhow::Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let children = std::fs::read_to_string(task?.path().join("children"));
        if children.is_ok_and(|children| !children.trim().is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_stop_does_not_wait_for_a_renewal_that_hangs() {
    scenario(&["mkfifo"], |lab| {
        let hearth = Hearth::start(lab, &settings(lab)?)?;
        // Whoever reads this waits until somebody writes.
        let config = lab.path("hearth.toml");
        std::fs::remove_file(&config)?;
        e2e::run(Command::new("mkfifo").arg(&config))?;
        hearth.process().signal(Signal::USR2)?;
        wait_until("the check", LONG, || has_child(hearth.id()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn two_signals_to_stop_at_once_are_one() {
    scenario(&[], |lab| {
        let settings = settings(lab)?;
        for _ in 0..5 {
            let hearth = Hearth::start(lab, &settings)?;
            hearth.process().signal(Signal::INT)?;
            hearth.stop()?;
        }
        Ok(())
    });
}

#[test]
fn a_metrics_port_that_is_taken_does_not_keep_disks_from_being_served() {
    scenario(&["nbdsh"], |lab| {
        let port = free_port()?;
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let settings = settings(lab)?.metrics_address(&format!("127.0.0.1:{port}"));
        let hearth = Hearth::start(lab, &settings)?;
        reads(&hearth)?;
        ensure!(hearth.log()?.contains("cannot be listened on"));
        drop(taken);
        wait_until("the metrics' address", LONG, || {
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
        })?;
        hearth.stop().map(drop)
    });
}
