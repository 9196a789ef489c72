//! A qcow2 image with a persistent bitmap lies on a disk that roams, as on a volume without a file system. QEMU of the source
//! writes the bitmap behind the flush with which it stops the guest, and QEMU of the destination writes before it runs it.
//! The guest moves live there and back, and notices nothing; the image is sound, and its bitmap is there.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Image, LONG, Lab, Migrating, RoamingPair, RoamingSettings, run,
    scenario, wait_for_listener, wait_until,
};
use serde_json::{Value, json};

/// Bytes of the volume, and of the guest's disk on it.
const VOLUME_MIB: u64 = 64;
const DISK: &str = "32M";
const BITMAP: &str = "changes";
/// What the guest does again and again: it remembers what it has written.
const STEPS: &str = "device,path=/dev/vdb,operations=4000,mib=8+again";
const ROUND: &str = "PROBE device round=";
/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);

fn uri(socket: &Path) -> String {
    format!(
        "nbd+unix:///{}?socket={}",
        RoamingPair::DISK,
        socket.display()
    )
}

/// A QEMU at a host.
fn qemu(
    (lab, kit): (&Lab, &GuestKit),
    socket: &Path,
    name: &str,
    is_first: bool,
) -> anyhow::Result<Guest> {
    // Both hosts see the file that it boots from.
    let root = format!(
        "driver=file,node-name=root,filename={},locking=off",
        lab.path("guest.raw").display()
    );
    let volume = format!(
        "driver=nbd,node-name=volume,server.type=unix,server.path={},export={}",
        socket.display(),
        RoamingPair::DISK
    );
    let disk = "driver=qcow2,node-name=disk,file=volume,lazy-refcounts=on";
    let link = lab.path(&format!("{name}.move"));
    let incoming = format!("unix:{}", link.display());
    let mut arguments = vec!["-blockdev", &root, "-blockdev", &volume, "-blockdev", disk];
    arguments.extend(["-device", "virtio-blk-pci,drive=root"]);
    arguments.extend(["-device", "virtio-blk-pci,drive=disk"]);
    if !is_first {
        arguments.extend(["-incoming", &incoming]);
    }
    let guest = Guest::boot_as_told(lab, kit, name, STEPS, &arguments)?;
    if !is_first {
        wait_for_listener(&link)?;
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

fn bitmap(uri: &str) -> anyhow::Result<Value> {
    let mut command = Command::new("qemu-img");
    let told = run(command.args(["info", "--output=json", "-f", "qcow2", uri]))?;
    let told: Value = serde_json::from_str(&told.stdout)?;
    let bitmaps = told.pointer("/format-specific/data/bitmaps");
    let bitmaps = bitmaps.and_then(Value::as_array).context("bitmaps")?;
    let found = bitmaps.iter().find(|bitmap| bitmap["name"] == BITMAP);
    found.cloned().with_context(|| format!("{told}"))
}

fn goes_there_and_back(stays: bool) {
    scenario(
        &[GUEST_TOOLS, RoamingPair::TOOLS, &["qemu-img"]].concat(),
        |lab| {
            let kit = GuestKit::build()?;
            kit.disk(lab)?;
            let volume = Image::new(lab, "origin.raw", VOLUME_MIB)?;
            let mut pair = RoamingPair::start_over(lab, volume, RoamingSettings::default())?;
            let sockets = [0, 1].map(|at| pair.host(at).nbd_socket().to_path_buf());
            let at_home = uri(&sockets[0]);
            let qemu_img = |words: &[&str]| run(Command::new("qemu-img").args(words));
            qemu_img(&[
                "create",
                "-q",
                "-f",
                "qcow2",
                "-o",
                "compat=1.1",
                &at_home,
                DISK,
            ])?;
            qemu_img(&["bitmap", "-f", "qcow2", "--add", &at_home, BITMAP])?;
            let guests = Migrating {
                lab,
                kit: &kit,
                steps: STEPS.to_owned(),
            };
            let mut guest = qemu((lab, &kit), &sockets[0], "first", true)?;
            wait_for_rounds(&guest, 1)?;
            for (there, name) in [(1, "second"), (0, "third")] {
                let next = qemu((lab, &kit), &sockets[there], name, false)?;
                std::thread::sleep(INCOMING_WAITS);
                let mut monitor = guest.monitor()?;
                guests.begin_move(&mut monitor, name, false)?;
                monitor.wait_for_move("completed")?;
                if stays {
                    wait_for_rounds(&next, 2)?;
                }
                guest.kill()?;
                wait_for_rounds(&next, 2)?;
                pair.wait_until_owned_by(there)?;
                guest = next;
            }
            guest.monitor()?.ask("quit", &json!({}))?;
            wait_until("the bitmap to be at rest", LONG, || {
                Ok(bitmap(&at_home)?["flags"] == json!(["auto"]))
            })?;
            qemu_img(&["check", "-q", "-f", "qcow2", &at_home])?;
            pair.stop_both()
        },
    );
}

/// All that says that the guest has stopped is its silence behind its last write.
#[test]
fn whose_qemu_stays() {
    goes_there_and_back(true);
}

#[test]
fn whose_qemu_ends() {
    goes_there_and_back(false);
}
