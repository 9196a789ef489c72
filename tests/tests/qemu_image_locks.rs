//! QEMU and Hearth do not write one image, whoever comes first: Hearth takes the locks that QEMU's raw
//! driver takes.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Process, Qmp, SHORT, run,
    run_expecting_failure, scenario, wait_until,
};
use serde_json::json;

const TOOLS: &[&str] = &["qemu-system-x86_64", "qemu-io"];

/// A VM that has the image as its disk, and has not begun to run.
fn qemu(lab: &Lab, image: &Path, more: &str) -> anyhow::Result<Process> {
    let socket = lab.path("qemu.sock");
    let _ = std::fs::remove_file(&socket);
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
        .arg("-drive")
        .arg(format!(
            "if=virtio,format=raw,file={}{more}",
            image.display()
        ))
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", socket.display()));
    let mut process = Process::start(lab, "qemu", &mut command)?;
    wait_until("QEMU to have the image", SHORT, || {
        ensure!(process.is_running(), "QEMU ended");
        // It answers when everything is open.
        let talks = Qmp::connect(&socket).and_then(|mut qemu| qemu.ask("query-status", &json!({})));
        Ok(talks.is_ok())
    })?;
    Ok(process)
}

/// Whether a VM cannot have the image as its disk.
fn qemu_is_refused(lab: &Lab, image: &Path, more: &str) -> anyhow::Result<bool> {
    let Ok(process) = qemu(lab, image, more) else {
        let said = std::fs::read_to_string(lab.path("qemu.log"))?;
        ensure!(said.contains("lock"), "{said}");
        return Ok(true);
    };
    process.kill()?;
    Ok(false)
}

fn attach(hearth: &Hearth, image: &Path, more: &[&str]) -> anyhow::Result<()> {
    let image = image.display().to_string();
    let words = ["disk", "attach", "disk", "--origin", &image];
    hearth.command(&[&words[..], more].concat()).map(drop)
}

#[test]
fn an_image_that_qemu_has_open_is_refused() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let refused = |more: &[&str]| -> anyhow::Result<()> {
            let image = image.path().display().to_string();
            let words = ["disk", "attach", "disk", "--origin", &image];
            let output = hearth.refused_command(&[&words[..], more].concat())?;
            ensure!(
                output.stderr.contains("in use by QEMU"),
                "{}",
                output.stderr
            );
            Ok(())
        };
        let writer = qemu(lab, image.path(), "")?;
        refused(&[])?;
        refused(&["--read-only"])?;
        writer.kill()?;
        let reader = qemu(lab, image.path(), ",readonly=on")?;
        refused(&[])?;
        attach(&hearth, image.path(), &["--read-only"])?;
        hearth.command(&["disk", "detach", "disk"])?;
        reader.kill()?;
        // Told to take no locks it cannot be seen.
        let careless = qemu(lab, image.path(), ",file.locking=off")?;
        attach(&hearth, image.path(), &[])?;
        careless.kill()?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn an_image_that_hearth_has_open_is_refused_to_qemu() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let disk = DiskSettings::on_file("disk", image.path());
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let io = |words: &[&str]| {
            let mut command = Command::new("qemu-io");
            command.args(["-f", "raw"]).args(words).arg(image.path());
            command
        };
        let output = run_expecting_failure(&mut io(&["-c", "write 0 4k"]))?;
        ensure!(output.stderr.contains("lock"), "{}", output.stderr);
        ensure!(
            qemu_is_refused(lab, image.path(), "")?,
            "a VM wrote it, too"
        );
        ensure!(
            qemu_is_refused(lab, image.path(), ",readonly=on")?,
            "a VM read what changes"
        );
        // A tool that reads is let in, as beside a VM.
        run(&mut io(&["-r", "-c", "read 0 4k"]))?;
        hearth.command(&["disk", "detach", "disk"])?;
        run(&mut io(&["-c", "write 0 4k"]))?;
        attach(&hearth, image.path(), &["--read-only"])?;
        run(&mut io(&["-r", "-c", "read 0 4k"]))?;
        run_expecting_failure(&mut io(&["-c", "write 0 4k"]))?;
        hearth.stop().map(|_| ())
    });
}
