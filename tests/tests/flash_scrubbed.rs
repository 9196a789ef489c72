//! The scrub finds clean and dirty blocks that rot under a running daemon, a guest's bytes are right meanwhile, and a killed
//! daemon's successor goes on with it.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Stack, StackSettings, nbdsh,
    scenario, wait_until,
};
use serde_json::Value;

/// Hardly larger than the disk, so that most of it has something on it that can rot.
fn settings() -> StackSettings {
    StackSettings {
        flash_mib: 96,
        ..StackSettings::default()
    }
}

fn scrub_of(hearth: &Hearth) -> anyhow::Result<Value> {
    let status = hearth.json(&["status"])?;
    Ok(status["caches"][0]["scrub"].clone())
}

fn blocks(found: &Value) -> u64 {
    found["blocks"].as_u64().unwrap_or_default()
}

#[test]
fn rotten_clean_blocks_are_given_up_and_reads_are_right() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &settings())?;
        stack.read_disk(lab)?;
        let places = ((1 << 20)..stack.flash.bytes()?).step_by(64 << 10);
        stack.flash.rot(places.map(|offset| offset + 1234), 64)?;
        let hearth = stack.hearth();
        hearth.json(&["cache", "scrub", "flash", "--rate", "8MiB"])?;
        stack.check_disk_equals_origin(lab)?;
        let hearth = stack.hearth();
        let cache = hearth.json(&["cache", "scrub", "flash", "--rate", "1GiB", "--wait"])?;
        let last = &cache["scrub"]["last"];
        ensure!(last["damaged_clean_blocks"].as_u64() > Some(0), "{cache}");
        ensure!(last["damaged_dirty_blocks"] == 0, "{cache}");
        let metrics = hearth.metrics()?;
        let series = "hearth_cache_scrub_damaged_total{cache=\"flash\",kind=\"clean\"}";
        ensure!(metrics.contains(series), "no {series}");
        let ended = hearth.json(&["events", "--kind", "scrub-ended"])?;
        ensure!(ended.to_string().contains("whole"), "{ended}");
        Ok(())
    });
}

#[test]
fn rotten_dirty_blocks_are_named_and_never_older() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 256)?;
        let disk = DiskSettings::on_file("disk", image.path())
            .key("write_policy = 'back'")
            .key("write_back = { age_max = '1000s', idle_after = '1000s' }");
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let uri = hearth.uri("disk");
        nbdsh(
            Some(&uri),
            "h.pwrite(b'scrubbed' * 512, 8192, nbd.CMD_FLAG_FUA)",
        )?;
        let content = flash.content()?;
        let mut pages = content.chunks(4096).enumerate();
        let found = pages.find(|(_, page)| page.starts_with(b"scrubbedscrubbed"));
        let at = found.map_or(0, |(page, _)| page as u64 * 4096);
        ensure!(at > 0, "the block is on flash");
        flash.rot([at + 100], 8)?;
        let cache = hearth.json(&["cache", "scrub", "flash", "--wait"])?;
        let last = &cache["scrub"]["last"];
        ensure!(last["damaged_dirty_blocks"] == 1, "{cache}");
        let told = hearth.json(&["events", "--kind", "dirty-damaged"])?;
        ensure!(told.to_string().contains("disk"), "{told}");
        let log = hearth.log()?;
        ensure!(log.contains(&format!("flash_offset={at}")), "{log}");
        let read = "try:\n    h.pread(4096, 8192)\nexcept nbd.Error:\n    pass\nelse:\n    raise SystemExit('older bytes')";
        nbdsh(Some(&uri), read)?;
        Ok(())
    });
}

#[test]
fn a_killed_daemons_scrub_goes_on() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &settings())?;
        stack.read_disk(lab)?;
        let hearth = stack.hearth();
        hearth.json(&["cache", "scrub", "flash", "--rate", "1MiB"])?;
        // How far it is is written down ten seconds after it has begun.
        let mut before = 0;
        wait_until("some of it to be scrubbed and written down", LONG, || {
            let record = std::fs::read_to_string(lab.path("state/scrubs.json"))?;
            let record: Value = serde_json::from_str(&record)?;
            before = blocks(&record["caches"]["flash"]["pass"]["found"]);
            Ok(before > 0)
        })?;
        stack.kill_hearth()?;
        stack.start_hearth(lab)?;
        let hearth = stack.hearth();
        wait_until("the scrub to go on", LONG, || {
            Ok(blocks(&scrub_of(hearth)?["pass"]["found"]) >= before)
        })?;
        let cache = hearth.json(&["cache", "scrub", "flash", "--rate", "1GiB", "--wait"])?;
        let (last, total) = (&cache["scrub"]["last"], &cache["scrub"]["total"]);
        ensure!(
            blocks(last) >= before + blocks(total) && blocks(total) > 0,
            "{cache}"
        );
        // A segment that the kill has left without a footer is no damage.
        ensure!(last["damaged_lists"] == 0, "{cache}");
        Ok(())
    });
}
