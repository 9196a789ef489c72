//! An origin that becomes smaller under a disk that is attached, with dirty bytes behind its new end: it
//! is written no more, the guest goes on until the log is full, the daemon says so, and all of it
//! arrives when the origin has its size again.

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Origin, OriginSettings, block,
    nbdsh, scenario, wait_until, writes,
};

const OTHER: &str = "other";

#[test]
fn a_file_that_shrinks_gets_nothing_until_it_has_its_size_again() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let other = Image::new(lab, "other.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(64);
        let settings = HearthSettings::new(&flash)
            .disk(&disk)
            .disk(&DiskSettings::on_file(OTHER, other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        // Some of it before the new end, some behind it.
        let last = Back::IMAGE_MIB * 256 - 100;
        nbdsh(Some(&uri), &(writes(0, 100, 5) + &writes(last, 100, 6)))?;
        let file = std::fs::File::options().write(true).open(image.path())?;
        let short = (Back::IMAGE_MIB - 1) << 20;
        file.set_len(short)?;
        hearth.command(&["disk", "set", Back::DISK, "--age-max", "1ms"])?;
        wait_until("the daemon to say that the origin fails", LONG, || {
            let now = hearth.json(&["disk", "show", Back::DISK])?;
            Ok(now["write_back"]["state"] == "failing")
        })?;
        ensure!(
            file.metadata()?.len() == short,
            "the origin was made longer"
        );
        // The guest does not notice; other disks neither.
        let script = format!(
            "assert h.pread(4096, {}) == bytes([{}, 6]) * 2048",
            last * 4096,
            last % 251
        );
        nbdsh(Some(&uri), &(writes(50, 100, 7) + &script))?;
        nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 3))?;
        // What nobody has any more is an error and not zeroes.
        let lost = format!("h.pread(4096, {})", short + 4096);
        ensure!(
            nbdsh(Some(&uri), &lost).is_err(),
            "a lost block was answered"
        );

        file.set_len(Back::IMAGE_MIB << 20)?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        ensure!(image.read(last * 4096, 4096)? == block(last, 6));
        ensure!(image.read(149 * 4096, 4096)? == block(149, 7));
        ensure!(image.read(0, 4096)? == block(0, 5));
        hearth.stop().map(drop)
    });
}

#[test]
fn an_export_that_comes_back_smaller_gets_nothing_until_it_has_its_size_again() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let mut origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri()).keeping_dirty(64);
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 100, 5))?;
        let file = std::fs::File::options().write(true).open(image.path())?;
        origin.kill()?;
        file.set_len((Back::IMAGE_MIB - 1) << 20)?;
        origin.restart(lab)?;
        hearth.command(&["disk", "set", Back::DISK, "--age-max", "1ms"])?;
        let fails = || {
            let now = hearth.json(&["disk", "show", Back::DISK])?;
            Ok(now["write_back"]["state"] == "failing")
        };
        wait_until("the daemon to say that the origin fails", LONG, fails)?;
        let before = image.read(0, 4096)?;
        ensure!(before != block(0, 5), "another disk was written");
        nbdsh(Some(&uri), &writes(50, 100, 7))?;

        origin.kill()?;
        file.set_len(Back::IMAGE_MIB << 20)?;
        origin.restart(lab)?;
        wait_until("the daemon to find the origin", LONG, || {
            fails().map(|fails| !fails)
        })?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        ensure!(image.read(0, 4096)? == block(0, 5));
        ensure!(image.read(149 * 4096, 4096)? == block(149, 7));
        hearth.stop().map(drop)
    });
}
