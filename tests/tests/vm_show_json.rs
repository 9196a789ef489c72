//! `hearth vm show --json` has every key that its manual page names.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, nbdsh, scenario};
use serde_json::Value;

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map
            .iter()
            .any(|(name, inner)| name == key || has_key(inner, key)),
        Value::Array(items) => items.iter().any(|inner| has_key(inner, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn the_manual_page_names_the_keys_that_there_are() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "image.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .policy_key("prefetch = 'readahead'")
            .disk(&DiskSettings::on_file("web", image.path()));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("web")),
            "for at in range(8):\n  h.pread(1 << 20, at << 20)\n  h.pread(4096, at << 20)",
        )?;
        let help = hearth.command(&["vm", "show", "--help"])?.stdout;
        let (_, json) = help
            .split_once("JSON of a VM:")
            .context("a part about JSON")?;
        let keys: Vec<&str> = json.split('`').skip(1).step_by(2).collect();
        ensure!(keys.len() > 30, "{keys:?}");
        let shown = hearth.json(&["vm", "show", "web"])?;
        for key in keys {
            ensure!(has_key(&shown, key), "no {key} in {shown:#}");
        }
        let share = &shown["shares"][0];
        ensure!(share["blocks"]["reads"] == 8 * 257, "{share}");
        ensure!(share["blocks"]["flash_hits"] == 8, "{share}");
        let text = hearth.command(&["vm", "show", "web"])?.stdout;
        ensure!(
            text.contains("misses of reads by size of the cache"),
            "{text}"
        );
        ensure!(text.contains("P present share"), "{text}");
        ensure!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
        Ok(())
    });
}
