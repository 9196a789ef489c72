//! The storage plugin for Proxmox VE, with stand-ins of its modules: a volume of another storage comes to Hearth when it is activated, a
//! real QEMU opens it by the options that the plugin returns, and the flash forgets it before it is removed. Proxmox VE itself takes no part.

use anyhow::{Context as _, ensure};
use e2e::{
    Flash, Hearth, HearthSettings, Image, Lab, Process, Qmp, SHORT, hearth_program, nbdsh, run,
    scenario, wait_until,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const VOLUME: &str = "vm-100-disk-0";
const DISK: &str = "fast-vm-100-disk-0";

/// The plugin, as a node of Proxmox VE has it.
struct Node<'a> {
    lab: &'a Lab,
    program: PathBuf,
}

impl<'a> Node<'a> {
    fn new(lab: &'a Lab, hearth: &Hearth) -> anyhow::Result<Self> {
        let script = format!(
            "#!/bin/sh\nHEARTH_SOCKET={} exec {} \"$@\"\n",
            hearth.admin_socket().display(),
            hearth_program()?.display()
        );
        let program = lab.write("hearth", &script)?;
        run(Command::new("chmod").arg("755").arg(&program))?;
        Ok(Self { lab, program })
    }

    /// What a method answers for the storage on Hearth.
    fn calls(&self, method: &str, words: &[&str]) -> anyhow::Result<Value> {
        self.calls_of("fast", method, words)
    }

    /// What a method answers for this storage.
    fn calls_of(&self, storage: &str, method: &str, words: &[&str]) -> anyhow::Result<Value> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("perl");
        command
            .arg("-I")
            .arg(here.join("proxmox"))
            .arg(here.join("proxmox/try.pl"))
            .arg(here.join("../packaging/proxmox/HearthPlugin.pm"))
            .arg(&self.program)
            .arg(self.lab.folder())
            .arg(self.lab.folder())
            .args([storage, method])
            .args(words);
        let said = run(&mut command)?.stdout;
        serde_json::from_str(&said).context(said)
    }

    /// Calls a method that has to die, with this in what it says.
    fn refuses(&self, storage: &str, method: &str, word: (&[&str], &str)) -> anyhow::Result<()> {
        let (words, why) = word;
        let answer = self.calls_of(storage, method, words)?;
        let died = answer["died"].as_str();
        ensure!(died.is_some_and(|died| died.contains(why)), "{answer}");
        Ok(())
    }

    fn does(&self, method: &str, words: &[&str]) -> anyhow::Result<Value> {
        let answer = self.calls(method, words)?;
        ensure!(answer["died"].is_null(), "{method}: {answer}");
        Ok(answer)
    }
}

/// A QEMU that has the node as its disk, and has not begun to run.
fn qemu(lab: &Lab, blockdev: &Value) -> anyhow::Result<(Process, Qmp)> {
    let socket = lab.path("qmp.sock");
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args([
            "-S",
            "-accel",
            "tcg",
            "-m",
            "64",
            "-display",
            "none",
            "-nodefaults",
        ])
        .args(["-blockdev", &blockdev.to_string()])
        .args(["-device", "virtio-blk-pci,drive=drive-scsi0"])
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", socket.display()));
    let process = Process::start(lab, "qemu", &mut command)?;
    wait_until(
        "QEMU's monitor",
        SHORT,
        || Ok(Qmp::connect(&socket).is_ok()),
    )?;
    let qmp = Qmp::connect(&socket)?;
    Ok((process, qmp))
}

