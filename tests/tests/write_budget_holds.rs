//! A write budget holds while a guest reads far more than it allows, and the reads go on.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Fio, Flash, Hearth, HearthSettings, Image, scenario};
use std::time::Instant;

const MIB: u64 = 1 << 20;

#[test]
fn the_flash_is_not_written_beyond_its_budget_and_reads_go_on() {
    scenario(&["fio"], |lab| {
        let image = Image::new(lab, "image.raw", 256)?;
        let flash = Flash::format(lab, "flash.img", 512)?;
        let settings = HearthSettings::new(&flash)
            .cache_key("write_delay = '50ms'")
            .policy_key("admission = 'always'")
            .policy_key("write_budget = '480MiB/day'")
            .disk(&DiskSettings::on_file("web", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let began = Instant::now();
        Fio::new(lab, "reads", &hearth.uri("web"))
            .with("rw=randread")
            .with("bs=16k")
            .with("iodepth=8")
            .with("size=256m")
            .run()?;
        let status = hearth.json(&["status"])?;
        let cache = &status["caches"][0];
        let causes = cache["flash_written_bytes"].as_object().context("causes")?;
        let written: u64 = causes.values().filter_map(serde_json::Value::as_u64).sum();
        let budget = &cache["policy"]["write_budget"];
        let burst = budget["burst_bytes"].as_u64().context("a burst")?;
        ensure!(budget["bytes_per_day"] == 480 * MIB, "{budget}");
        let debt = budget["debt_bytes"].as_u64().context("a debt")?;
        let dripped = 480 * MIB * (began.elapsed().as_secs() + 1) / 86_400;
        ensure!(
            written <= burst + dripped + debt,
            "{written} bytes written of a burst of {burst}, {dripped} since and a debt of {debt}"
        );
        // What was asked for before it was known to be too much: chunks and descriptors, not more blocks.
        ensure!(debt <= 4 * MIB, "{debt} beyond the budget");
        ensure!(
            written >= burst / 2,
            "{written} bytes written only: the budget was not used"
        );
        let vm = hearth.json(&["vm", "show", "web"])?;
        let share = &vm["shares"][0];
        let refused = share["admission"]["refused_blocks"]["budget"].as_u64();
        ensure!(refused.context("a reason")? > 10_000, "{share}");
        ensure!(share["blocks"]["reads"] == 65_536, "{share}");
        let advice = hearth.json(&["advise", "--host"])?;
        let findings = advice["caches"][0]["findings"].to_string();
        ensure!(findings.contains("budget-limits"), "{advice}");
        Ok(())
    });
}
