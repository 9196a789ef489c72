//! A disk whose origin is a file on this host: right bytes, warm after a restart, and cold after the
//! file was changed by somebody else meanwhile.

use std::os::unix::fs::FileExt as _;

use anyhow::ensure;
use e2e::{DiskSettings, Fio, Flash, Hearth, HearthSettings, Image, nbdsh, scenario};

#[test]
fn a_file_changed_while_the_daemon_was_away_is_not_served_from_flash() {
    scenario(&["fio", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 32)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings =
            HearthSettings::new(&flash).disk(&DiskSettings::on_file("disk", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri("disk");
        Fio::new(lab, "file", &uri)
            .with("rw=randwrite")
            .with("bs=4k")
            .with("size=8m")
            .with("iodepth=16")
            .verified()
            .run()?;
        nbdsh(
            Some(&uri),
            "h.pread(32 << 20, 0)\nh.pwrite(b'o' * 4096, 16 << 20)\nh.pread(4096, 16 << 20)",
        )?;
        hearth.stop()?;

        let file = std::fs::File::options().write(true).open(image.path())?;
        file.write_all_at(&[b'n'; 4096], 16 << 20)?;
        file.sync_all()?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("disk")),
            "assert h.pread(4096, 16 << 20) == b'n' * 4096, 'stale'",
        )?;
        hearth.stop()?;
        ensure!(
            image.read(16 << 20, 1)? == b"n",
            "the file was written by nobody else"
        );
        Ok(())
    });
}
