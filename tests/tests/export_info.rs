//! What the server says of a disk before any request: size, flags, block sizes, its list of disks;
//! and that nothing of it touches the origin's data.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{Stack, StackSettings, run, scenario};

#[test]
fn an_export_describes_itself_without_reading_the_origin() {
    scenario(&["nbdinfo", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let before = stack.origin.requests()?.len();
        let uri = stack.uri();
        let output = run(Command::new("nbdinfo")
            .args(["--json", "--no-content"])
            .arg(&uri))?;
        let info: serde_json::Value =
            serde_json::from_str(&output.stdout).context("nbdinfo's JSON")?;
        let export = &info["exports"][0];
        ensure!(info["protocol"] == "newstyle-fixed", "{info}");
        ensure!(info["structured"] == true, "{info}");
        ensure!(export["export-size"] == stack.image.bytes(), "{info}");
        ensure!(export["is_read_only"] == false, "{info}");
        for can in [
            "can_flush",
            "can_fua",
            "can_trim",
            "can_zero",
            "can_multi_conn",
            "can_cache",
        ] {
            ensure!(export[can] == true, "{can} is not offered: {info}");
        }
        ensure!(export["block_size_minimum"] == 512, "{info}");
        ensure!(export["block_size_preferred"] == 4096, "{info}");

        let list = run(Command::new("nbdinfo")
            .args(["--list", "--json", "--no-content"])
            .arg(uri.replace("/disk?", "/?")))?;
        let list: serde_json::Value =
            serde_json::from_str(&list.stdout).context("nbdinfo's JSON")?;
        let names: Vec<_> = list["exports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|each| &each["export-name"])
            .collect();
        ensure!(names == ["disk"], "{list}");
        let touched = stack.origin.reads_since(before)?;
        ensure!(touched.is_empty(), "describing a disk read it: {touched:?}");
        Ok(())
    });
}
