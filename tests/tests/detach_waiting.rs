//! A disk that waits for its origin is only forgotten: its bytes, its owner's record and its data key
//! stay, whatever else is asked for, and the answer says what stays where.

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, Origin, OriginSettings, Process,
    nbdsh, reads, scenario, wait_until, writes,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DISK: &str = "disk";
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn shown(hearth: &Hearth) -> anyhow::Result<Value> {
    hearth.json(&["disk", "show", DISK])
}

fn waits(hearth: &Hearth) -> anyhow::Result<Value> {
    let disk = shown(hearth)?;
    ensure!(disk["state"] == "waiting", "{disk}");
    Ok(disk)
}

/// The only file of a folder of the state directory.
fn only_file(lab: &Lab, folder: &str) -> anyhow::Result<PathBuf> {
    let mut files = std::fs::read_dir(lab.path("state").join(folder))?.flatten();
    let file = files.next().context("a file")?.path();
    ensure!(files.next().is_none(), "one file in {folder}");
    Ok(file)
}

/// A disk over NBD whose origin lacks twenty blocks and is gone, and a daemon that waits for it.
fn waiting(lab: &Lab, more: &str) -> anyhow::Result<(Origin, Image, HearthSettings, Hearth)> {
    let image = Image::new(lab, "origin.raw", 64)?;
    let mut origin = Origin::start(lab, &image, OriginSettings::default())?;
    let flash = Flash::format(lab, "flash.img", 256)?;
    let disk = DiskSettings::on_nbd(DISK, &origin.uri()).keeping_dirty(100);
    let settings = HearthSettings::new(&flash).disk(&disk.key(more));
    let hearth = Hearth::start(lab, &settings)?;
    nbdsh(Some(&hearth.uri(DISK)), &writes(0, 20, 8))?;
    hearth.stop()?;
    origin.kill()?;
    let hearth = Hearth::start(lab, &settings.clone().in_trouble(DISK))?;
    waits(&hearth)?;
    Ok((origin, image, settings, hearth))
}

#[test]
fn a_disk_that_waits_is_forgotten_and_keeps_what_its_origin_lacks() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let key = lab.write("key", KEY)?;
        let more = format!("[disk.encryption]\nkey_file = '{}'", key.display());
        let (mut origin, image, settings, hearth) = waiting(lab, &more)?;
        let kept = waits(&hearth)?["kept"].clone();
        ensure!(kept["dirty_bytes"] == 20 * 4096, "{kept}");
        ensure!(kept["has_data_key"] == true, "{kept}");
        let (key, record) = (only_file(lab, "keys")?, only_file(lab, "owners")?);
        ensure!(
            kept["owner_record"] == record.display().to_string(),
            "{kept}"
        );
        let before = (std::fs::read(&key)?, std::fs::read(&record)?);
        for (flags, way) in [
            (&["--flush"][..], "hearth recover destage"),
            (&["--flush", "--erase"], "hearth recover destage"),
            (&["--drop-dirty", "--yes-lose-data"], "hearth recover drop"),
            (&["--erase"], "hearth recover export"),
            (&["--force", "--erase"], "hearth recover export"),
        ] {
            let words = [&["disk", "detach", DISK][..], flags].concat();
            let refused = hearth.refused_command(&words)?;
            ensure!(refused.stderr.contains(way), "{}", refused.stderr);
            waits(&hearth)?;
        }
        let forgotten = hearth.command(&["disk", "detach", DISK])?;
        for word in ["forgotten", "80.0KiB", "data key", "hearth recover"] {
            ensure!(forgotten.stdout.contains(word), "{}", forgotten.stdout);
        }
        hearth.refused_command(&["disk", "show", DISK])?;
        ensure!(
            before == (std::fs::read(&key)?, std::fs::read(&record)?),
            "the key or the record was changed"
        );
        hearth.stop()?;
        // Nothing was lost.
        origin.restart(lab)?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(DISK)), &reads(0, 20, 8))?;
        hearth.command(&["disk", "detach", DISK, "--flush"])?;
        ensure!(image.read(19 * 4096, 4096)? == e2e::block(19, 8));
        hearth.stop().map(drop)
    });
}

/// An NBD server that has accepted a client and does not say how long its export is while `closed`
/// exists; `asked` exists when it was asked, and `ended` when a client has gone.
fn gated_origin(lab: &Lab, image: &Image, origin: &Origin) -> anyhow::Result<Process> {
    let [closed, asked, ended] = ["closed", "asked", "ended"].map(|name| lab.path(name));
    std::fs::write(&closed, "")?;
    let script = format!(
        "case \"$1\" in\n\
         get_size) touch '{}'; while [ -e '{}' ]; do sleep 0.05; done; stat -c %s '{image}' ;;\n\
         pread) dd iflag=skip_bytes,count_bytes skip=$4 count=$3 if='{image}' status=none ;;\n\
         pwrite) dd oflag=seek_bytes conv=notrunc seek=$4 of='{image}' status=none ;;\n\
         close) touch '{}' ;;\n\
         can_write|can_flush) exit 0 ;;\n\
         flush) exit 0 ;;\n\
         *) exit 2 ;;\nesac\n",
        asked.display(),
        closed.display(),
        ended.display(),
        image = image.path().display(),
    );
    let script = lab.write("gated.sh", &script)?;
    make_executable(&script)?;
    let _ = std::fs::remove_file(origin.socket());
    let mut command = Command::new("nbdkit");
    command.arg("-f").arg("-U").arg(origin.socket());
    command.args(["-e", "disk", "sh"]).arg(&script);
    Process::start(lab, "gated", &mut command)
}

fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[test]
fn an_attempt_that_is_under_way_does_not_attach_what_is_forgotten() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let (mut origin, image, settings, hearth) = waiting(lab, "")?;
        let record = only_file(lab, "owners")?;
        let before = std::fs::read(&record)?;
        let gated = gated_origin(lab, &image, &origin)?;
        wait_until("the origin to be tried again", LONG, || {
            Ok(lab.path("asked").exists())
        })?;
        waits(&hearth)?;
        hearth.command(&["disk", "detach", DISK])?;
        std::fs::remove_file(lab.path("closed"))?;
        wait_until("the attempt to end", LONG, || {
            Ok(lab.path("ended").exists())
        })?;
        // Its name is free, and nothing of the attempt is left.
        hearth.refused_command(&["disk", "show", DISK])?;
        hearth.stop()?;
        ensure!(before == std::fs::read(&record)?, "the disk was attached");
        gated.kill()?;
        origin.restart(lab)?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(DISK)), &reads(0, 20, 8))?;
        hearth.stop().map(drop)
    });
}
