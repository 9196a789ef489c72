//! What a start needs: a state folder that can be written, sockets that are free, origins. A daemon that
//! lacks what it cannot do without ends with the reason, and `--check-config` says so before.

use anyhow::ensure;
use e2e::{
    Answer, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, MOUNT_TOOLS, can_mount,
    check_config, free_port, nbdsh, scenario,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(at)?;
        let options = ["-t", "tmpfs", "-o", "size=256k", "state"];
        e2e::run(Command::new("mount").args(options).arg(at))?;
        Ok(Self(at.to_owned()))
    }

    /// Takes all the room that there is.
    fn fill(&self) -> anyhow::Result<()> {
        let full = std::fs::write(self.0.join("ballast"), vec![1; 1 << 20]);
        ensure!(full.is_err(), "it has room for more");
        Ok(())
    }

    fn make_read_only(&self) -> anyhow::Result<()> {
        let options = ["-o", "remount,ro"];
        e2e::run(Command::new("mount").args(options).arg(&self.0)).map(drop)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Whatever goes wrong here shows when the folder cannot be removed.
        let _ = e2e::run(Command::new("umount").arg(&self.0));
    }
}

fn settings(lab: &Lab) -> anyhow::Result<HearthSettings> {
    let flash = Flash::format(lab, "flash.img", 64)?;
    let image = Image::new(lab, "disk.raw", 16)?;
    Ok(HearthSettings::new(&flash).disk(&DiskSettings::on_file("disk", image.path())))
}

fn serve(lab: &Lab, more: &[&str]) -> anyhow::Result<Answer> {
    let config = lab.path("hearth.toml").display().to_string();
    e2e::hearth(&[&["serve", "--config", &config], more].concat())
}

#[test]
fn a_state_folder_that_cannot_be_written_ends_a_start_with_the_reason() {
    if !can_mount("a state folder that is full") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh", "mount"]].concat(), |lab| {
        let small = Small::mount(&lab.path("state"))?;
        let settings = settings(lab)?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri("disk")), "h.pread(4096, 0)")?;
        hearth.stop()?;
        small.fill()?;
        let refused = serve(lab, &[])?;
        ensure!(
            refused.code == 1 && refused.stderr.contains("os error 28"),
            "{}: {}",
            refused.code,
            refused.stderr
        );
        let checked = serve(lab, &["--check-config"])?;
        ensure!(
            checked.code == 2 && checked.stderr.contains("is full"),
            "{}",
            checked.stderr
        );
        std::fs::remove_file(lab.path("state").join("ballast"))?;
        small.make_read_only()?;
        let refused = serve(lab, &[])?;
        ensure!(
            refused.code == 1 && refused.stderr.contains("os error 30"),
            "{}: {}",
            refused.code,
            refused.stderr
        );
        let checked = serve(lab, &["--check-config"])?;
        ensure!(
            checked.code == 2 && checked.stderr.contains("cannot be written"),
            "{}",
            checked.stderr
        );
        drop(small);
        Ok(())
    });
}

#[test]
fn a_check_finds_what_others_have_and_origins_that_are_gone() {
    scenario(&[], |lab| {
        let gone = lab.path("gone.sock").display().to_string();
        let uri = format!("nbd+unix:///disk?socket={gone}");
        let nowhere = format!("rbd:pool/image?conf={gone}");
        let closed = format!(
            "iscsi://127.0.0.1:{}/iqn.2026-01.org.example:disks/1",
            free_port()?
        );
        let config = settings(lab)?
            .disk(&DiskSettings::on_nbd("other", &uri))
            .disk(&DiskSettings::on_rbd("image", &nowhere))
            .disk(&DiskSettings::on_iscsi("unit", &closed, "host-1"))
            .write(lab)?;
        let checked = check_config(&config)?;
        for fault in [
            "disk[1].origin.nbd",
            "disk[2].origin.rbd",
            "disk[3].origin.iscsi",
        ] {
            ensure!(
                checked.code == 2 && checked.stderr.contains(fault),
                "{}",
                checked.stderr
            );
        }
        let _listener = UnixListener::bind(lab.path("nbd.sock"))?;
        let checked = serve(lab, &["--check-config"])?;
        let process = format!("the process {} listens", std::process::id());
        ensure!(
            checked.code == 2 && checked.stderr.contains(&process),
            "{}",
            checked.stderr
        );
        Ok(())
    });
}

#[test]
fn a_check_beside_the_daemon_leaves_what_that_has() {
    scenario(&[], |lab| {
        let hearth = Hearth::start(lab, &settings(lab)?)?;
        let checked = serve(lab, &["--check-config"])?;
        ensure!(checked.code == 0, "{}", checked.stderr);
        hearth.stop().map(drop)
    });
}
