//! Dirty logs for which the flash has no room: the disks that fit are served, the one that does not says
//! why, and is served as soon as it is given settings that fit.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, nbdsh, scenario, wait_until,
    writes,
};

/// Three disks, each of whose dirty logs takes 48 of the 128 MiB that may be dirty.
fn three(lab: &Lab) -> anyhow::Result<HearthSettings> {
    let flash = Flash::format(lab, "flash.img", 256)?;
    let mut settings = HearthSettings::new(&flash);
    for name in ["first", "second", "third"] {
        let image = Image::new(lab, &format!("{name}.raw"), 16)?;
        settings = settings.disk(&DiskSettings::on_file(name, image.path()).keeping_dirty(48));
    }
    Ok(settings)
}

fn state(hearth: &Hearth, disk: &str) -> anyhow::Result<String> {
    let shown = hearth.json(&["disk", "show", disk])?;
    Ok(shown["state"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_disks_that_fit_are_served_and_the_other_one_when_it_is_made_to_fit() {
    scenario(&["nbdsh"], |lab| {
        let settings = three(lab)?;
        let hearth = Hearth::start(lab, &settings.clone().in_trouble("third"))?;
        for disk in ["first", "second"] {
            nbdsh(Some(&hearth.uri(disk)), &writes(0, 8, 3))?;
        }
        let third = hearth.json(&["disk", "show", "third"])?;
        let reason = third["reason"].as_str().unwrap_or_default();
        ensure!(
            third["state"] == "waiting" && reason.contains("exceeds"),
            "{third}"
        );
        ensure!(!hearth.log()?.contains("waits for its origin"));
        let refused = hearth.refused_command(&["disk", "flush", "third"])?;
        ensure!(
            refused.stderr.contains("is not attached"),
            "{}",
            refused.stderr
        );
        // Settings that do not fit either are refused; those that do are tried at once.
        hearth.refused_command(&["disk", "set", "third", "--dirty-max", "33MiB"])?;
        hearth.command(&["disk", "set", "third", "--dirty-max", "32MiB"])?;
        wait_until("the disk to be served", LONG, || {
            Ok(state(&hearth, "third")? == "attached")
        })?;
        nbdsh(Some(&hearth.uri("third")), &writes(0, 8, 3))?;
        hearth.stop()?;
        // That is remembered.
        let hearth = Hearth::start(lab, &settings)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn what_holds_of_write_back_is_shown_after_a_change() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 64)?;
        let image = Image::new(lab, "origin.raw", 16)?;
        let settings = HearthSettings::new(&flash).disk(&DiskSettings::on_file("d", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        hearth.command(&["disk", "set", "d", "--write-policy", "back"])?;
        let shown = hearth.json(&["disk", "show", "d"])?;
        let most = &shown["write_back"]["settings"]["dirty_max_bytes"];
        ensure!(*most == 16 << 20, "{shown}");
        hearth.stop().map(drop)
    });
}
