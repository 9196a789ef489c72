//! A path leads to one disk as long as that disk is there: a VM connects to its path again and
//! again, and must never find another disk behind it.

use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, hearth, scenario};

/// Why the disk's socket is not open, if it is not.
fn closed_for(hearth: &Hearth, disk: &str) -> anyhow::Result<Option<String>> {
    let status = hearth.json(&["disk", "show", disk])?;
    let error = &status["vhost_user"]["sockets"][0]["error"];
    Ok(error.as_str().map(str::to_owned))
}

fn is_open(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn image(lab: &Lab, name: &str) -> anyhow::Result<String> {
    Ok(Image::new(lab, name, 16)?.path().display().to_string())
}

#[test]
fn a_disk_is_not_attached_at_a_path_that_it_cannot_have() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let path = lab.path("vda.sock");
        let first = Image::new(lab, "first.raw", 16)?;
        let disk = DiskSettings::on_file("first", first.path()).vhost_user(&path, "");
        let daemon = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let origin = image(lab, "second.raw")?;
        let precious = lab.write("precious", "not to be replaced")?;
        let nbd = lab.path("nbd.sock");
        let missing = lab.path("missing/vdb.sock");
        for (taken, reason) in [
            (&path, "is the socket of the disk 'first'"),
            (&precious, "is no socket"),
            (&nbd, "listens on"),
            (&missing, "cannot listen on"),
        ] {
            let socket = taken.display().to_string();
            let words = ["disk", "attach", "second", "--origin", &origin];
            let said =
                daemon.refused_command(&[&words[..], &["--vhost-socket", &socket]].concat())?;
            ensure!(said.stderr.contains(reason), "{}", said.stderr);
            ensure!(
                said.stderr.contains("--vhost-socket off"),
                "{}",
                said.stderr
            );
            daemon.refused_command(&["disk", "show", "second"])?;
        }
        ensure!(std::fs::read_to_string(&precious)? == "not to be replaced");
        ensure!(is_open(&path) && closed_for(&daemon, "first")?.is_none());
        daemon.stop().map(|_| ())
    });
}

#[test]
fn who_came_second_to_a_path_does_not_get_it_when_the_first_goes() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let path = lab.path("vda.sock");
        let socket = path.display().to_string();
        let origin = image(lab, "late.raw")?;
        let attach = [
            "disk",
            "attach",
            "late",
            "--origin",
            &origin,
            "--vhost-socket",
            &socket,
        ];
        let daemon = Hearth::start(lab, &HearthSettings::new(&flash))?;
        daemon.command(&attach)?;
        daemon.stop()?;

        // The configuration gives the path to another disk, which has it at every start.
        let first = Image::new(lab, "first.raw", 16)?;
        let disk = DiskSettings::on_file("first", first.path()).vhost_user(&path, "");
        let settings = HearthSettings::new(&flash).disk(&disk);
        for _ in 0..3 {
            let daemon = Hearth::start(lab, &settings)?;
            ensure!(closed_for(&daemon, "first")?.is_none());
            let reason = closed_for(&daemon, "late")?.context("it has the path too")?;
            ensure!(
                reason.contains("is the socket of the disk 'first'"),
                "{reason}"
            );
            daemon.stop()?;
        }

        let daemon = Hearth::start(lab, &settings)?;
        daemon.command(&["disk", "detach", "first"])?;
        ensure!(!is_open(&path), "first's VM would find another disk");
        // Sockets are looked at again whenever a disk comes or goes.
        let third = image(lab, "third.raw")?;
        daemon.command(&["disk", "attach", "third", "--origin", &third])?;
        ensure!(!is_open(&path), "first's VM would find another disk later");
        let xml = ["xml", "--disk", "late", "--front-end", "vhost-user"];
        let said = daemon.refused_command(&xml)?;
        ensure!(said.stderr.contains("is not open"), "{}", said.stderr);
        // Whoever means it says so.
        daemon.command(&["disk", "detach", "late"])?;
        daemon.command(&attach)?;
        ensure!(is_open(&path));
        daemon.command(&xml)?;
        daemon.stop().map(|_| ())
    });
}

#[test]
fn a_place_where_no_socket_can_be_is_found_before_the_daemon_starts() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let first = Image::new(lab, "first.raw", 16)?;
        let file = lab.write("a-file", "")?;
        let disk = DiskSettings::on_file("first", first.path()).vhost_user(&file, "");
        let config = HearthSettings::new(&flash).disk(&disk).write(lab)?;
        let config = config.display().to_string();
        let said = hearth(&["serve", "--check-config", "--config", &config])?;
        ensure!(said.code == 2, "exit code {}", said.code);
        ensure!(
            said.stderr.contains("is there and is no socket"),
            "{}",
            said.stderr
        );
        Ok(())
    });
}