#[test]
fn a_volume_comes_to_hearth_and_goes() {
    let tools = ["perl", "qemu-system-x86_64", "nbdsh"];
    scenario(&tools, |lab| {
        let image = Image::new(lab, VOLUME, 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let node = Node::new(lab, &hearth)?;
        // The plugin knows version 15, and the stand-in is of version 13.
        ensure!(node.does("api", &[])?["answer"][0] == 13);
        let activated = node.does("activate_storage", &[])?;
        ensure!(activated["activated"] == json!(["below"]), "{activated}");

        node.does("activate_volume", &[VOLUME])?;
        node.does("activate_volume", &[VOLUME])?;
        let shown = hearth.json(&["disk", "show", DISK])?;
        ensure!(
            shown["vm"] == "vm-100" && shown["write_policy"] == "back",
            "{shown}"
        );

        // qemu-server adds a name and what a disk's options say.
        let mut blockdev = node.does("qemu_blockdev_options", &[VOLUME])?["answer"][0].clone();
        blockdev["node-name"] = json!("drive-scsi0");
        blockdev["discard"] = json!("unmap");
        let (process, mut qmp) = qemu(lab, &blockdev)?;
        let nodes = qmp.ask("query-named-block-nodes", &json!({}))?;
        ensure!(nodes[0]["image"]["virtual-size"] == 16 << 20, "{nodes}");
        process.kill()?;
        let path = node.does("path", &[VOLUME])?["answer"][0].clone();
        let path = path.as_str().context("a URI")?;
        let word = Image::word(4096);
        let read = format!(
            "assert h.pread(4096, 4096)[:8] == ({word}).to_bytes(8, 'little')\nh.pwrite(b'w' * 4096, 0)\nh.flush()"
        );
        nbdsh(Some(path), &read)?;

        // A snapshot below has what was written, and the volume goes only when it has all.
        node.does("volume_snapshot", &[VOLUME, "monday"])?;
        ensure!(
            image.read(0, 4096)? == [b'w'; 4096],
            "the snapshot would lack a write"
        );
        let running = node.calls("volume_resize", &[VOLUME, "33554432", "1"])?;
        ensure!(
            running["died"]
                .as_str()
                .is_some_and(|why| why.contains("shut down")),
            "{running}"
        );
        node.does("deactivate_volume", &[VOLUME])?;
        hearth.refused_command(&["disk", "show", DISK])?;

        // The next volume of this name is another one.
        let record = lab.path(&format!("{VOLUME}.hearth"));
        ensure!(record.exists(), "no owner's record");
        let freed = node.does("free_image", &[VOLUME])?;
        ensure!(!record.exists(), "the owner's record stays");
        ensure!(
            freed["asked"] == json!(["activate_volume", "deactivate_volume", "free_image"]),
            "{freed}"
        );
        hearth.command(&[
            "disk",
            "attach",
            DISK,
            "--origin",
            &image.path().display().to_string(),
            "--raw",
        ])?;
        let shown = hearth.json(&["disk", "show", DISK])?;
        ensure!(shown["warm_blocks"] == 0, "{shown}");
        hearth.stop().map(drop)
    });
}

#[test]
fn a_volume_whose_bytes_wait_stays_and_a_daemon_that_is_down_is_told() {
    scenario(&["perl", "nbdsh"], |lab| {
        Image::new(lab, VOLUME, 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let node = Node::new(lab, &hearth)?;
        node.does("activate_volume", &[VOLUME])?;
        hearth.command(&[
            "disk",
            "set",
            DISK,
            "--age-max",
            "1000s",
            "--idle-after",
            "1000s",
        ])?;
        nbdsh(
            Some(&hearth.uri(DISK)),
            "h.pwrite(b'd' * 4096, 0)\nh.flush()",
        )?;
        let stays = node.does("deactivate_volume", &[VOLUME])?;
        ensure!(
            stays["warned"][0]
                .as_str()
                .is_some_and(|why| why.contains("stays attached")),
            "{stays}"
        );
        ensure!(stays["asked"] == json!([]), "{stays}");
        hearth.command(&["disk", "flush", DISK, "--wait"])?;
        hearth.stop()?;
        let down = node.calls("activate_volume", &[VOLUME])?;
        ensure!(
            down["died"]
                .as_str()
                .is_some_and(|why| why.contains("not known")),
            "{down}"
        );
        Ok(())
    });
}

#[test]
fn an_attached_volume_is_resized_and_others_are_refused() {
    scenario(&["perl", "qemu-img"], |lab| {
        Image::new(lab, VOLUME, 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let node = Node::new(lab, &hearth)?;
        node.does("activate_volume", &[VOLUME])?;
        // Proxmox VE activates a volume before it resizes it.
        node.does("volume_resize", &[VOLUME, "33554432", "0"])?;
        let shown = hearth.json(&["disk", "show", DISK])?;
        ensure!(shown["size_bytes"] == 32 << 20, "{shown}");

        let state = node.does("alloc_image", &["100", "raw", "vm-100-cloudinit", "4096"])?;
        let given = json!(["100", "raw", "vm-100-cloudinit.raw", "4096"]);
        ensure!(state["given"] == given, "{state}");

        let image = "vm-100-disk-1.qcow2";
        node.refuses("fast", "activate_volume", (&[image], "raw volumes"))?;
        node.refuses("open", "activate_storage", (&[], "lacks images"))?;
        node.refuses("twice", "activate_storage", (&[], "on Hearth itself"))?;
        node.refuses("fast", "map_volume", (&[], "TPM"))?;

        // A disk of that name over other bytes is not taken for the volume.
        hearth.command(&["disk", "detach", DISK])?;
        let other = Image::new(lab, "other.raw", 16)?;
        let other = other.path().display().to_string();
        hearth.command(&["disk", "attach", DISK, "--origin", &other, "--raw"])?;
        node.refuses("fast", "activate_volume", (&[VOLUME], "and not on"))?;
        node.refuses("fast", "deactivate_volume", (&[VOLUME], "and not on"))?;
        hearth.stop().map(drop)
    });
}
