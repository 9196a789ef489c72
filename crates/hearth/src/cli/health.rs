//! `hearth cache health`: the drives under the caches.
//!
//! The daemon has looked at them. What it may not ask, this command asks itself where root runs it, and tells the
//! daemon, so that its metrics and warnings have it too.

use super::args::Global;
use super::run::show;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{facts, progress, quantity};
use api::client::{Client, Method};
use api::drives::{CacheDrives, FlashDrive, FlashDrives, ToldHealth};
use clap::{Args, ValueHint};
use configuration::Name;
use drives::{Asker, DriveKind, Health, Program, Smart};
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::path::PathBuf;
use units::number::real;

/// Arguments of `cache health`.
#[derive(Debug, Args)]
pub struct HealthOf {
    /// The cache; all if not given
    pub name: Option<Name>,
    /// The program that asks drives, where root runs this; smartctl of the package smartmontools if not given
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub smartctl: Option<PathBuf>,
}

/// Does what was asked and returns what to print.
pub(super) async fn health(
    client: &Client,
    global: &Global,
    asked: &HealthOf,
) -> Result<Vec<u8>, CliError> {
    let mut known: FlashDrives = client.get("/v1/drives").await?;
    if rustix::process::geteuid().is_root() {
        let devices = to_ask(&known, asked.name.as_ref());
        let program = asked.smartctl.clone().map_or(Program::Found, Program::At);
        let asker = Asker::new(program);
        let asking = tokio::task::spawn_blocking(move || ask(&asker, devices));
        let asking = progress::waiting("asking drives".to_owned(), asking);
        let told = asking
            .await
            .map_err(|error| CliError::of(Exit::Failed, &error))?;
        if !told.is_empty() {
            let path = "/v1/drives/health";
            known = client.send(Method::POST, path, Some(&told)).await?;
        }
    }
    if let Some(name) = &asked.name
        && known.age_seconds.is_some()
    {
        known.caches.retain(|cache| cache.cache == *name);
        if known.caches.is_empty() {
            let error = CliError::new(Exit::NotFound, format!("there is no cache {name}"));
            return Err(error.with_remedy("hearth status lists them"));
        }
    }
    show(global, &known, write)
}

/// The drives whose health the daemon has not heard from themselves.
fn to_ask(known: &FlashDrives, name: Option<&Name>) -> BTreeSet<String> {
    let meant = |cache: &&CacheDrives| name.is_none_or(|name| cache.cache == *name);
    let drives = known.caches.iter().filter(meant).flat_map(|of| &of.drives);
    let foreign = drives
        .filter(|flash| flash.told_seconds_ago.is_some() || flash.drive.smart.health().is_none());
    foreign.map(|flash| flash.drive.device.clone()).collect()
}

fn ask(asker: &Asker, devices: BTreeSet<String>) -> Vec<ToldHealth> {
    let asked = devices.into_iter().filter_map(|device| {
        let health = asker.ask(&device).health()?.clone();
        Some(ToldHealth { device, health })
    });
    asked.collect()
}

fn write(out: &mut String, known: &FlashDrives) -> fmt::Result {
    let Some(age) = known.age_seconds else {
        return writeln!(
            out,
            "the daemon has not looked at its drives yet: ask again"
        );
    };
    for (place, cache) in known.caches.iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        writeln!(out, "{}: {}", cache.cache, cache.path)?;
        if let Some(why) = &cache.no_drive {
            writeln!(out, "no drive: {why}")?;
        }
        for flash in &cache.drives {
            one(out, flash)?;
        }
    }
    writeln!(out, "\nthe daemon looked {} ago", quantity::time(age))
}

fn one(out: &mut String, flash: &FlashDrive) -> fmt::Result {
    let drive = &flash.drive;
    let mut lines = vec![
        ("drive", titled(flash)),
        ("write cache", cache_words(flash)),
    ];
    if drive.is_rotational == Some(true) && drive.kind != DriveKind::Virtual {
        lines.push(("kind", "turning disks: slower than most origins".to_owned()));
    }
    match &drive.smart {
        Smart::Known(health) => lines.extend(health_lines(health)),
        Smart::Unknown { reason, remedy } => {
            lines.push(("health", format!("not known: {reason}")));
            lines.extend(remedy.clone().map(|remedy| ("  try", remedy)));
        }
    }
    if let Some(age) = flash.told_seconds_ago {
        let age = quantity::time(age);
        lines.push((
            "heard by",
            format!("root's `hearth cache health`, {age} ago"),
        ));
    }
    if let Some(written) = &flash.written {
        let all = quantity::bytes(written.drive_bytes);
        let caches = quantity::bytes(written.caches_bytes);
        let time = quantity::time(written.seconds);
        lines.push((
            "meanwhile",
            format!("in {time} this host wrote {all}, of which Hearth's caches wrote {caches}"),
        ));
    }
    facts(out, &lines)?;
    for concern in &flash.concerns {
        writeln!(out, "WARNING: {}", concern.found)?;
        writeln!(out, "  try: {}", concern.remedy)?;
    }
    Ok(())
}

