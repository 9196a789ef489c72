//! An origin whose sync fails: the kernel says so once, so a later sync that succeeds is no promise for
//! what was written before.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, MOUNT_TOOLS, UnsyncedOrigin, can_mount,
    nbdsh, scenario, writes,
};

/// Runs `body` with a daemon on an origin whose sync can be made to fail, and what is inside that.
fn over_an_unsynced_origin(
    settings: impl FnOnce(DiskSettings) -> DiskSettings,
    body: impl FnOnce(&Image, &UnsyncedOrigin, &Hearth) -> anyhow::Result<()>,
) {
    if !can_mount("a file whose sync fails") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let image = Image::new(lab, "inside.raw", 16)?;
        let origin = UnsyncedOrigin::mount(lab, &image)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let disk = settings(DiskSettings::on_file("disk", origin.file()));
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        body(&image, &origin, &hearth)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn a_flush_after_a_failed_one_does_not_vouch_for_what_may_be_lost() {
    over_an_unsynced_origin(std::convert::identity, |_, origin, hearth| {
        let script = format!(
            r"
import errno, os

def fails():
    try:
        h.flush()
    except nbd.Error as error:
        assert error.errnum == errno.EIO, error
        return
    raise AssertionError('a flush vouched for what may be lost')

h.pwrite(b'a' * 4096, 0)
h.flush()
h.pwrite(b'b' * 8192, 8192)
open('{0}', 'w').close()
fails()
os.unlink('{0}')
fails()
h.pwrite(b'c' * 4096, 8192)
fails()
h.pwrite(b'd' * 4096, 12288)
h.flush()
h.pwrite(b'e' * 4096, 0)
h.flush()
assert h.pread(16384, 0)[:4096] == b'e' * 4096
assert h.pread(8192, 8192) == b'c' * 4096 + b'd' * 4096
",
            origin.failing().display()
        );
        nbdsh(Some(&hearth.uri("disk")), &script)?;
        ensure!(hearth.log()?.contains("a sync failed"), "it is logged");
        Ok(())
    });
}

#[test]
fn what_write_back_brings_to_an_origin_is_written_again_after_a_failed_sync() {
    let back = |disk: DiskSettings| disk.keeping_dirty(16);
    over_an_unsynced_origin(back, |image, origin, hearth| {
        nbdsh(Some(&hearth.uri("disk")), &writes(0, 20, 5))?;
        std::fs::write(origin.failing(), "")?;
        hearth.refused_command(&["disk", "flush", "disk", "--wait"])?;
        std::fs::remove_file(origin.failing())?;
        hearth.command(&["disk", "flush", "disk", "--wait"])?;
        for block in 0..20_u8 {
            let bytes = image.read(u64::from(block) * 4096, 2)?;
            ensure!(bytes == [block, 5], "{block}: {bytes:?}");
        }
        Ok(())
    });
}
