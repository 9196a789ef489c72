//! The origin fails while writes wait for it: guests go on, the daemon says so and keeps trying, and
//! everything arrives when the origin is back.

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Origin, OriginSettings, nbdsh,
    scenario, wait_until, writes,
};

#[test]
fn guests_write_on_while_the_origin_fails() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let failing = lab.path("failing");
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let settings = OriginSettings {
            failing_while: Some(failing.clone()),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &image, settings)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri())
            .key("write_policy = 'back'")
            .key("[disk.write_back]")
            .key("dirty_max = '100MiB'")
            .key("age_max = '100ms'")
            .key("idle_after = '10ms'");
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let state = |hearth: &Hearth| -> anyhow::Result<serde_json::Value> {
            Ok(hearth.json(&["disk", "show", Back::DISK])?["write_back"].clone())
        };
        std::fs::write(&failing, "")?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 300, 2))?;
        wait_until("the daemon to say that the origin fails", LONG, || {
            Ok(state(&hearth)?["state"] == "failing")
        })?;
        let now = state(&hearth)?;
        ensure!(now["dirty_bytes"] == 300 * 4096, "{now}");
        ensure!(now["failing_seconds"].is_number(), "{now}");
        nbdsh(
            Some(&hearth.uri(Back::DISK)),
            "assert h.pread(4096, 4096) == bytes([1, 2]) * 2048",
        )?;
        std::fs::remove_file(&failing)?;
        wait_until("everything to arrive", LONG, || {
            Ok(state(&hearth)?["dirty_bytes"] == 0)
        })?;
        ensure!(image.read(299 * 4096, 4096)? == e2e::block(299, 2));
        hearth.stop()?;
        Ok(())
    });
}
