//! Flash whose writes take longer than `flash_timeout` for a while: guests do not wait for it, no read
//! is stale, and when it is in time again it is as warm as it was, also after a crash. A crash while it
//! is slow costs the cache and nothing else.

use anyhow::ensure;
use e2e::{
    DiskSettings, Hearth, HearthSettings, Image, LONG, Lab, MOUNT_TOOLS, WeakFlash, can_mount,
    nbdsh, reads, scenario, wait_until, writes,
};
use serde_json::Value;

const DISK: &str = "web";

/// Blocks that are warm, and how many of them are written while the flash is slow.
const BLOCKS: u64 = 300;
const WRITTEN: u64 = 40;

struct Slow {
    flash: WeakFlash,
    settings: HearthSettings,
    hearth: Hearth,
}

impl Slow {
    /// A daemon whose cache has come back from a clean stop with [`BLOCKS`] blocks, each trusted, and
    /// whose flash then takes two seconds for a write.
    fn start(lab: &Lab) -> anyhow::Result<Self> {
        let flash = WeakFlash::format_slow(lab, 64, 2)?;
        let image = Image::new(lab, "origin.raw", 16)?;
        let settings = HearthSettings::new(&flash.flash)
            .cache_key("flash_timeout = '1s'")
            .disk(&DiskSettings::on_file(DISK, image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(DISK);
        nbdsh(Some(&uri), &writes(0, BLOCKS, 5))?;
        nbdsh(Some(&uri), &reads(0, BLOCKS, 5))?;
        hearth.stop()?;
        let hearth = Hearth::start(lab, &settings)?;
        let slow = Self {
            flash,
            settings,
            hearth,
        };
        ensure!(slow.status()?["recovered_blocks"] == BLOCKS, "it is warm");
        slow.flash.fail()?;
        // The first waits for the flash until it is late; no other does.
        nbdsh(Some(&uri), &writes(0, WRITTEN, 6))?;
        let status = slow.status()?;
        let reason = status["reason"].as_str().unwrap_or_default();
        ensure!(status["state"] == "serving", "{status}");
        ensure!(reason.contains("late with writes"), "{status}");
        slow.every_block_is_right()?;
        Ok(slow)
    }

    fn status(&self) -> anyhow::Result<Value> {
        Ok(self.hearth.json(&["status"])?["caches"][0].clone())
    }

    fn every_block_is_right(&self) -> anyhow::Result<()> {
        let uri = self.hearth.uri(DISK);
        nbdsh(Some(&uri), &reads(0, WRITTEN, 6))?;
        nbdsh(Some(&uri), &reads(WRITTEN, BLOCKS - WRITTEN, 5))?;
        Ok(())
    }

    fn kill_and_start(self, lab: &Lab) -> anyhow::Result<Self> {
        self.hearth.kill()?;
        let hearth = Hearth::start(lab, &self.settings)?;
        Ok(Self { hearth, ..self })
    }
}

#[test]
fn flash_that_was_slow_for_a_while_is_taken_back_warm() {
    if !can_mount("flash that is slow") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let slow = Slow::start(lab)?;
        slow.flash.recover()?;
        wait_until("the flash to be taken back", LONG, || {
            // On a busy machine its reads were late, too: these are the probes that end it.
            slow.every_block_is_right()?;
            Ok(slow.status()?["reason"].is_null())
        })?;
        let misses = |slow: &Slow| -> anyhow::Result<Value> {
            Ok(slow.hearth.json(&["disk", "show", DISK])?["counters"]["read_block_misses"].clone())
        };
        let before = misses(&slow)?;
        slow.every_block_is_right()?;
        ensure!(
            misses(&slow)? == before,
            "all of it is served from the flash"
        );
        let slow = slow.kill_and_start(lab)?;
        let status = slow.status()?;
        let recovered = status["recovered_blocks"].as_u64().unwrap_or_default();
        // Beside what was written, its neighbours had to be distrusted.
        ensure!(recovered >= BLOCKS - WRITTEN - 128, "{status}");
        slow.every_block_is_right()?;
        slow.hearth.stop().map(drop)
    });
}

#[test]
fn a_crash_while_the_flash_is_slow_brings_nothing_older_back() {
    if !can_mount("flash that is slow") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let slow = Slow::start(lab)?.kill_and_start(lab)?;
        ensure!(slow.status()?["recovered_blocks"] == 0, "it starts empty");
        slow.flash.recover()?;
        slow.every_block_is_right()?;
        slow.hearth.stop().map(drop)
    });
}
