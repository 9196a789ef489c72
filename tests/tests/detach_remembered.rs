//! A disk that was detached stays so after a restart, or it was not detached: when the list of disks
//! cannot be written, the command fails with the reason and the disk is served as before.

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, HeldOrigin, HeldServer, Image, LONG, Lab,
    SmallFileSystem, nbdsh, reads, scenario, wait_until, writes,
};
use std::path::PathBuf;
use std::thread;

/// Attached at run time.
const DISK: &str = "web";

/// A daemon whose state folder is on a file system that can be filled, with a disk from its file.
fn started(lab: &Lab, small: &SmallFileSystem) -> anyhow::Result<(HearthSettings, Hearth)> {
    std::os::unix::fs::symlink(small.folder(), lab.path("state"))?;
    let flash = Flash::format(lab, "flash.img", 128)?;
    let image = Image::new(lab, "other.raw", 16)?;
    let settings = HearthSettings::new(&flash).disk(&DiskSettings::on_file("other", image.path()));
    let hearth = Hearth::start(lab, &settings)?;
    Ok((settings, hearth))
}

fn is_there(hearth: &Hearth) -> anyhow::Result<bool> {
    let disks = hearth.json(&["disk", "list"])?;
    let disks = disks["disks"].as_array().context("a list")?;
    Ok(disks.iter().any(|disk| disk["name"] == DISK))
}

fn restarted(lab: &Lab, settings: &HearthSettings, hearth: Hearth) -> anyhow::Result<Hearth> {
    hearth.stop()?;
    Hearth::start(lab, settings)
}

/// Makes room, and detaches the disk for good.
fn detach_for_good(
    lab: &Lab,
    settings: &HearthSettings,
    hearth: Hearth,
    filler: PathBuf,
) -> anyhow::Result<()> {
    std::fs::remove_file(filler)?;
    hearth.command(&["disk", "detach", DISK])?;
    let hearth = restarted(lab, settings, hearth)?;
    ensure!(!is_there(&hearth)?, "it is back");
    hearth.stop().map(drop)
}

#[test]
fn a_detach_that_cannot_be_written_down_is_refused() {
    scenario(&["nbdsh"], |lab| {
        let Some(small) = SmallFileSystem::mount(lab, 4 * 1024)? else {
            return Ok(());
        };
        let (settings, hearth) = started(lab, &small)?;
        let image = Image::new(lab, "web.raw", 16)?;
        let file = format!("file:{}", image.path().display());
        hearth.command(&["disk", "attach", DISK, "--origin", &file])?;
        nbdsh(Some(&hearth.uri(DISK)), &writes(0, 4, 1))?;
        let filler = small.fill()?;
        let refused = hearth.refused_command(&["disk", "detach", DISK])?;
        let why = &refused.stderr;
        ensure!(why.contains("No space left on device"), "{why}");
        ensure!(hearth.json(&["disk", "show", DISK])?["state"] == "attached");
        nbdsh(
            Some(&hearth.uri(DISK)),
            &(reads(0, 4, 1) + &writes(4, 4, 2)),
        )?;
        detach_for_good(lab, &settings, hearth, filler)
    });
}

#[test]
fn a_disk_that_was_let_go_and_cannot_be_taken_off_the_list_is_attached_anew() {
    scenario(&[HeldOrigin::TOOLS, &["nbdsh"]].concat(), |lab| {
        let Some(small) = SmallFileSystem::mount(lab, 4 * 1024)? else {
            return Ok(());
        };
        let (settings, hearth) = started(lab, &small)?;
        let origin = HeldOrigin::start(lab, 16, HeldServer::Nbdkit)?;
        let uri = origin.uri();
        let disk = [
            "disk",
            "attach",
            DISK,
            "--origin",
            &uri,
            "--write-policy",
            "back",
        ];
        hearth.command(&disk)?;
        origin.hold_next_write()?;
        nbdsh(Some(&hearth.uri(DISK)), &writes(0, 4, 1))?;
        let filler = thread::scope(|scope| {
            // It waits for the write that the origin holds.
            let detach =
                scope.spawn(|| hearth.refused_command(&["disk", "detach", DISK, "--flush"]));
            wait_until("the detach to be under way", LONG, || {
                Ok(hearth.json(&["disk", "show", DISK])?["state"] == "detaching")
            })?;
            origin.wait_until_held()?;
            let filler = small.fill()?;
            origin.release()?;
            let refused = detach.join().expect("a thread ends")?;
            let why = &refused.stderr;
            ensure!(why.contains("No space left on device"), "{why}");
            Ok(filler)
        })?;
        ensure!(hearth.json(&["disk", "show", DISK])?["state"] == "attached");
        nbdsh(Some(&hearth.uri(DISK)), &reads(0, 4, 1))?;
        detach_for_good(lab, &settings, hearth, filler)
    });
}
