//! A start without the flash that has what an origin lacks: that disk is refused and says what to do,
//! every other one is served; and what was given up does not come back with the flash.

use anyhow::{Context, ensure};
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Pace, nbdsh, scenario, writes,
};

#[test]
fn only_the_disk_whose_bytes_are_away_is_refused() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let other = Image::new(lab, "other.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let settings = HearthSettings::new(&flash)
            .disk(&Back::disk(&image, Pace::Held))
            .disk(&DiskSettings::on_file("other", other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 10, 4))?;
        hearth.stop()?;

        let away = lab.path("away.img");
        std::fs::rename(flash.path(), &away)?;
        Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let hearth = Hearth::start(lab, &settings.clone().in_trouble(Back::DISK))?;
        nbdsh(
            Some(&hearth.uri("other")),
            "h.pwrite(b'o' * 4096, 0)\nh.flush()",
        )?;
        let shown = hearth.json(&["disk", "show", Back::DISK])?;
        ensure!(shown["state"] == "waiting", "{shown}");
        let reason = shown["reason"].as_str().context("a reason")?;
        ensure!(
            reason.contains("hearth recover drop --disk disk"),
            "{reason}"
        );
        ensure!(nbdsh(Some(&hearth.uri(Back::DISK)), "pass").is_err());
        hearth.stop()?;

        // The flash that has them is back: they are served.
        std::fs::rename(&away, flash.path())?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri(Back::DISK)),
            "assert h.pread(4096, 0) == bytes([0, 4]) * 2048",
        )?;
        hearth.stop()?;
        Ok(())
    });
}

#[test]
fn what_was_given_up_does_not_come_back_with_its_flash() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        nbdsh(Some(&back.uri()), &writes(0, 10, 4))?;
        back.stop()?;
        let away = lab.path("away.img");
        std::fs::rename(back.flash.path(), &away)?;
        Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let dropped = back.recover(
            lab,
            &["drop"],
            &["--disk", Back::DISK, "--yes-lose-data", "--json"],
        )?;
        dropped.json()?;

        // The disk has another life on other flash, and its origin moves on.
        back.start_again(lab)?;
        nbdsh(Some(&back.uri()), &writes(0, 5, 8))?;
        back.hearth()
            .command(&["disk", "detach", Back::DISK, "--flush"])?;
        back.stop()?;

        std::fs::rename(&away, back.flash.path())?;
        back.start_again(lab)?;
        nbdsh(
            Some(&back.uri()),
            "assert h.pread(4096, 0) == bytes([0, 8]) * 2048, 'an older life came back'\n\
             assert h.pread(4096, 7 * 4096) != bytes([7, 4]) * 2048, 'what was given up came back'",
        )?;
        ensure!(back.dirty_bytes()? == 0, "{}", back.write_back()?);
        Ok(())
    });
}
