//! Settings that contradict each other are refused with the arithmetic, and change nothing.

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, hearth_program, scenario};
use std::process::Command;

fn settings(lab: &Lab) -> anyhow::Result<HearthSettings> {
    let flash = Flash::format(lab, "flash.img", 128)?;
    let [web, db] = ["web", "db"].map(|name| Image::new(lab, &format!("{name}.raw"), 16));
    Ok(HearthSettings::new(&flash)
        .disk(&DiskSettings::on_file("web", web?.path()))
        .disk(&DiskSettings::on_file("db", db?.path())))
}

/// What cannot be, and the words that say so.
const CONTRADICTIONS: &[(&[&str], &str)] = &[
    (
        &["vm", "set", "db", "--floor", "90MiB"],
        "the floors of db (90MiB) + web (60MiB) = 150MiB, 150.60MiB in whole segments of 1008KiB, exceed the",
    ),
    (
        &["vm", "set", "web", "--ceiling", "50MiB"],
        "the floor of 60MiB is above the ceiling of 50MiB",
    ),
    (
        &["vm", "set", "web", "--write-budget", "0B/day"],
        "lets nothing into the flash",
    ),
    (
        &["vm", "set", "web", "--weight", "0"],
        "between 1 and 10000",
    ),
    (
        &["cache", "set", "flash", "--write-budget", "0DWPD"],
        "lets nothing into the flash",
    ),
    (
        &["cache", "set", "flash", "--reuses", "7"],
        "must be 0, 1, 2 or 3",
    ),
    (
        &["cache", "set", "flash", "--hysteresis", "1.5"],
        "between 0 and 1",
    ),
    (
        &["cache", "set", "flash", "--memory", "200KiB"],
        "memory limit of 200KiB",
    ),
];

/// What is not there, and what was probably meant.
const UNKNOWN: &[(&[&str], &str)] = &[
    (
        &["cache", "set", "flsh", "--reuses", "1"],
        "there is no cache 'flsh'",
    ),
    (&["cache", "set", "flash", "--admission", "lark"], "larc"),
    (
        &["cache", "set", "flash", "--allocation", "utilty"],
        "utility",
    ),
    (&["vm", "show", "webb"], "did you mean 'web'?"),
];

#[test]
fn a_change_that_cannot_hold_changes_nothing() {
    scenario(&[], |lab| {
        let hearth = Hearth::start(lab, &settings(lab)?.vm("web", "floor = '60MiB'"))?;
        let before = (hearth.json(&["vm", "list"])?, hearth.json(&["status"])?);
        for (change, words) in CONTRADICTIONS.iter().chain(UNKNOWN) {
            let refused = hearth.refused_command(change)?;
            ensure!(
                refused.stderr.contains(words),
                "{change:?}: {}",
                refused.stderr
            );
        }
        let after = (hearth.json(&["vm", "list"])?, hearth.json(&["status"])?);
        ensure!(before.0["vms"][0]["settings"] == after.0["vms"][0]["settings"]);
        ensure!(before.0["vms"][1]["settings"] == after.0["vms"][1]["settings"]);
        let policy = |status: &serde_json::Value| status["caches"][0]["policy"]["settings"].clone();
        ensure!(policy(&before.1) == policy(&after.1));
        Ok(())
    });
}

/// `--check-config` refuses the file, and says all of this.
fn is_refused(lab: &Lab, settings: &HearthSettings, words: &[&str]) -> anyhow::Result<()> {
    let checked = e2e::run_expecting_failure(
        Command::new(hearth_program()?)
            .args(["serve", "--check-config", "--config"])
            .arg(settings.write(lab)?),
    )?;
    for words in words {
        ensure!(checked.stderr.contains(words), "{}", checked.stderr);
    }
    Ok(())
}

#[test]
fn a_file_that_promises_too_much_is_refused_with_its_line() {
    scenario(&[], |lab| {
        let settings = settings(lab)?
            .vm("web", "floor = '90MiB'")
            .vm("db", "floor = '60MiB'");
        let words = "the floors of web (90MiB) + db (60MiB) = 150MiB, 150.60MiB in whole segments of 1008KiB, exceed the";
        is_refused(lab, &settings, &[words, "vm[0].floor"])
    });
}

#[test]
fn a_floor_counts_before_its_vm_has_a_disk() {
    scenario(&[], |lab| {
        let settings = settings(lab)?
            .vm("web", "floor = '60MiB'")
            .vm("soon", "floor = '90MiB'");
        let words = [
            "the floors of web (60MiB) + soon (90MiB) = 150MiB, 150.60MiB in whole segments of 1008KiB, exceed the",
            "soon counts although it has no disk yet",
        ];
        is_refused(lab, &settings, &words)
    });
}
