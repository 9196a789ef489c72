//! A guest whose agent speaks with its host moves live to another host and back: each host's daemon hears the agent
//! while the guest is there and no longer, and the guest runs on.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab,
    SHORT, scenario, wait_for_listener, wait_until, with_agent,
};
use serde_json::Value;

const VM: &str = "vm";

/// A host, with a daemon that serves some disk of the VM.
struct Host {
    hearth: Hearth,
    socket: PathBuf,
}

impl Host {
    fn start(lab: &Lab, name: &str) -> anyhow::Result<Self> {
        let own = lab.host(name)?;
        let flash = Flash::format(&own, "flash.img", 128)?;
        let image = Image::new(&own, "scratch.raw", 8)?;
        let folder = own.path("guest");
        let disk = DiskSettings::on_file("scratch", image.path()).key(&format!("vm = '{VM}'"));
        let settings = HearthSettings::new(&flash)
            .disk(&disk)
            .section(&format!("\n[guest]\ndirectory = '{}'\n", folder.display()));
        let hearth = Hearth::start(&own, &settings)?;
        let socket = folder.join(format!("{VM}.sock"));
        wait_until("the channel's socket", SHORT, || Ok(socket.exists()))?;
        Ok(Self { hearth, socket })
    }

    fn guest(&self) -> anyhow::Result<Value> {
        Ok(self.hearth.json(&["vm", "show", VM])?["guest"].clone())
    }

    /// Waits until the agent has said how the memory is; gives the guest's boot.
    fn hears(&self) -> anyhow::Result<String> {
        wait_until("the agent", LONG, || {
            let guest = self.guest()?;
            Ok(!guest["memory"].is_null() && !guest["boot"].is_null())
        })?;
        let guest = self.guest()?;
        Ok(guest["boot"].as_str().context("a boot's id")?.to_owned())
    }

    fn hears_nobody(&self) -> anyhow::Result<()> {
        wait_until("the guest to be gone", SHORT, || {
            let guest = self.guest()?;
            Ok(guest["memory"].is_null() && guest["process"].is_null())
        })
    }
}

fn incoming(lab: &Lab, name: &str) -> PathBuf {
    lab.path(&format!("{name}.move"))
}

/// A QEMU at a host. If it is not the first one it waits for the guest.
fn qemu(
    lab: &Lab,
    kit: &GuestKit,
    host: &Host,
    (name, is_first): (&str, bool),
) -> anyhow::Result<Guest> {
    // Both hosts see the file that it boots from.
    let root = format!(
        "driver=file,node-name=root,filename={},locking=off",
        lab.path("guest.raw").display()
    );
    let channel = format!("socket,id=agent,path={},reconnect=1", host.socket.display());
    let uri = format!("unix:{}", incoming(lab, name).display());
    let mut arguments = vec!["-blockdev", root.as_str()];
    arguments.extend(["-device", "virtio-blk-pci,drive=root"]);
    arguments.extend(["-device", "virtio-serial-pci", "-chardev", &channel]);
    arguments.extend([
        "-device",
        "virtserialport,chardev=agent,name=org.hearth.guest.0",
    ]);
    if !is_first {
        arguments.extend(["-incoming", &uri]);
    }
    let steps = with_agent("forever", "--epoch,500ms");
    let guest = Guest::boot_as_told(lab, kit, name, &steps, &arguments)?;
    if !is_first {
        wait_for_listener(&incoming(lab, name))?;
    }
    Ok(guest)
}

/// Moves the guest of a QEMU to another one, which then is the only one.
fn go(lab: &Lab, from: Guest, name: &str) -> anyhow::Result<()> {
    let mut monitor = from.monitor()?;
    monitor.begin_move(&incoming(lab, name))?;
    monitor.wait_for_move("completed")?;
    from.kill().map(drop)
}

#[test]
fn each_host_hears_the_agent_while_the_guest_is_there() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        kit.disk(lab)?;
        let (a, b) = (Host::start(lab, "a")?, Host::start(lab, "b")?);
        let mut first = qemu(lab, &kit, &a, ("first", true))?;
        first.wait_for("PROBE waiting")?;
        let boot = a.hears()?;

        let second = qemu(lab, &kit, &b, ("second", false))?;
        go(lab, first, "second")?;
        ensure!(b.hears()? == boot, "it is the same guest, and runs on");
        a.hears_nobody()?;

        let third = qemu(lab, &kit, &a, ("third", false))?;
        go(lab, second, "third")?;
        ensure!(a.hears()? == boot, "it is the same guest, and runs on");
        b.hears_nobody()?;
        third.kill()?;
        ensure!(
            a.hearth.stop()?.success() && b.hearth.stop()?.success(),
            "clean stops"
        );
        Ok(())
    });
}
