//! A disk that is read-only refuses every kind of write and is not opened for writing.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Origin, OriginSettings, RequestKind, nbdsh,
    scenario,
};

#[test]
fn a_read_only_disk_refuses_writes() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let disk = DiskSettings::on_nbd("base", &origin.uri()).key("read_only = true");
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        nbdsh(
            Some(&hearth.uri("base")),
            r"
import errno
assert h.is_read_only()
h.set_strict_mode(0)
for write in (lambda: h.pwrite(b'x' * 4096, 0), lambda: h.trim(4096, 0), lambda: h.zero(4096, 0)):
    try:
        write()
    except nbd.Error as error:
        assert error.errnum == errno.EPERM, error
    else:
        raise AssertionError('a write was taken')
assert len(h.pread(65536, 0)) == 65536
",
        )?;
        let writes: Vec<_> = origin
            .requests()?
            .into_iter()
            .filter(|request| request.kind == RequestKind::Write)
            .collect();
        ensure!(writes.is_empty(), "the origin was written: {writes:?}");
        Ok(())
    });
}
