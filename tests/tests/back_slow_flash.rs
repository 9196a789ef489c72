//! Flash whose writes take longer than `flash_timeout` under a disk with dirty bytes: its guest gets no error,
//! the origin gets what it lacks, the disk is written through meanwhile, and comes under write-back again when
//! the flash is in time. Other disks go on.

use std::ops::Range;

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Hearth, HearthSettings, Image, LONG, MOUNT_TOOLS, WeakFlash, block,
    can_mount, nbdsh, reads, scenario, wait_until, writes,
};

const OTHER: &str = "other";

fn has_at_origin(image: &Image, blocks: Range<u64>, round: u8) -> anyhow::Result<()> {
    for number in blocks {
        let bytes = image.read(number * 4096, 4096)?;
        ensure!(bytes == block(number, round), "block {number} is older");
    }
    Ok(())
}

#[test]
fn flash_that_takes_seconds_gives_its_bytes_to_the_origin_and_is_taken_back() {
    if !can_mount("flash that is slow") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let slow = WeakFlash::format_slow(lab, 64, 60)?;
        let image = Image::new(lab, "origin.raw", 16)?;
        let other = Image::new(lab, "other.raw", 16)?;
        let settings = HearthSettings::new(&slow.flash)
            .cache_key("flash_timeout = '2s'")
            .disk(&DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(16))
            .disk(&DiskSettings::on_file(OTHER, other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 300, 5))?;
        nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 3))?;
        // What the origin lacks is not read from this flash, of which some reads wait behind writes.
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        slow.fail()?;
        // The flush waits for the flash, and then for the origin: late, and no error.
        nbdsh(Some(&uri), &writes(0, 10, 6))?;
        let shown = hearth.json(&["status"])?["caches"][0].clone();
        ensure!(shown["state"] == "serving", "{shown}");
        let reason = shown["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("late with writes"), "{shown}");
        let disk = || hearth.json(&["disk", "show", Back::DISK]);
        let served = disk()?;
        ensure!(served["write_policy"] == "through", "{served}");
        let reason = served["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("without write-back"), "{served}");
        nbdsh(Some(&uri), &(reads(0, 10, 6) + &reads(10, 290, 5)))?;
        has_at_origin(&image, 0..10, 6)?;
        nbdsh(Some(&uri), &writes(0, 20, 7))?;
        has_at_origin(&image, 0..20, 7)?;
        nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 4))?;
        nbdsh(Some(&hearth.uri(OTHER)), &reads(0, 8, 4))?;

        slow.recover()?;
        wait_until("the disk to be under write-back again", LONG, || {
            Ok(disk()?["write_policy"] == "back")
        })?;
        nbdsh(Some(&uri), &writes(0, 10, 8))?;
        ensure!(disk()?["write_back"]["dirty_bytes"] != 0, "{}", disk()?);
        hearth.kill()?;
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(
            Some(&uri),
            &(reads(0, 10, 8) + &reads(10, 10, 7) + &reads(20, 280, 5)),
        )?;
        hearth.stop().map(drop)
    });
}

#[test]
fn a_crash_while_a_disk_does_without_slow_flash_brings_nothing_older_back() {
    if !can_mount("flash that is slow") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let slow = WeakFlash::format_slow(lab, 64, 60)?;
        let image = Image::new(lab, "origin.raw", 16)?;
        let settings = HearthSettings::new(&slow.flash)
            .cache_key("flash_timeout = '1s'")
            .disk(&DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(16));
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 100, 5))?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        slow.fail()?;
        nbdsh(Some(&uri), &writes(0, 10, 6))?;
        nbdsh(Some(&uri), &writes(0, 5, 7))?;
        hearth.kill()?;
        slow.recover()?;
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(
            Some(&uri),
            &(reads(0, 5, 7) + &reads(5, 5, 6) + &reads(10, 90, 5)),
        )?;
        hearth.stop().map(drop)
    });
}
