//! `hearth cache format` and `hearth cache check`.

use super::args::{Check, Format};
use super::exit::{CliError, Exit, chain};
use super::progress::Progress;
use super::quantity;
use super::table::{Side, Table, facts};
use crate::offline::{self, CheckReport, Checked, OfflineError};
use std::fmt::Write;

/// Makes a cache and says what it is.
pub(super) fn format(format: &Format, json: bool) -> Result<Vec<u8>, CliError> {
    let made = offline::format(&format.path, format.size, format.segment_size, format.force)
        .map_err(|error| explain(&error, format))?;
    if json {
        return super::run::to_json(&made);
    }
    let text = format!(
        "{} is an empty cache of {}: {} segments of {}, room for {} blocks\n",
        made.path,
        quantity::bytes(made.flash_bytes),
        made.segments,
        quantity::bytes(made.segment_bytes),
        made.blocks_max,
    );
    Ok(text.into_bytes())
}

fn explain(error: &OfflineError, format: &Format) -> CliError {
    let path = format.path.display();
    let cli = |exit| CliError::new(exit, chain(error));
    match error {
        OfflineError::Missing { .. } => {
            cli(Exit::Usage).with_remedy(format!("hearth cache format {path} --size 10GiB"))
        }
        OfflineError::NotEmpty { .. } => cli(Exit::Refused).with_remedy(format!(
            "hearth cache format {path} --force, which loses it"
        )),
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
        device::uring::OpenError::InUse { .. } => CliError::new(Exit::Refused, chain(error))
            .with_remedy("stop the daemon that uses it: systemctl stop hearth"),
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
        super::run::to_json(&report)?
    } else {
        let mut text = String::new();
        render(&mut text, &report).map_err(|error| CliError::of(Exit::Failed, &error))?;
        text.into_bytes()
    };
    if report.sound {
        return Ok(text);
    }
    super::run::print(&text)?;
    Err(CliError::new(
        Exit::Damaged,
        format!("{} has {} faults", report.path, report.fault_count),
    )
    .with_remedy(match &report.cache {
        Some(_) => "nothing: what is damaged is fetched from the origin when it is read".to_owned(),
        None => format!("hearth cache format {} --force", report.path),
    }))
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
