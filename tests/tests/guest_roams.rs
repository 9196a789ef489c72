//! A Linux guest that writes and reads all the time moves live to another host and back, each with a daemon of its
//! own, and its disk goes with it: it sees no error, and reads what it wrote last. One whose move fails at the last
//! moment goes on where it was. Between hosts that do not know of each other the same guest is seen to read what is
//! too old.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, LONG, Lab, RoamingPair, RoamingSettings, scenario,
    wait_for_listener, wait_until,
};
use serde_json::json;

/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);
/// What the guest does again and again: the version of each page that it writes is kept in its memory, and all
/// that it wrote is read once more at the end of a round. It moves within a round of some seconds.
const STEPS: &str = "device,path=/dev/vdb,operations=10000,mib=8+again";
/// What it says at the end of a round.
const ROUND: &str = "PROBE device round=";

/// Where a QEMU hears of a guest that comes from another one.
fn incoming(lab: &Lab, name: &str) -> PathBuf {
    lab.path(&format!("{name}.move"))
}

/// A QEMU at a host. If it is not the first one it waits for the guest.
fn qemu(
    lab: &Lab,
    kit: &GuestKit,
    socket: &str,
    (name, is_first): (&str, bool),
) -> anyhow::Result<Guest> {
    // Both hosts see the file that it boots from.
    let root = format!(
        "driver=file,node-name=root,filename={},locking=off",
        lab.path("guest.raw").display()
    );
    let disk = format!(
        "driver=nbd,node-name=disk,server.type=unix,server.path={socket},export={}",
        RoamingPair::DISK
    );
    let uri = format!("unix:{}", incoming(lab, name).display());
    let mut arguments = Vec::new();
    for (drive, device) in [
        (&root, "virtio-blk-pci,drive=root"),
        (&disk, "virtio-blk-pci,drive=disk"),
    ] {
        arguments.extend(["-blockdev", drive, "-device", device]);
    }
    if !is_first {
        arguments.extend(["-incoming", &uri]);
    }
    let guest = Guest::boot_as_told(lab, kit, name, STEPS, &arguments)?;
    if !is_first {
        wait_for_listener(&incoming(lab, name))?;
    }
    Ok(guest)
}

/// Waits until a guest has ended some rounds in this QEMU, all of them well.
fn wait_for_rounds(guest: &Guest, rounds: usize) -> anyhow::Result<()> {
    wait_until("the guest to end a round", LONG, || {
        let said = guest.console();
        let is_well = !said.contains("PROBE bad") && !said.contains("PROBE error");
        ensure!(is_well, "the guest has seen:\n{said}");
        Ok(said.matches(ROUND).count() >= rounds)
    })
}

fn moves_there_and_back(lab: &Lab, settings: RoamingSettings) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    kit.disk(lab)?;
    let mut pair = RoamingPair::new(lab, settings)?;
    pair.start_host(0)?;
    if settings.roams {
        pair.wait_until_owned_by(0)?;
    }
    pair.start_host(1)?;
    let socket = pair.host(0).nbd_socket().display().to_string();
    let mut guest = qemu(lab, &kit, &socket, ("first", true))?;
    wait_for_rounds(&guest, 1)?;
    // First the QEMU that the guest came from stays, and all that says that it has stopped is its silence; then
    // that QEMU ends at once.
    for (at, name, stays) in [(1, "second", true), (0, "third", false)] {
        let socket = pair.host(at).nbd_socket().display().to_string();
        let next = qemu(lab, &kit, &socket, (name, false))?;
        if stays {
            std::thread::sleep(INCOMING_WAITS);
        }
        let mut monitor = guest.monitor()?;
        monitor.begin_move(&incoming(lab, name))?;
        monitor.wait_for_move("completed")?;
        if stays {
            wait_for_rounds(&next, 2)?;
        }
        guest.kill()?;
        wait_for_rounds(&next, 2)?;
        if settings.roams {
            pair.wait_until_owned_by(at)?;
        }
        guest = next;
    }
    guest.kill()?;
    pair.stop_both()
}

fn tools() -> Vec<&'static str> {
    [GUEST_TOOLS, RoamingPair::TOOLS].concat()
}

#[test]
fn a_guest_with_unwritten_data_moves_there_and_back() {
    scenario(&tools(), |lab| {
        moves_there_and_back(lab, RoamingSettings::default())
    });
}

#[test]
fn a_guest_that_writes_through_moves_there_and_back() {
    scenario(&tools(), |lab| {
        let settings = RoamingSettings {
            write_policy: "through",
            ..RoamingSettings::default()
        };
        moves_there_and_back(lab, settings)
    });
}

#[test]
fn a_guest_whose_move_fails_at_the_last_moment_goes_on_where_it_was() {
    scenario(&tools(), |lab| {
        let kit = GuestKit::build()?;
        kit.disk(lab)?;
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let record = pair.record()?;
        let sockets = [0, 1].map(|at| pair.host(at).nbd_socket().display().to_string());
        let guest = qemu(lab, &kit, &sockets[0], ("first", true))?;
        wait_for_rounds(&guest, 1)?;
        let next = qemu(lab, &kit, &sockets[1], ("second", false))?;
        std::thread::sleep(INCOMING_WAITS);
        let mut monitor = guest.monitor()?;
        monitor.pause_before_switchover(true)?;
        monitor.begin_move(&incoming(lab, "second"))?;
        monitor.wait_for_move("pre-switchover")?;
        // The guest has stopped, and has flushed. A QEMU that ends flushes, too.
        next.monitor()?.ask("quit", &json!({}))?;
        let rounds = guest.console().matches(ROUND).count();
        monitor.ask("migrate-continue", &json!({ "state": "pre-switchover" }))?;
        monitor.wait_for_move("failed")?;
        wait_for_rounds(&guest, rounds + 2)?;
        ensure!(pair.record()? == record, "the disk has moved");
        pair.wait_until_owned_by(0)?;
        guest.kill()?;
        pair.stop_both()
    });
}

#[test]
fn between_hosts_that_do_not_know_of_each_other_the_guest_is_seen_to_read_what_is_too_old() {
    scenario(&tools(), |lab| {
        let strangers = RoamingSettings {
            roams: false,
            ..RoamingSettings::default()
        };
        let seen = moves_there_and_back(lab, strangers);
        let seen = seen.err().context("the guest has noticed nothing")?;
        let seen = format!("{seen:#}");
        ensure!(seen.contains("PROBE bad page="), "{seen}");
        Ok(())
    });
}
