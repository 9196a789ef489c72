//! `hearth trace info`.

use super::args::Info as Arguments;
use super::ruins::in_words;
use super::unopened;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::progress::Progress;
use crate::terminal::quantity::{bytes, count, percent, share, time};
use crate::terminal::{Side, Table, facts};
use serde::Serialize;
use std::fmt::{self, Write};
use std::path::Path;
use trace::info::{Arrival, Collector, Info, Operations, Quantiles, Severity};
use units::number::real;

/// Volumes that are shown as text; JSON has all of them.
const VOLUMES_SHOWN: usize = 20;

/// A trace and what it is like, for `--json`.
#[derive(Serialize)]
struct Report {
    /// The trace as it was given.
    trace: String,
    /// Its format.
    format: &'static str,
    /// What that was recognised by; absent if it was given.
    recognised_by: Option<String>,
    /// What the file is packed with.
    packing: &'static str,
    #[serde(flatten)]
    info: Info,
}

pub(super) fn info(arguments: &Arguments, json: bool) -> Result<Vec<u8>, CliError> {
    let mut reports = Vec::with_capacity(arguments.traces.len());
    for trace in &arguments.traces {
        reports.push(examine(trace, arguments)?);
    }
    if json {
        return match &reports[..] {
            [only] => crate::terminal::to_json(only),
            several => crate::terminal::to_json(&several),
        };
    }
    let mut out = String::new();
    for (place, report) in reports.iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        render(&mut out, report).map_err(|error| CliError::of(Exit::Failed, &error))?;
    }
    Ok(out.into_bytes())
}

fn examine(trace: &Path, arguments: &Arguments) -> Result<Report, CliError> {
    let reading = &arguments.reading;
    let mut opened = trace::open(trace, &reading.options()).map_err(|error| unopened(&error))?;
    let failed = |error: &dyn std::error::Error| CliError::of(Exit::Failed, error);
    let mut collector = Collector::new(reading.known(opened.format), reading.block);
    let mut progress = Progress::new("reading");
    let (mut batch, mut requests) = (trace::Records::new(), 0);
    while opened
        .reader
        .read_batch(&mut batch)
        .map_err(|error| failed(&error))?
    {
        let volumes = opened.reader.volumes();
        collector
            .add(&batch, volumes)
            .map_err(|error| failed(&error))?;
        requests += batch.len() as u64;
        progress.count_of(requests, "requests");
    }
    Ok(Report {
        trace: trace.display().to_string(),
        format: opened.format.name(),
        recognised_by: opened.recognised_by,
        packing: opened.packing.name(),
        info: collector.finish(opened.reader.volumes()),
    })
}

fn render(out: &mut String, report: &Report) -> fmt::Result {
    let info = &report.info;
    let by = report.recognised_by.as_ref();
    let by = by.map_or("as given".to_owned(), |by| format!("recognised by {by}"));
    let footprint = &info.footprint;
    let (reuse, runs) = (&info.reuse, &info.sequentiality);
    let mut lines = vec![
        ("trace", report.trace.clone()),
        (
            "format",
            format!("{}, {by}; packing: {}", report.format, report.packing),
        ),
        ("requests", operations(info.requests, &info.operations)),
        ("read sizes", spread(&info.sizes.read_bytes, bytes)),
        ("write sizes", spread(&info.sizes.write_bytes, bytes)),
        (
            "footprint",
            format!(
                "{} blocks of {} ({}): {} only read, {} only written, {} both",
                count(real(footprint.blocks)),
                bytes(footprint.block_bytes),
                bytes(footprint.bytes),
                percent(footprint.only_read_blocks, footprint.blocks),
                percent(footprint.only_written_blocks, footprint.blocks),
                percent(footprint.read_and_written_blocks, footprint.blocks),
            ),
        ),
        (
            "accesses",
            format!("{} of blocks", count(real(footprint.accesses))),
        ),
    ];
    if let Some(arrival) = &info.arrival {
        lines.extend(arrivals(arrival));
    }
    lines.extend([
        (
            "reuse",
            format!(
                "{} of accesses go to a block again ({} of blocks read); {} reads after a write",
                percent(reuse.rereferences, footprint.accesses),
                share(reuse.read_rereference_share),
                count(real(reuse.read_after_write)),
            ),
        ),
        (
            "reuse distance",
            spread(&reuse.accesses, |n| count(real(n))),
        ),
    ]);
    if let Some(between) = &reuse.time_us {
        let micros = |us: u64| time(real(us) / 1e6);
        lines.push(("reuse time", spread(between, micros)));
    }
    lines.push((
        "sequential",
        format!(
            "{} of requests go on where the one before ended; runs: {}",
            share(runs.sequential_share),
            spread(&runs.run_bytes, bytes)
        ),
    ));
    facts(out, &lines)?;
    volumes(out, info)?;
    warnings(out, info)
}

