//! Shares, policies and budgets change while VMs run, and no cached block is lost by it.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Origin, OriginSettings, Request, nbdsh,
    scenario,
};

const MIB: u64 = 24;

/// What an operator may try in an afternoon.
const CHANGES: &[&[&str]] = &[
    &["vm", "set", "web", "--weight", "1"],
    &["vm", "set", "db", "--floor", "100MiB"],
    &["vm", "set", "web", "--ceiling", "8MiB"],
    &["vm", "set", "web", "--write-budget", "1GiB/day"],
    &["vm", "set", "web", "--admission", "larc"],
    &[
        "cache",
        "set",
        "flash",
        "--allocation",
        "rwss",
        "--staging",
        "16MiB",
    ],
    &[
        "cache",
        "set",
        "flash",
        "--allocation",
        "utility",
        "--window",
        "auto",
    ],
    &[
        "cache",
        "set",
        "flash",
        "--admission",
        "larc",
        "--spare",
        "idle",
    ],
    &["cache", "set", "flash", "--write-budget", "2DWPD"],
    &["cache", "set", "flash", "--enabled", "false"],
    &["cache", "set", "flash", "--reset"],
    &["vm", "set", "db", "--reset"],
];

#[test]
fn settings_change_without_losing_a_block() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "image.raw", MIB)?;
        let other = Image::new(lab, "other.raw", MIB)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 256)?;
        let settings = HearthSettings::new(&flash)
            .cache_key("write_delay = '50ms'")
            .policy_key("admission = 'always'")
            .policy_key("staging = '16MiB'")
            .disk(&DiskSettings::on_nbd("web", &origin.uri()))
            .disk(&DiskSettings::on_file("db", other.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let all = format!("for at in range({MIB}):\n  h.pread(1 << 20, at << 20)");
        nbdsh(Some(&hearth.uri("web")), &all)?;
        nbdsh(Some(&hearth.uri("db")), &all)?;
        let before = origin.requests()?.len();
        for change in CHANGES {
            hearth.command(change)?;
            nbdsh(
                Some(&hearth.uri("web")),
                &format!("for at in range({MIB}):\n  h.pread(4096, at << 20)"),
            )?;
        }
        let script = format!(
            "import hashlib\nhash = hashlib.sha256()\nfor at in range({MIB}):\n  \
             hash.update(h.pread(1 << 20, at << 20))\nprint(hash.hexdigest())"
        );
        let seen = nbdsh(Some(&hearth.uri("web")), &script)?;
        let real = e2e::run(std::process::Command::new("sha256sum").arg(image.path()))?;
        ensure!(
            real.stdout.starts_with(seen.stdout.trim()),
            "{}",
            seen.stdout
        );
        let again = Request::blocks(&origin.reads_since(before)?).len();
        ensure!(again == 0, "{again} blocks were fetched again");
        let web = hearth.json(&["vm", "show", "web"])?;
        ensure!(web["settings"]["admission"] == "larc", "{web}");
        ensure!(
            web["changed"]
                .as_array()
                .is_some_and(|keys| keys.len() == 4),
            "{web}"
        );
        let db = hearth.json(&["vm", "show", "db"])?;
        ensure!(db["changed"] == serde_json::json!([]), "{db}");
        Ok(())
    });
}
