//! `hearth cache format` and `hearth cache check`.

use super::args::{Check, Format};
use crate::offline::{self, CheckReport, Checked, OfflineError, Present};
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::quantity;
use crate::terminal::{Side, Table, facts};
use daemon::holder_of;
use std::fmt::Write;

/// Makes a cache and says what it is.
pub(super) fn format(format: &Format, json: bool) -> Result<Vec<u8>, CliError> {
    let present = offline::present(&format.path).map_err(|error| explain(&error, format))?;
    may_replace(present, format)?;
    let made = offline::format(&format.path, format.size, format.segment_size)
        .map_err(|error| explain(&error, format))?;
    if json {
        return crate::terminal::to_json(&made);
    }
    let text = format!(
        "{} is an empty cache of {}: {} of {}, room for {}\n",
        made.path,
        quantity::bytes(made.flash_bytes),
        quantity::counted(made.segments, "segment"),
        quantity::bytes(made.segment_bytes),
        quantity::counted(made.blocks_max, "block"),
    );
    Ok(text.into_bytes())
}

/// Refuses to write over what is there, unless its loss was asked for by its name.
fn may_replace(present: Present, format: &Format) -> Result<(), CliError> {
    let path = format.path.display();
    let refused = |what: &str| CliError::new(Exit::Refused, format!("{path} holds {what}"));
    match present {
        Present::Cache if !format.force => Err(refused("a Hearth cache already").with_remedy(
            format!("hearth cache format {path} --force makes it empty, unless origins lack bytes that are on it"),
        )),
        Present::Cache if format.lose_dirty => Ok(()),
        Present::Cache => loses_nothing(format),
        Present::Foreign(Some(what)) if !format.lose_foreign => {
            Err(refused(&format!("something that is not a Hearth cache: it looks like {what}"))
                .with_remedy(format!(
                    "name another file or device; or, if nobody needs it: hearth cache format {path} --force --lose-foreign, which loses it"
                )))
        }
        Present::Foreign(None) if !format.force => {
            Err(refused("something that is not a Hearth cache").with_remedy(format!(
                "name another file or device; or, if nobody needs it: hearth cache format {path} --force, which loses it"
            )))
        }
        Present::Nothing | Present::Foreign(_) => Ok(()),
    }
}

/// Refuses to make a cache empty that has, or may have, bytes that origins lack.
fn loses_nothing(format: &Format) -> Result<(), CliError> {
    let path = format.path.display();
    let lose = format!("hearth cache format {path} --force --lose-dirty, which loses them");
    let stake = match super::recover::at_stake(&format.path, format.config.as_deref()) {
        Ok(stake) => stake,
        // A daemon is using it.
        Err(error) if error.remedy.is_some() => return Err(error),
        Err(error) => {
            let detail = format!(
                "it cannot be known whether origins lack bytes that are on {path}: {}",
                error.message
            );
            return Err(CliError::new(Exit::Refused, detail)
                .with_remedy(format!("if nothing on it is needed: {lose}")));
        }
    };
    if stake.is_empty() {
        return Ok(());
    }
    let disks: Vec<String> = stake
        .iter()
        .map(|(disk, bytes)| format!("{disk} ({})", quantity::bytes(bytes.get())))
        .collect();
    let detail = format!(
        "{path} holds bytes that the origins of disks lack: {}",
        disks.join(", ")
    );
    Err(CliError::new(Exit::Refused, detail).with_remedy(format!(
        "bring them to their origins: start the daemon, or hearth recover list {path}, then destage or export; or {lose}"
    )))
}

fn explain(error: &OfflineError, format: &Format) -> CliError {
    let path = format.path.display();
    let cli = |exit| CliError::new(exit, chain(error));
    match error {
        OfflineError::Missing { .. } => {
            cli(Exit::Usage).with_remedy(format!("hearth cache format {path} --size 10GiB"))
        }
        OfflineError::NoRoom { .. } => {
            cli(Exit::Refused).with_remedy("give a smaller --size, or make room")
        }
        OfflineError::Format(_) | OfflineError::DeviceSize { .. } => cli(Exit::Usage),
        OfflineError::Open(open) => opening(open, error),
        OfflineError::Io { .. }
        | OfflineError::Unreadable(_)
        | OfflineError::Memory(_)
        | OfflineError::Target(_) => cli(Exit::Failed),
    }
}

