//! Moves, and papers' figures, for people and for programs.

use crate::terminal::exit::CliError;
use crate::terminal::{Side, Table, quantity, to_json};
use moves::outcome::{Outcome, Sample};
use moves::papers::{self, Figure, Paper};
use serde::Serialize;
use std::fmt::Write;
use strategies::Strategy;
use units::Duration;
use units::number::real;

/// A move, in JSON.
#[derive(Serialize)]
struct Moved {
    strategy: &'static str,
    paused_us: u64,
    cache_there_us: Option<u64>,
    hit_ratio_before: f64,
    hit_ratio_after: f64,
    read_mean_us: f64,
    p99_us: f64,
    neighbours_p99_before_us: Option<f64>,
    neighbours_p99_after_us: Option<f64>,
    blocks_from_lender: u64,
    blocks_from_origin: u64,
    blocks_discarded: u64,
    dirty_blocks_at_stop: u64,
    stale_blocks: u64,
    interval_us: u64,
    samples: Vec<Sample>,
}

fn micros(time: Duration) -> f64 {
    real(time.as_nanos()) / 1e3
}

fn moved(strategy: Strategy, outcome: &Outcome, interval: Duration) -> Moved {
    let [vm, neighbours @ ..] = &outcome.vms[..] else {
        unreachable!("a setup has the VM that moves");
    };
    let most = |of: fn(&moves::outcome::VmOutcome) -> Duration| {
        neighbours.iter().map(of).max().map(micros)
    };
    Moved {
        strategy: strategy.word(),
        paused_us: outcome.paused.as_nanos() / 1_000,
        cache_there_us: outcome.copied.map(|copied| copied.as_nanos() / 1_000),
        hit_ratio_before: vm.before.hit_ratio(),
        hit_ratio_after: vm.after.hit_ratio(),
        read_mean_us: micros(vm.after.read_mean()),
        p99_us: micros(vm.after.quantile(0.99)),
        neighbours_p99_before_us: most(|vm| vm.before.quantile(0.99)),
        neighbours_p99_after_us: most(|vm| vm.after.quantile(0.99)),
        blocks_from_lender: outcome.from_lender,
        blocks_from_origin: outcome.from_origin,
        blocks_discarded: outcome.discarded,
        dirty_blocks_at_stop: outcome.dirty_at_stop,
        stale_blocks: outcome.stale,
        interval_us: interval.as_nanos() / 1_000,
        samples: vm.after.samples.clone(),
    }
}

/// A row for each strategy.
pub(super) fn moves(
    all: &[(Strategy, Outcome)],
    interval: Duration,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    let moves = all.iter();
    let moves: Vec<Moved> = moves
        .map(|(strategy, outcome)| moved(*strategy, outcome, interval))
        .collect();
    if json {
        return to_json(&moves);
    }
    let mut table = Table::new(&[
        ("strategy", Side::Left),
        ("stopped", Side::Right),
        ("cache there", Side::Right),
        ("hits before", Side::Right),
        ("hits after", Side::Right),
        ("read mean", Side::Right),
        ("p99", Side::Right),
        ("neighbours p99", Side::Right),
        ("from lender", Side::Right),
        ("from origin", Side::Right),
        ("discarded", Side::Right),
        ("stale", Side::Right),
    ]);
    for one in &moves {
        let time = |micros: f64| quantity::time(micros / 1e6);
        let cache_there = one.cache_there_us.map(|there| time(real(there)));
        let neighbours = one
            .neighbours_p99_before_us
            .zip(one.neighbours_p99_after_us);
        let neighbours =
            neighbours.map(|(before, after)| format!("{} to {}", time(before), time(after)));
        table.row(vec![
            one.strategy.to_owned(),
            time(real(one.paused_us)),
            cache_there.unwrap_or_else(|| "-".to_owned()),
            format!("{:.1}%", one.hit_ratio_before * 100.0),
            format!("{:.1}%", one.hit_ratio_after * 100.0),
            time(one.read_mean_us),
            time(one.p99_us),
            neighbours.unwrap_or_else(|| "-".to_owned()),
            one.blocks_from_lender.to_string(),
            one.blocks_from_origin.to_string(),
            one.blocks_discarded.to_string(),
            one.stale_blocks.to_string(),
        ]);
    }
    Ok(table.to_string().into_bytes())
}

/// A table for each paper.
pub(super) fn papers(all: &[(Paper, Vec<Figure>)], json: bool) -> Result<Vec<u8>, CliError> {
    if json {
        let figures: Vec<&Figure> = all.iter().flat_map(|(_, figures)| figures).collect();
        return to_json(&figures);
    }
    let mut out = String::new();
    for (paper, figures) in all {
        let mut table = Table::new(&[
            ("what", Side::Left),
            ("method", Side::Left),
            ("paper", Side::Right),
            ("ours", Side::Right),
            ("unit", Side::Left),
            ("ours/paper", Side::Right),
            ("figure", Side::Left),
        ]);
        for figure in figures {
            let beside = figure.theirs;
            table.row(vec![
                figure.what.clone(),
                figure.method.to_owned(),
                beside.map_or_else(|| "-".to_owned(), |theirs| format!("{theirs}")),
                format!("{:.2}", figure.ours),
                figure.unit.to_owned(),
                beside.map_or_else(
                    || "-".to_owned(),
                    |theirs| format!("{:.2}", figure.ours / theirs),
                ),
                figure.standing.word().to_owned(),
            ]);
        }
        let separator = if out.is_empty() { "" } else { "\n" };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{separator}{}: 1/{} of its blocks and seconds\n\n{table}",
            paper.word(),
            papers::scale(*paper),
        );
    }
    Ok(out.into_bytes())
}