fn operations(requests: u64, operations: &Operations) -> String {
    let named = [
        ("reads", operations.read),
        ("writes", operations.write),
        ("flushes", operations.flush),
        ("discards", operations.discard),
        ("write-zeroes", operations.write_zeroes),
    ];
    let there = named.iter().filter(|(_, one)| one.requests > 0);
    let parts: Vec<String> = there
        .map(|(name, one)| {
            let part = percent(one.requests, requests);
            if one.bytes == 0 {
                return format!("{part} {name}");
            }
            format!("{part} {name} ({})", bytes(one.bytes))
        })
        .collect();
    format!("{}: {}", count(real(requests)), parts.join(", "))
}

fn arrivals(arrival: &Arrival) -> Vec<(&'static str, String)> {
    let micros = |us: u64| time(real(us) / 1e6);
    vec![
        ("duration", micros(arrival.duration_us)),
        (
            "arrival",
            format!(
                "{} requests a second, {} in the busiest; dispersion {:.1} (1: independent)",
                count(arrival.requests_per_second),
                count(real(arrival.requests_per_second_max)),
                arrival.dispersion
            ),
        ),
        (
            "gaps",
            format!(
                "{}; variation {:.1}",
                spread(&arrival.gap_us, micros),
                arrival.gap_variation
            ),
        ),
    ]
}

fn spread(quantiles: &Quantiles, unit: impl Fn(u64) -> String) -> String {
    if quantiles.count == 0 {
        return "none".to_owned();
    }
    format!(
        "half up to {}, 90% {}, 99% {}, all {}",
        unit(quantiles.p50),
        unit(quantiles.p90),
        unit(quantiles.p99),
        unit(quantiles.max)
    )
}

fn volumes(out: &mut String, info: &Info) -> fmt::Result {
    if info.volumes.len() < 2 {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("volume", Side::Left),
        ("requests", Side::Right),
        ("reads", Side::Right),
        ("read", Side::Right),
        ("written", Side::Right),
        ("blocks", Side::Right),
        ("ends at", Side::Right),
        ("sequential", Side::Right),
    ]);
    for volume in info.volumes.iter().take(VOLUMES_SHOWN) {
        table.row(vec![
            volume.name(),
            count(real(volume.requests)),
            percent(volume.reads.requests, volume.requests),
            bytes(volume.reads.bytes),
            bytes(volume.writes.bytes),
            count(real(volume.blocks)),
            bytes(volume.end_bytes),
            share(volume.sequential_share),
        ]);
    }
    write!(out, "\n{table}")?;
    match info.volumes.len().saturating_sub(VOLUMES_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more"),
    }
}

fn warnings(out: &mut String, info: &Info) -> fmt::Result {
    for warning in &info.warnings {
        let word = match warning.severity {
            Severity::Ruins => "WARNING: results will be wrong",
            Severity::Suspicious => "warning: look closer",
            Severity::Note => "note",
        };
        writeln!(out, "\n{word} {}", in_words(warning))?;
        writeln!(out, "  try: {}", warning.remedy)?;
    }
    Ok(())
}
