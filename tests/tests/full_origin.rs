//! An origin whose file system is full: a guest hears that there is no room, which its VM can wait for,
//! and a disk under write-back is served after a restart.

use anyhow::{Context as _, ensure};
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Pace, SmallFileSystem, nbdsh,
    reads, scenario, wait_until, writes,
};

#[test]
fn a_write_that_fits_in_part_says_that_there_is_no_room() {
    scenario(&["nbdsh"], |lab| {
        // The last write before the end fits in part, whatever else takes a page or two.
        let Some(small) = SmallFileSystem::mount(lab, 4 * 1024 + 100)? else {
            return Ok(());
        };
        let image = small.sparse_file("origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let settings = HearthSettings::new(&flash).disk(&DiskSettings::on_file("disk", &image));
        let hearth = Hearth::start(lab, &settings)?;
        let script = r"
import errno
for at in range(0, 16 << 20, 128 << 10):
    try:
        h.pwrite(b'x' * (128 << 10), at)
    except nbd.Error as error:
        assert error.errnum == errno.ENOSPC, error
        break
else:
    raise AssertionError('there was room for everything')
assert h.pread(4096, 0) == b'x' * 4096
";
        nbdsh(Some(&hearth.uri("disk")), script)?;
        hearth.stop()?;
        Ok(())
    });
}

#[test]
fn a_disk_under_write_back_is_served_after_a_restart_beside_a_full_origin() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let Some(small) = SmallFileSystem::mount(lab, 4 * 1024)? else {
            return Ok(());
        };
        let image = Image::existing(&small.sparse_file("origin.raw", 16)?)?;
        let mut back = Back::start_on(lab, image, Pace::Held)?;
        nbdsh(Some(&back.uri()), &writes(0, 20, 5))?;
        let before = back.owner()?["epoch"].as_u64().context("a number")?;
        back.stop()?;
        let filler = small.fill()?;

        back.start_again(lab)?;
        let owner = back.owner()?;
        ensure!(owner["state"] == "open", "{owner}");
        ensure!(owner["epoch"].as_u64() > Some(before), "{owner}");
        let uri = back.uri();
        nbdsh(Some(&uri), &reads(0, 20, 5))?;
        nbdsh(Some(&uri), &writes(20, 20, 6))?;
        back.kill()?;
        back.start_again(lab)?;
        nbdsh(Some(&back.uri()), &(reads(0, 20, 5) + &reads(20, 20, 6)))?;

        std::fs::remove_file(filler)?;
        back.flush_and_compare(lab)?;
        back.stop()
    });
}

#[test]
fn a_new_disk_under_write_back_is_served_without_until_there_is_room_for_its_record() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let Some(small) = SmallFileSystem::mount(lab, 4 * 1024)? else {
            return Ok(());
        };
        let path = small.path("origin.raw");
        std::fs::write(&path, vec![7; 1 << 20])?;
        let filler = small.fill()?;
        let mut back = Back::start_on(lab, Image::existing(&path)?, Pace::Held)?;
        let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
        ensure!(shown["write_policy"] == "through", "{shown}");
        let reason = shown["reason"].as_str().context("a reason")?;
        ensure!(reason.contains("No space left on device"), "{reason}");
        nbdsh(Some(&back.uri()), &writes(0, 20, 5))?;
        // It waits for nothing after a restart either.
        back.stop()?;
        back.start_again(lab)?;
        nbdsh(Some(&back.uri()), &(reads(0, 20, 5) + &writes(0, 10, 6)))?;

        std::fs::remove_file(filler)?;
        wait_until("the disk to come under write-back", LONG, || {
            let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
            Ok(shown["write_policy"] == "back" && shown["reason"].is_null())
        })?;
        ensure!(back.owner()?["state"] == "open", "{}", back.owner()?);
        nbdsh(Some(&back.uri()), &writes(0, 5, 7))?;
        ensure!(back.dirty_bytes()? > 0, "it is under write-back");
        back.kill()?;
        back.start_again(lab)?;
        let uri = back.uri();
        let found = reads(0, 5, 7) + &reads(5, 5, 6) + &reads(10, 10, 5);
        nbdsh(Some(&uri), &found)?;
        back.flush_and_compare(lab)?;
        back.stop()
    });
}
