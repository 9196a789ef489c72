//! An origin whose file system is full: a guest hears that there is no room, which its VM can wait for,
//! and a disk under write-back is served after a restart.

use anyhow::{Context as _, ensure};
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Pace, SmallFileSystem, nbdsh, reads,
    scenario, writes,
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
