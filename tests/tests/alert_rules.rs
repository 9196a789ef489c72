//! The alert rules and dashboards: `promtool` accepts the rules, each alert fires in its case and is quiet in the other, and a real daemon
//! exports what rules and dashboards name.

use anyhow::ensure;
use e2e::{Back, DiskSettings, Flash, Hearth, HearthSettings, Image, nbdsh, run, scenario, writes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How names begin that a daemon exports only with links to other hosts, in a cluster, beside a resource monitor, or on drives that
/// tell of their health. The
/// unit tests compare them with the table of metrics.
const ELSEWHERE: &[&str] = &[
    "hearth_link_",
    "hearth_hand_over",
    "hearth_roaming_",
    "hearth_cluster_",
    "hearth_flash_drive_",
    "hearth_host_",
    "hearth_vm_cpu_",
    "hearth_vm_resident_",
];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

#[test]
fn each_alert_fires_when_it_should_and_not_otherwise() {
    scenario(&["promtool"], |_| {
        let folder = packaging().join("prometheus");
        let promtool = |arguments: &[&str]| {
            let mut command = Command::new("promtool");
            run(command.current_dir(&folder).args(arguments))
        };
        let said = promtool(&["check", "rules", "hearth.rules.yml"])?;
        ensure!(said.stdout.contains("SUCCESS"), "{}", said.stdout);
        promtool(&["test", "rules", "hearth.rules.test.yml"]).map(drop)
    });
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.starts_with("hearth_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn a_daemon_exports_what_rules_and_dashboards_name() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path())
            .key("write_policy = 'back'")
            .key("write_back = { dirty_max = '16MiB', age_max = '50ms', idle_after = '10ms' }");
        let settings = HearthSettings::new(&flash)
            .policy_key("write_budget = '480MiB/day'")
            .policy_key("prefetch = 'sequential'")
            .vm(Back::DISK, "write_budget = '480MiB/day'")
            .disk(&disk);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 50, 1))?;
        // A write of the origin, and a read of a block that the flash has not.
        hearth.command(&["disk", "flush", Back::DISK])?;
        nbdsh(Some(&uri), "h.pread(4096, 32 << 20)")?;

        let scraped = hearth.metrics()?;
        let exported: BTreeSet<&str> = scraped
            .lines()
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        let rules = packaging().join("prometheus/hearth.rules.yml");
        let dashboards = std::fs::read_dir(packaging().join("grafana"))?;
        let dashboards = dashboards.map(|entry| entry.map(|entry| entry.path()));
        let mut compared = 0;
        for path in dashboards.chain([Ok(rules)]) {
            let path = path?;
            let text = std::fs::read_to_string(&path)?;
            for name in names(&text) {
                if !ELSEWHERE.iter().any(|start| name.starts_with(start)) {
                    let is_there = exported.contains(name);
                    ensure!(is_there, "{}: no {name} in\n{scraped}", path.display());
                    compared += 1;
                }
            }
        }
        ensure!(compared > 60, "only {compared} names");
        hearth.stop().map(drop)
    });
}
