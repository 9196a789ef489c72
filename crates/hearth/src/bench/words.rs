//! A load's figures for people.

use crate::terminal::quantity;
use crate::terminal::{Side, Table};
use load::{JobOutcome, Outcome, Settings, Tally};
use std::fmt::{self, Write};
use units::number::real;
use workload::Direction;

const NANO: f64 = 1e-9;

/// Writes what came of a load.
pub(super) fn write(out: &mut String, settings: &Settings, outcome: &Outcome) -> fmt::Result {
    let jobs = if settings.numjobs == 1 { "job" } else { "jobs" };
    writeln!(
        out,
        "{}: {} of {}, depth {}, {} {jobs}",
        settings.target, settings.shape, settings.sizes, settings.iodepth, settings.numjobs
    )?;
    let several = outcome.jobs.len() > 1;
    for (number, job) in outcome.jobs.iter().enumerate() {
        if several {
            writeln!(out, "\njob {number}:")?;
        }
        one(out, job)?;
    }
    Ok(())
}

/// A table of kinds of requests, with their rates and latencies.
pub(super) fn table() -> Table {
    Table::new(&[
        ("what", Side::Left),
        ("iops", Side::Right),
        ("bytes/s", Side::Right),
        ("mean", Side::Right),
        ("p50", Side::Right),
        ("p99", Side::Right),
        ("p99.9", Side::Right),
        ("max", Side::Right),
        ("requests", Side::Right),
    ])
}

fn one(out: &mut String, job: &JobOutcome) -> fmt::Result {
    let mut table = table();
    let mut requests = 0;
    let mut row = |name: String, tally: &Tally, moves: bool| {
        if tally.times.count() == 0 {
            return;
        }
        requests += tally.times.count();
        table.row(cells(name, tally, job.elapsed_ns, moves));
    };
    for direction in Direction::ALL {
        let tally = &job.directions[direction.index()];
        row(direction.to_string(), tally, true);
    }
    row("sync".to_owned(), &job.syncs, false);
    write!(out, "{table}")?;
    let share = |nanos: u64| quantity::percent(nanos, job.elapsed_ns);
    let used = job.usage.user_ns + job.usage.system_ns;
    let each = real(used) * NANO / real(requests.max(1));
    writeln!(
        out,
        "{} in all; this side: {} user, {} system of a CPU, {} a request",
        quantity::time(real(job.elapsed_ns) * NANO),
        share(job.usage.user_ns),
        share(job.usage.system_ns),
        quantity::time(each)
    )?;
    if let Some(verified) = &job.verified {
        writeln!(
            out,
            "verified: {} blocks right, {} wrong, {} of which nothing was known",
            verified.right, verified.wrong, verified.unknown
        )?;
        for finding in &verified.findings {
            writeln!(out, "  {finding}")?;
        }
    }
    Ok(())
}

fn cells(name: String, tally: &Tally, elapsed_ns: u64, moves: bool) -> Vec<String> {
    let seconds = real(elapsed_ns.max(1)) * NANO;
    let times = &tally.times;
    let time = |nanos: u64| quantity::time(real(nanos) * NANO);
    let bytes_second = real(tally.bytes) / seconds;
    let speed = if moves {
        quantity::bytes(units::number::count_near(bytes_second))
    } else {
        "-".to_owned()
    };
    vec![
        name,
        quantity::count(real(times.count()) / seconds),
        speed,
        quantity::time(times.mean() * NANO),
        time(times.percentile(50.0)),
        time(times.percentile(99.0)),
        time(times.percentile(99.9)),
        time(times.most()),
        times.count().to_string(),
    ]
}