fn opening(open: &device::uring::OpenError, error: &OfflineError) -> CliError {
    match open {
        device::uring::OpenError::InUse { path } => {
            let message = match holder_of(path) {
                Some(holder) => format!("{}: {holder}", chain(error)),
                None => chain(error),
            };
            CliError::new(Exit::Refused, message).with_remedy(
                "stop what uses it; the daemon: systemctl stop hearth.socket hearth.service",
            )
        }
        _ => CliError::new(Exit::Failed, chain(error)),
    }
}

/// Examines a cache; damage is an exit code of its own.
pub(super) fn check(check: &Check, json: bool) -> Result<Vec<u8>, CliError> {
    let mut progress = Progress::new("examining");
    let report = offline::check(&check.path, check.read_data, &mut |done, total| {
        progress.at(done, total);
    });
    drop(progress);
    let report = report.map_err(|error| match &error {
        OfflineError::Open(open) => opening(open, &error),
        _ => CliError::of(Exit::Failed, &error),
    })?;
    let text = if json {
        crate::terminal::to_json(&report)?
    } else {
        let mut text = String::new();
        render(&mut text, &report).map_err(|error| CliError::of(Exit::Failed, &error))?;
        text.into_bytes()
    };
    if report.sound {
        return Ok(text);
    }
    crate::terminal::print(&text)?;
    Err(unsound(&report))
}

/// What is to be said of flash with faults.
fn unsound(report: &CheckReport) -> CliError {
    let path = &report.path;
    let damaged = |message| CliError::new(Exit::Damaged, message);
    if report.cache.is_some() {
        let message = format!(
            "{path} has {}",
            quantity::counted(report.fault_count, "fault")
        );
        return damaged(message)
            .with_remedy("nothing: what is damaged is fetched from the origin when it is read");
    }
    match (&report.looks_like, report.is_cache) {
        (Some(what), _) => damaged(format!("{path} is no Hearth cache: it looks like {what}"))
            .with_remedy("leave it alone, and name the flash of a cache: hearth status lists them"),
        (None, false) => damaged(format!("{path} is no Hearth cache"))
            .with_remedy("name the flash of a cache: hearth status lists them; an unused file or device becomes one by hearth cache format"),
        (None, true) => damaged(format!("{path} has {}", quantity::counted(report.fault_count, "fault")))
            .with_remedy("what its daemon has not brought to origins cannot be read from it; if nothing on it is needed: hearth cache format, as the fault says"),
    }
}

fn render(out: &mut String, report: &CheckReport) -> std::fmt::Result {
    if let Some(cache) = &report.cache {
        render_cache(out, &report.path, cache)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for fault in &report.faults {
        writeln!(out, "fault: {fault}")?;
    }
    let listed = report.faults.len() as u64;
    if listed < report.fault_count {
        writeln!(out, "and {} more", report.fault_count - listed)?;
    }
    if report.sound {
        writeln!(out, "sound")?;
    }
    Ok(())
}

fn render_cache(out: &mut String, path: &str, cache: &Checked) -> std::fmt::Result {
    let stopped = if cache.clean {
        "stopped cleanly"
    } else {
        "not stopped cleanly"
    };
    let mut lines = vec![
        (
            "flash",
            format!("{path} ({})", quantity::bytes(cache.flash_bytes)),
        ),
        (
            "cache",
            format!(
                "{}, format {}, incarnation {}",
                cache.uuid, cache.format_version, cache.incarnation
            ),
        ),
        (
            "state",
            format!(
                "{stopped}; checkpoint {}, {} journal pages on top",
                cache.checkpoint, cache.journal_pages
            ),
        ),
        (
            "segments",
            format!(
                "{} of {} used, {} each",
                cache.segments_used,
                cache.segments,
                quantity::bytes(cache.segment_bytes)
            ),
        ),
        (
            "blocks",
            format!(
                "{} ({}), {} lost",
                cache.blocks,
                quantity::bytes(cache.blocks.saturating_mul(units::BLOCK_BYTES)),
                cache.blocks_lost
            ),
        ),
    ];
    if let Some(data) = &cache.data {
        lines.push((
            "data",
            format!("{} blocks good, {} bad", data.blocks_good, data.blocks_bad),
        ));
    }
    facts(out, &lines)?;
    let mut table = Table::new(&[
        ("disk", Side::Left),
        ("id", Side::Left),
        ("size", Side::Right),
        ("blocks", Side::Right),
    ]);
    for disk in &cache.disks {
        table.row(vec![
            disk.name.clone(),
            disk.id.clone(),
            quantity::bytes(disk.size_bytes),
            disk.blocks.to_string(),
        ]);
    }
    if !cache.disks.is_empty() {
        write!(out, "\n{table}")?;
    }
    Ok(())
}
