//! Disks come and go while the daemon runs, and an attached one is there after a restart.

use anyhow::ensure;
use e2e::{Flash, Hearth, HearthSettings, Image, nbdsh, scenario};

#[test]
fn a_disk_is_attached_used_remembered_and_detached() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash);
        let hearth = Hearth::start(lab, &settings)?;
        let origin = image.path().display().to_string();
        hearth.command(&["disk", "attach", "late", "--origin", &origin])?;
        hearth.refused_command(&["disk", "attach", "late", "--origin", &origin])?;
        nbdsh(
            Some(&hearth.uri("late")),
            "h.pwrite(b'l' * 4096, 4096)\nh.flush()",
        )?;
        ensure!(
            image.read(4096, 4096)? == [b'l'; 4096],
            "the write did not reach the file"
        );
        hearth.stop()?;

        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("late")),
            "assert h.pread(4096, 4096) == b'l' * 4096",
        )?;
        hearth.command(&["disk", "set", "late", "--write-policy", "around"])?;
        nbdsh(
            Some(&hearth.uri("late")),
            "h.pwrite(b'a' * 4096, 4096)\nassert h.pread(4096, 4096) == b'a' * 4096",
        )?;
        hearth.command(&["disk", "drop", "late"])?;
        nbdsh(
            Some(&hearth.uri("late")),
            "assert h.pread(4096, 4096) == b'a' * 4096",
        )?;
        hearth.command(&["disk", "detach", "late"])?;
        ensure!(
            nbdsh(Some(&hearth.uri("late")), "pass").is_err(),
            "a detached disk was served"
        );
        hearth.refused_command(&["disk", "show", "late"])?;
        hearth.stop()?;
        Ok(())
    });
}
