//! A file that takes the place of an origin while the daemon is away, after whatever end: nothing of the
//! old one is served, and what waited for the old one does not go to the new one.

use std::path::Path;

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Pace, nbdsh, reads, scenario,
    writes,
};

/// Puts a file of the same size with other bytes under this name; gives where the old one is now.
fn replace(lab: &Lab, path: &Path) -> anyhow::Result<std::path::PathBuf> {
    let old = lab.path("old.raw");
    let bytes = vec![0x77; usize::try_from(std::fs::metadata(path)?.len())?];
    std::fs::write(lab.path("new.raw"), bytes)?;
    std::fs::rename(path, &old)?;
    std::fs::rename(lab.path("new.raw"), path)?;
    Ok(old)
}

fn nothing_old_is_served(key: &'static str) {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let disk = DiskSettings::on_file("disk", image.path()).key(key);
        let settings = HearthSettings::new(&flash)
            .cache_key("write_delay = '10ms'")
            .disk(&disk);
        // Twice, so that what was read once is on flash when it ends.
        for _ in 0..2 {
            let hearth = Hearth::start(lab, &settings)?;
            image.check_equals_export(lab, &hearth.uri("disk"))?;
            hearth.stop()?;
        }
        let hearth = Hearth::start(lab, &settings)?;
        let shown = hearth.json(&["disk", "show", "disk"])?;
        ensure!(shown["warm_blocks"].as_u64() > Some(1000), "{shown}");
        nbdsh(Some(&hearth.uri("disk")), "h.pread(4096, 0)")?;
        hearth.kill()?;

        replace(lab, image.path())?;
        let hearth = Hearth::start(lab, &settings)?;
        image.check_equals_export(lab, &hearth.uri("disk"))?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn an_origin_that_was_replaced_after_a_crash_begins_cold() {
    nothing_old_is_served("write_policy = 'through'");
}

#[test]
fn one_that_is_only_read_does_so_too() {
    nothing_old_is_served("read_only = true");
}

#[test]
fn what_waits_for_a_file_does_not_go_to_another_one() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        nbdsh(Some(&back.uri()), &writes(0, 20, 5))?;
        back.kill()?;
        let old = replace(lab, back.image.path())?;
        let settings = HearthSettings::new(&back.flash)
            .disk(&Back::disk(&back.image, Pace::Held))
            .in_trouble(Back::DISK);
        let hearth = Hearth::start(lab, &settings)?;
        let shown = hearth.json(&["disk", "show", Back::DISK])?;
        let reason = shown["reason"].as_str().unwrap_or_default();
        ensure!(
            shown["state"] == "waiting" && reason.contains("is another file"),
            "{shown}"
        );
        hearth.stop()?;
        let words = ["--disk", Back::DISK];
        let refused = back.recover(lab, &["destage"], &words)?;
        ensure!(
            refused.code == 4 && refused.stderr.contains("another file"),
            "{}",
            refused.stderr
        );
        ensure!(back.image.read(0, 2)? == [0x77; 2], "it was written");

        std::fs::rename(old, back.image.path())?;
        back.start_again(lab)?;
        nbdsh(Some(&back.uri()), &reads(0, 20, 5))?;
        back.stop()
    });
}
