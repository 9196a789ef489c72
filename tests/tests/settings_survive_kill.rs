//! What was set of VMs and caches while the daemon ran holds after `kill -9`, until it is taken back.

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, scenario};
use serde_json::Value;

fn policy(hearth: &Hearth) -> anyhow::Result<Value> {
    Ok(hearth.json(&["status"])?["caches"][0]["policy"].clone())
}

#[test]
fn settings_are_there_after_a_kill() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "image.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .policy_key("reuses = 2")
            .policy_key("staging = '2MiB'")
            .disk(&DiskSettings::on_file("web", image.path()))
            .vm("web", "weight = 300");
        let hearth = Hearth::start(lab, &settings)?;
        hearth.command(&[
            "vm",
            "set",
            "web",
            "--floor",
            "20MiB",
            "--admission",
            "larc",
        ])?;
        // One that has no disk yet finds its settings when it has.
        hearth.command(&["vm", "set", "later", "--new", "--weight", "7"])?;
        hearth.command(&[
            "cache",
            "set",
            "flash",
            "--write-budget",
            "3GiB/day",
            "--allocation",
            "rwss",
        ])?;
        let (before, cache_before) = (hearth.json(&["vm", "show", "web"])?, policy(&hearth)?);
        ensure!(before["settings"]["weight"] == 300, "{before}");
        ensure!(before["settings"]["floor_bytes"] == 20 << 20, "{before}");
        ensure!(
            before["changed"] == serde_json::json!(["floor", "admission"]),
            "{before}"
        );
        hearth.kill()?;

        let hearth = Hearth::start(lab, &settings)?;
        let (after, cache_after) = (hearth.json(&["vm", "show", "web"])?, policy(&hearth)?);
        for key in ["settings", "changed"] {
            ensure!(before[key] == after[key], "{before} {after}");
            ensure!(
                cache_before[key] == cache_after[key],
                "{cache_before} {cache_after}"
            );
        }
        ensure!(cache_after["settings"]["reuses"] == 2, "{cache_after}");
        ensure!(
            cache_after["write_budget"]["bytes_per_day"] == 3_u64 << 30,
            "{cache_after}"
        );
        ensure!(
            after["shares"][0]["admission"]["policy"]
                .as_str()
                .is_some_and(|policy| policy.starts_with("larc")),
            "{after}"
        );
        ensure!(hearth.json(&["vm", "show", "later"])?["settings"]["weight"] == 7);

        hearth.command(&["vm", "set", "web", "--reset"])?;
        hearth.command(&["cache", "set", "flash", "--reset"])?;
        let (reset, cache_reset) = (hearth.json(&["vm", "show", "web"])?, policy(&hearth)?);
        ensure!(reset["settings"]["weight"] == 300, "{reset}");
        ensure!(reset["settings"]["floor_bytes"] == 0, "{reset}");
        ensure!(cache_reset["write_budget"].is_null(), "{cache_reset}");
        Ok(())
    });
}
