//! Flash whose writes take longer than `flash_timeout` under a disk with dirty bytes: the guest waits
//! and gets no error, the flash is given up, the origin gets what it lacks, and other disks go on.

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Hearth, HearthSettings, Image, LONG, MOUNT_TOOLS, WeakFlash, can_mount,
    nbdsh, reads, scenario, wait_until, writes,
};

const OTHER: &str = "other";

#[test]
fn flash_that_takes_seconds_gives_its_bytes_to_the_origin() {
    if !can_mount("flash that is slow") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh", "nbdcopy"]].concat(), |lab| {
        let slow = WeakFlash::format_slow(lab, 64, 6)?;
        let image = Image::new(lab, "origin.raw", 16)?;
        let other = Image::new(lab, "other.raw", 16)?;
        let settings = HearthSettings::new(&slow.flash)
            .cache_key("flash_timeout = '2s'")
            .disk(&DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(16))
            .disk(&DiskSettings::on_file(OTHER, other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 300, 5))?;
        nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 3))?;
        slow.fail()?;
        // The flush waits for the flash, and then for the origin: late, and no error.
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 100, 6))?;
        let shown = hearth.json(&["status"])?["caches"][0].clone();
        ensure!(shown["state"] == "bypassed", "{shown}");
        let reason = shown["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("too long"), "{shown}");
        wait_until("the origin to have everything", LONG, || {
            let now = hearth.json(&["disk", "show", Back::DISK])?;
            Ok(now["write_back"]["dirty_bytes"].as_u64().unwrap_or(0) == 0)
        })?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &reads(0, 100, 6))?;
        image.check_equals_export(lab, &hearth.uri(Back::DISK))?;
        nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 4))?;
        nbdsh(Some(&hearth.uri(OTHER)), &reads(0, 8, 4))?;
        hearth.stop()?;
        // What is on that flash is not believed, slow or not.
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 50, 7))?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &reads(0, 50, 7))?;
        hearth.stop().map(drop)
    });
}
