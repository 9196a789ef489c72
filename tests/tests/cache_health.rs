//! `hearth cache health` with programs in the place of `smartctl`: one that answers as a real one, whose figures are in the metrics and
//! whose warnings are events; one that hangs, and holds up nobody; one that is missing, fails or prints rubbish. What the daemon may not
//! ask, root's command tells it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, SHORT, is_root, nbdsh, scenario,
    wait_until,
};
use serde_json::Value;

/// What a real smartctl says of a real controller's drive, and what makes a worn one of it.
const ANSWER: &str = include_str!("../../crates/drives/tests/data/qemu-nvme.json");
const WORN: [(&str, &str); 2] = [
    ("\"critical_warning\": 0", "\"critical_warning\": 4"),
    ("\"percentage_used\": 0", "\"percentage_used\": 95"),
];

fn stand_in(lab: &Lab, name: &str, script: &str) -> anyhow::Result<PathBuf> {
    let path = lab.path(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// A program that answers of any drive as of a worn one.
fn worn(lab: &Lab) -> anyhow::Result<PathBuf> {
    let changed = WORN.iter();
    let answer = changed.fold(ANSWER.to_owned(), |text, (from, to)| text.replace(from, to));
    let file = lab.path("answer.json");
    std::fs::write(&file, answer)?;
    stand_in(lab, "worn", &format!("cat {}", file.display()))
}

fn storage(lab: &Lab) -> anyhow::Result<(Image, Flash)> {
    let image = Image::new(lab, "disk.raw", 4)?;
    Ok((image, Flash::format(lab, "flash.img", 64)?))
}

/// A daemon with a disk, whose drives this program asks.
fn start(lab: &Lab, (image, flash): &(Image, Flash), smartctl: &str) -> anyhow::Result<Hearth> {
    let disk = DiskSettings::on_file("disk", image.path());
    let settings = HearthSettings::new(flash).disk(&disk);
    Hearth::start(
        lab,
        &settings.daemon_key(&format!("smartctl = '{smartctl}'")),
    )
}

/// What the command shows once the daemon has looked; `more` are options of it.
fn health(daemon: &Hearth, more: &[&str]) -> anyhow::Result<Value> {
    let words = [&["cache", "health"], more].concat();
    let mut seen = Value::Null;
    wait_until("the daemon to look at its drives", SHORT, || {
        seen = daemon.json(&words)?;
        Ok(!seen["age_seconds"].is_null())
    })?;
    Ok(seen)
}

/// The first drive under the cache; none where the test's folder lies in memory or on a network.
#[allow(clippy::print_stdout, reason = "says why a test is skipped")]
fn drive(seen: &Value) -> Option<&Value> {
    let drive = seen["caches"][0]["drives"].get(0);
    if drive.is_none() {
        println!("skipped: {}", seen["caches"][0]["no_drive"]);
    }
    drive
}

/// A program that root's command would ask instead of the daemon's, and that is not there.
const NOBODY: [&str; 2] = ["--smartctl", "/nowhere/smartctl"];

fn concerns(daemon: &Hearth) -> anyhow::Result<Vec<Value>> {
    let events = daemon.json(&["events", "--kind", "drive-concern"])?;
    let events = events["events"].as_array().context("events")?;
    Ok(events.clone())
}

#[test]
fn what_a_drive_says_is_shown_counted_and_warned_of_once() {
    scenario(&[], |lab| {
        let program = worn(lab)?;
        let daemon = &start(lab, &storage(lab)?, &program.display().to_string())?;
        let seen = health(daemon, &NOBODY)?;
        let Some(drive) = drive(&seen) else {
            return Ok(());
        };
        ensure!(drive["smart"]["state"] == "known", "{drive}");
        ensure!(drive["smart"]["used_percent"] == 95, "{drive}");
        ensure!(drive["smart"]["temperature_celsius"] == 50, "{drive}");
        let codes: Vec<&Value> = drive["concerns"].as_array().into_iter().flatten().collect();
        let codes: Vec<&str> = codes
            .iter()
            .filter_map(|one| one["code"].as_str())
            .collect();
        ensure!(codes.starts_with(&["failing", "worn"]), "{codes:?}");
        let events = concerns(daemon)?;
        ensure!(events.len() == codes.len(), "{events:?}");
        ensure!(events[0]["cache"] == "flash", "{events:?}");
        let device = drive["device"].as_str().context("a device")?;
        let metrics = daemon.metrics()?;
        let labels = format!("{{cache=\"flash\",device=\"{device}\"}}");
        for line in [
            format!("hearth_flash_drive_used_percent{labels} 95"),
            format!("hearth_flash_drive_failing{labels} 1"),
            format!("hearth_flash_drive_smart_known{labels} 1"),
            format!("hearth_flash_drive_written_bytes_total{labels} 4608000"),
        ] {
            ensure!(metrics.contains(&line), "{line} is not in {metrics}");
        }
        let text = daemon.command(&["cache", "health", "flash", NOBODY[0], NOBODY[1]])?;
        ensure!(text.stdout.contains("95 %"), "{}", text.stdout);
        ensure!(text.stdout.contains("WARNING"), "{}", text.stdout);
        let none = daemon.refused_command(&["cache", "health", "none"])?;
        ensure!(none.stderr.contains("no cache none"), "{}", none.stderr);
        Ok(())
    });
}

#[test]
fn a_program_that_hangs_holds_up_nobody() {
    scenario(&["nbdsh"], |lab| {
        let begun = lab.path("begun");
        let script = format!("touch {}\nexec sleep 60", begun.display());
        let program = stand_in(lab, "hangs", &script)?;
        let daemon = start(lab, &storage(lab)?, &program.display().to_string())?;
        let seen = daemon.json(&["cache", "health"])?;
        if !wait_for(&begun)? {
            println!(
                "skipped: there is no drive under {}",
                lab.path("").display()
            );
            return Ok(());
        }
        ensure!(seen["age_seconds"].is_null(), "{seen}");
        nbdsh(
            Some(&daemon.uri("disk")),
            "h.pwrite(b'x' * 4096, 0)\nh.pread(4096, 0)",
        )?;
        let text = daemon.command(&["cache", "health"])?;
        ensure!(text.stdout.contains("not looked"), "{}", text.stdout);
        // Neither does a stop wait for it.
        daemon.stop()?;
        Ok(())
    });
}

/// Whether the program was begun, while the daemon can have found a drive to ask.
fn wait_for(begun: &Path) -> anyhow::Result<bool> {
    let disks = std::fs::metadata(begun.parent().context("a folder")?)?;
    let device = std::os::unix::fs::MetadataExt::dev(&disks);
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff);
    if !Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists() {
        return Ok(false);
    }
    wait_until("the program to begin", SHORT, || Ok(begun.exists()))?;
    Ok(true)
}

#[test]
fn a_program_that_is_missing_or_prints_rubbish_is_no_error() {
    scenario(&[], |lab| {
        let storage = storage(lab)?;
        let rubbish = stand_in(lab, "rubbish", "echo '{rubbish'")?;
        let fails = stand_in(lab, "fails", "exit 3")?;
        let path = |path: &Path| path.display().to_string();
        for (program, words) in [
            ("/nowhere/smartctl".to_owned(), "package smartmontools"),
            (path(&rubbish), "printed no JSON"),
            (path(&fails), "printed no JSON"),
            ("off".to_owned(), "not asked"),
        ] {
            let daemon = start(lab, &storage, &program)?;
            let seen = health(&daemon, &NOBODY)?;
            let Some(drive) = drive(&seen) else {
                return Ok(());
            };
            ensure!(drive["smart"]["state"] == "unknown", "{drive}");
            ensure!(
                drive["smart"].to_string().contains(words),
                "{words}: {drive}"
            );
            let metrics = daemon.metrics()?;
            ensure!(
                metrics.contains("hearth_flash_drive_smart_known{"),
                "{metrics}"
            );
            ensure!(
                !metrics.contains("hearth_flash_drive_used_percent{"),
                "{metrics}"
            );
            daemon.stop()?;
        }
        Ok(())
    });
}

#[test]
fn root_tells_the_daemon_what_it_may_not_ask() {
    scenario(&[], |lab| {
        if !is_root("asking drives for the daemon") {
            return Ok(());
        }
        let program = worn(lab)?.display().to_string();
        let daemon = &start(lab, &storage(lab)?, "off")?;
        let seen = health(daemon, &NOBODY)?;
        if drive(&seen).is_none() {
            return Ok(());
        }
        let before = concerns(daemon)?.len();
        let seen = health(daemon, &["--smartctl", &program])?;
        let drive = drive(&seen).context("a drive")?;
        ensure!(drive["smart"]["used_percent"] == 95, "{drive}");
        ensure!(!drive["told_seconds_ago"].is_null(), "{drive}");
        let metrics = daemon.metrics()?;
        ensure!(
            metrics.contains("hearth_flash_drive_used_percent{"),
            "{metrics}"
        );
        wait_until("the warning", LONG, || {
            Ok(concerns(daemon)?.len() == before + 2)
        })
    });
}