fn titled(flash: &FlashDrive) -> String {
    let drive = &flash.drive;
    let model = drive.model.as_deref();
    let model = model.map_or(String::new(), |model| format!(" ({model})"));
    format!("{}{model}", drive.device)
}

fn cache_words(flash: &FlashDrive) -> String {
    let words = match (flash.drive.kind, flash.drive.has_volatile_cache) {
        (_, None) => "the kernel does not say whether it is volatile",
        (DriveKind::Virtual, Some(_)) => {
            "a virtual disk: what it says is its host's setting, not what the flash below does at a power cut"
        }
        (_, Some(true)) => "volatile: the kernel flushes it",
        (_, Some(false)) => "none, or protected against power loss: the kernel need not flush it",
    };
    words.to_owned()
}

fn health_lines(health: &Health) -> Vec<(&'static str, String)> {
    let percent = |part: Option<u64>| part.map(|part| format!("{part} %"));
    let count = |count: Option<u64>| count.map(|count| count.to_string());
    let spare = percent(health.spare_percent).map(|spare| {
        let least = percent(health.spare_threshold_percent);
        least.map_or(spare.clone(), |least| {
            format!("{spare} (too little below {least})")
        })
    });
    let celsius = health.temperature_celsius;
    let hours = |hours: u64| quantity::time(real(hours) * 3600.0);
    let all = [
        ("endurance used", percent(health.used_percent)),
        ("spare blocks", spare),
        ("temperature", celsius.map(|celsius| format!("{celsius} C"))),
        ("media errors", count(health.media_errors)),
        ("unsafe shutdowns", count(health.unsafe_shutdowns)),
        (
            "written by hosts",
            health.written_bytes.map(quantity::bytes),
        ),
        ("power on", health.power_on_hours.map(hours)),
    ];
    let there = all.into_iter();
    there
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::{Drive, judge};

    fn flash(smart: Smart) -> FlashDrive {
        let drive = Drive {
            device: "/dev/nvme0n1".to_owned(),
            kind: DriveKind::Nvme,
            model: Some("FAST 9000".to_owned()),
            is_rotational: Some(false),
            has_volatile_cache: Some(true),
            smart,
        };
        FlashDrive {
            concerns: judge(&drive),
            drive,
            told_seconds_ago: None,
            written: None,
        }
    }

    fn known(drives: Vec<FlashDrive>) -> FlashDrives {
        FlashDrives {
            age_seconds: Some(3.0),
            caches: vec![CacheDrives {
                cache: "fast".parse().unwrap(),
                path: "/flash.img".to_owned(),
                no_drive: None,
                drives,
            }],
        }
    }

    fn text(known: &FlashDrives) -> String {
        let mut text = String::new();
        write(&mut text, known).unwrap();
        text
    }

    #[test]
    fn figures_and_warnings_are_shown_with_what_to_do() {
        let health = Health {
            used_percent: Some(93),
            spare_percent: Some(80),
            spare_threshold_percent: Some(10),
            unsafe_shutdowns: Some(4),
            ..Health::default()
        };
        let text = text(&known(vec![flash(Smart::Known(health))]));
        for words in [
            "/dev/nvme0n1 (FAST 9000)",
            "93 %",
            "80 % (too little below 10 %)",
            "WARNING: 93 % of its endurance is used",
            "WARNING: it has no power-loss protection",
            "  try: plan to replace it",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("temperature"), "{text}");
    }

    #[test]
    fn root_asks_what_the_daemon_does_not_know() {
        let unknown = || Smart::Unknown {
            reason: "Permission denied".to_owned(),
            remedy: None,
        };
        let all = known(vec![
            flash(unknown()),
            flash(Smart::Known(Health::default())),
        ]);
        assert_eq!(to_ask(&all, None).len(), 1);
        assert_eq!(to_ask(&all, Some(&"slow".parse().unwrap())).len(), 0);
        let mut told = flash(Smart::Known(Health::default()));
        told.told_seconds_ago = Some(4000.0);
        assert_eq!(to_ask(&known(vec![told]), None).len(), 1);
    }

    #[test]
    fn what_is_no_drive_says_what_it_is() {
        let mut memory = known(Vec::new());
        memory.caches[0].no_drive = Some("memory (tmpfs)".to_owned());
        assert!(text(&memory).contains("no drive: memory (tmpfs)"));
        memory.age_seconds = None;
        assert!(text(&memory).contains("not looked"));
    }
}
