//! A replay's figures for people.

use super::hits::Hits;
use super::selected::Selected;
use crate::bench::words;
use crate::terminal::quantity::{self, bytes, count, counted, percent, share};
use load::{Answered, Kind, ReplayOutcome, ReplaySettings, Speed};
use std::fmt::{self, Write};
use std::path::Path;
use units::number::{count_near, real};

const NANO: f64 = 1e-9;

/// What is told.
pub(super) struct Facts<'a> {
    pub(super) trace: &'a Path,
    pub(super) settings: &'a ReplaySettings,
    pub(super) selected: &'a Selected,
    pub(super) outcome: &'a ReplayOutcome,
    pub(super) daemon: Option<&'a Hits>,
}

/// Writes what came of a replay.
pub(super) fn write(out: &mut String, facts: &Facts<'_>) -> fmt::Result {
    let (settings, selected) = (facts.settings, facts.selected);
    let speed = match settings.speed {
        Speed::Times(1.0) => "at its own speed".to_owned(),
        Speed::Times(times) => format!("at {times} times its speed"),
        Speed::Max => "as fast as can be".to_owned(),
    };
    writeln!(
        out,
        "{}: {} of {} {speed}, depth {}",
        settings.target,
        selected.volume,
        facts.trace.display(),
        settings.iodepth
    )?;
    table(out, facts.outcome)?;
    requests(out, facts)?;
    hits(out, facts)
}

fn table(out: &mut String, outcome: &ReplayOutcome) -> fmt::Result {
    let mut table = words::table();
    for kind in Kind::ALL {
        let answered = outcome.of(kind);
        if answered.latency.count() > 0 {
            table.row(cells(kind, answered, outcome.elapsed_ns));
        }
    }
    write!(out, "{table}")
}

fn cells(kind: Kind, answered: &Answered, elapsed_ns: u64) -> Vec<String> {
    let seconds = real(elapsed_ns.max(1)) * NANO;
    let times = &answered.latency;
    let time = |nanos: u64| quantity::time(real(nanos) * NANO);
    let speed = match kind {
        Kind::Flush => "-".to_owned(),
        _ => bytes(count_near(real(answered.bytes) / seconds)),
    };
    vec![
        kind.name().to_owned(),
        count(real(times.count()) / seconds),
        speed,
        quantity::time(times.mean() * NANO),
        time(times.percentile(50.0)),
        time(times.percentile(99.0)),
        time(times.percentile(99.9)),
        time(times.most()),
        times.count().to_string(),
    ]
}

fn requests(out: &mut String, facts: &Facts<'_>) -> fmt::Result {
    let (selected, outcome) = (facts.selected, facts.outcome);
    let time = |nanos: u64| quantity::time(real(nanos) * NANO);
    writeln!(
        out,
        "{} of the trace's {} in {}; latency counts from {}",
        outcome.begun_requests,
        counted(selected.survey.requests, "request"),
        time(outcome.elapsed_ns),
        match facts.settings.speed {
            Speed::Times(_) => "the time a request was due",
            Speed::Max => "a request's submission",
        }
    )?;
    let (late, lateness) = (outcome.late_requests, &outcome.lateness);
    match facts.settings.speed {
        Speed::Max => {}
        Speed::Times(_) if late == 0 => writeln!(out, "none began more than 1ms late")?,
        Speed::Times(_) => writeln!(
            out,
            "{late} began more than 1ms late ({}), half of them by up to {}, none by more than {}: the target, the depth \
             or this machine does not keep up",
            percent(late, outcome.begun_requests),
            time(lateness.percentile(50.0)),
            time(lateness.most())
        )?,
    }
    if selected.left_out > 0 {
        let left_out = counted(selected.left_out, "request");
        writeln!(
            out,
            "left out: {left_out} that are no reads or have no bytes"
        )?;
    }
    if outcome.unknown_requests > 0 {
        let unknown = counted(outcome.unknown_requests, "request");
        writeln!(
            out,
            "left out: {unknown} of a kind that the target cannot serve"
        )?;
    }
    Ok(())
}

fn hits(out: &mut String, facts: &Facts<'_>) -> fmt::Result {
    match facts.daemon {
        Some(hits) => writeln!(
            out,
            "hit ratio of disk {} meanwhile: {} of {} blocks read",
            hits.disk,
            percent(hits.found_blocks, hits.read_blocks),
            hits.read_blocks
        )?,
        None => writeln!(
            out,
            "hit ratio: not known, since the daemon of --socket could not be asked for a disk at this address"
        )?,
    }
    writeln!(
        out,
        "in the trace {} of the blocks read had been touched before: the hit ratio of an empty cache without limit",
        share(facts.selected.info.reuse.read_rereference_share)
    )
}
