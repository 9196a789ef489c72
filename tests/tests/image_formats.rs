//! An image in a format of its own is not served as a disk's bytes; but a guest that writes such bytes to
//! its own disk keeps it.

use std::process::Command;

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, nbdsh, run, scenario};

#[test]
fn a_qcow2_file_is_refused_with_the_way_to_serve_it() {
    scenario(&["qemu-img", "nbdsh"], |lab| {
        let path = lab.path("web.qcow2");
        run(Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(&path)
            .arg("16M"))?;
        // Hearth wants whole sectors, which such a file need not have.
        let file = std::fs::File::options().write(true).open(&path)?;
        file.set_len(1 << 20)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let path = path.display().to_string();
        let words = ["disk", "attach", "web", "--origin", &path];
        let output = hearth.refused_command(&words)?;
        for part in ["format qcow2", "qemu-nbd", "format = \"raw\"", "--raw"] {
            ensure!(output.stderr.contains(part), "{}", output.stderr);
        }
        ensure!(
            !lab.path("web.qcow2.hearth").exists(),
            "a refused attach leaves no record"
        );
        hearth.command(&[&words[..], &["--raw"]].concat())?;
        nbdsh(
            Some(&hearth.uri("web")),
            "assert h.pread(512, 0)[:4] == b'QFI\\xfb'",
        )?;
        hearth.stop()?;
        // It is remembered that it is meant.
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash))?;
        nbdsh(Some(&hearth.uri("web")), "h.pread(512, 0)")?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn a_guest_that_writes_the_head_of_an_image_keeps_its_disk() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let settings =
            HearthSettings::new(&flash).disk(&DiskSettings::on_file("disk", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("disk")),
            "h.pwrite(b'QFI\\xfb\\0\\0\\0\\x03' + bytes(504), 0)\nh.flush()",
        )?;
        hearth.stop()?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("disk")),
            "assert h.pread(512, 0)[:4] == b'QFI\\xfb'",
        )?;
        hearth.stop().map(|_| ())
    });
}
