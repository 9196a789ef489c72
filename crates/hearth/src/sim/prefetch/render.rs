//! What miners were worth, for people and for programs.

use super::args::Row;
use crate::terminal::exit::CliError;
use crate::terminal::{Side, Table, to_json};
use serde::Serialize;
use simulator::prefetch::Tally;
use std::fmt::Write;

/// An experiment with a trace and what it counted.
pub(super) struct Measured {
    pub(super) trace: String,
    pub(super) row: Row,
    pub(super) tally: Tally,
}

/// The same in JSON. Blocks are of 4 KiB.
#[derive(Serialize)]
struct Told<'a> {
    trace: &'a str,
    ram_bytes: u64,
    ram_policy: String,
    prefetch: &'a str,
    waste_limit: &'a str,
    train_half: bool,
    reads: u64,
    read_hits: u64,
    read_hit_ratio: f64,
    blocks: u64,
    block_hits: u64,
    block_hit_ratio: f64,
    blocks_prefetched: u64,
    blocks_used: u64,
    blocks_wasted: u64,
    blocks_outstanding_max: u64,
    precision: Option<f64>,
    waste: f64,
    origin_requests: u64,
    guesses_refused: u64,
    memory_bytes: u64,
}

impl Measured {
    fn told(&self) -> Told<'_> {
        let (row, tally) = (&self.row, &self.tally);
        Told {
            trace: &self.trace,
            ram_bytes: row.experiment.ram.get(),
            ram_policy: row.experiment.policy.to_string(),
            prefetch: &row.miners,
            waste_limit: &row.waste,
            train_half: row.experiment.train_half,
            reads: tally.reads,
            read_hits: tally.read_hits,
            read_hit_ratio: tally.read_hit_ratio(),
            blocks: tally.blocks,
            block_hits: tally.block_hits,
            block_hit_ratio: tally.block_hit_ratio(),
            blocks_prefetched: tally.fetched,
            blocks_used: tally.used,
            blocks_wasted: tally.wasted,
            blocks_outstanding_max: tally.outstanding_max,
            precision: tally.precision(),
            waste: tally.waste(),
            origin_requests: tally.requests,
            guesses_refused: tally.refused,
            memory_bytes: tally.memory.get(),
        }
    }
}

pub(super) fn json(all: &[Measured]) -> Result<Vec<u8>, CliError> {
    let told: Vec<Told<'_>> = all.iter().map(Measured::told).collect();
    to_json(&told)
}

/// A table for each trace.
pub(super) fn table(all: &[Measured]) -> Vec<u8> {
    let mut out = String::new();
    for of_trace in all.chunk_by(|one, next| one.trace == next.trace) {
        let mut table = Table::new(&[
            ("ram", Side::Right),
            ("policy", Side::Left),
            ("prefetch", Side::Left),
            ("may waste", Side::Right),
            ("read hits", Side::Right),
            ("block hits", Side::Right),
            ("precision", Side::Right),
            ("waste", Side::Right),
            ("prefetched", Side::Right),
            ("origin requests", Side::Right),
            ("refused", Side::Right),
            ("memory", Side::Right),
        ]);
        for Measured { row, tally, .. } in of_trace {
            let precision = tally.precision();
            table.row(vec![
                row.experiment.ram.to_string(),
                row.experiment.policy.to_string(),
                row.miners.clone(),
                row.waste.clone(),
                format!("{:.3}", tally.read_hit_ratio()),
                format!("{:.3}", tally.block_hit_ratio()),
                precision.map_or_else(|| "-".to_owned(), |part| format!("{part:.3}")),
                format!("{:.3}", tally.waste()),
                tally.fetched.to_string(),
                tally.requests.to_string(),
                tally.refused.to_string(),
                tally.memory.to_string(),
            ]);
        }
        let Some(first) = of_trace.first() else {
            continue;
        };
        let separator = if out.is_empty() { "" } else { "\n" };
        let counted = if first.row.experiment.train_half {
            "the second half of its reads"
        } else {
            "all of its reads"
        };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{separator}{}: {counted}, {} for {} blocks\n\n{table}",
            first.trace, first.tally.reads, first.tally.blocks,
        );
    }
    out.into_bytes()
}
