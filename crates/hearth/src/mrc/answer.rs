//! What `hearth mrc` answers, as JSON and csv have it.

use super::args::Mrc;
use curves::{Curves, Facts, Measured, Method};
use mrc::{Counted, plot_sizes};
use serde::Serialize;
use simulator::{CacheSize, SizeError};
use std::fmt::Write;
use trace::info::Warning;
use units::Bytes;

/// A curve.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    /// The trace, as it was given.
    pub(super) trace: String,
    /// What it was read as.
    pub(super) format: &'static str,
    /// The volume, if this is one's curve; absent for the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) volume: Option<String>,
    pub(super) policy: String,
    /// `exact`, `fixed-rate`, `fixed-size` or `miniature`.
    pub(super) method: &'static str,
    /// Part of all blocks that was sampled.
    pub(super) rate: f64,
    /// What `miss_ratio` is over: `all` or `reads`.
    pub(super) counted: &'static str,
    /// What writes did: `allocate`, `invalidate`, `exclude`.
    pub(super) writes: &'static str,
    pub(super) block_bytes: u64,
    pub(super) requests: u64,
    /// Block accesses, reads and writes.
    pub(super) accesses: u64,
    pub(super) reads: u64,
    pub(super) footprint_blocks: u64,
    pub(super) sampled_blocks: u64,
    pub(super) memory_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_seconds: Option<f64>,
    /// Miss ratio that no size goes below.
    pub(super) miss_ratio_min: f64,
    /// The size at the knee, if the curve has one.
    pub(super) knee_blocks: Option<u64>,
    pub(super) points: Vec<AnswerPoint>,
    #[serde(skip)]
    pub(super) curves: Curves,
    /// Why it is wrong.
    #[serde(skip)]
    pub(super) ruins: Vec<Warning>,
}

/// A size on a curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct AnswerPoint {
    pub(super) size_blocks: u64,
    pub(super) size_bytes: u64,
    /// Over what is counted.
    pub(super) miss_ratio: f64,
    pub(super) read_miss_ratio: f64,
}

/// Steps of the default sizes in an octave.
const PER_OCTAVE: u32 = 8;

/// What a trace and a policy are called.
pub(super) struct Named<'a> {
    pub(super) trace: &'a str,
    pub(super) format: &'static str,
    pub(super) policy: String,
    pub(super) method: &'a Method,
    /// Why what was measured is wrong.
    pub(super) ruins: &'a [Warning],
}

/// The curves of one pass: the trace's, then its volumes'.
pub(super) fn answers(
    mrc: &Mrc,
    named: &Named<'_>,
    measured: &Measured,
) -> Result<Vec<Answer>, SizeError> {
    let total = (None, &measured.total);
    let volumes = measured
        .volumes
        .iter()
        .map(|one| (Some(one.volume.to_string()), &one.curves));
    std::iter::once(total)
        .chain(volumes)
        .map(|(volume, curves)| answer(mrc, named, &measured.facts, volume, curves))
        .collect()
}

fn answer(
    mrc: &Mrc,
    named: &Named<'_>,
    facts: &Facts,
    volume: Option<String>,
    curves: &Curves,
) -> Result<Answer, SizeError> {
    let block = mrc.sampling.reading.block;
    let curve = curves.of(mrc.counted());
    let sizes = match (named.method, mrc.sizes.as_slice()) {
        // A miniature simulation knows the sizes that it ran at.
        (Method::Miniature { sizes, .. }, _) => sizes.clone(),
        (_, []) => plot_sizes(curves.footprint_blocks, PER_OCTAVE),
        (_, sizes) => in_blocks(sizes, block, curves.footprint_blocks)?,
    };
    let point = |size_blocks: u64| AnswerPoint {
        size_blocks,
        size_bytes: size_blocks.saturating_mul(block.get()),
        miss_ratio: curve.miss_ratio(size_blocks),
        read_miss_ratio: curves.reads.miss_ratio(size_blocks),
    };
    Ok(Answer {
        trace: named.trace.to_owned(),
        format: named.format,
        volume,
        policy: named.policy.clone(),
        method: match named.method {
            Method::Exact => "exact",
            Method::FixedRate { .. } => "fixed-rate",
            Method::FixedSize { .. } => "fixed-size",
            Method::Miniature { .. } => "miniature",
        },
        rate: curves.rate,
        counted: match mrc.counted() {
            Counted::All => "all",
            Counted::Reads => "reads",
        },
        writes: mrc.writes.name(),
        block_bytes: block.get(),
        requests: facts.requests,
        accesses: curves.accesses,
        reads: curves.reads_count,
        footprint_blocks: curves.footprint_blocks,
        sampled_blocks: curves.sampled_blocks,
        memory_bytes: curves.memory_bytes,
        duration_seconds: facts.duration_seconds(),
        miss_ratio_min: curve.floor(),
        knee_blocks: curve.knee_blocks(),
        points: sizes.into_iter().map(point).collect(),
        curves: curves.clone(),
        ruins: named.ruins.to_vec(),
    })
}

/// Sizes as a user writes them, in blocks, each once, growing.
pub(crate) fn in_blocks(
    sizes: &[CacheSize],
    block: Bytes,
    footprint: u64,
) -> Result<Vec<u64>, SizeError> {
    let footprint = u32::try_from(footprint).unwrap_or(u32::MAX);
    let mut blocks = sizes
        .iter()
        .map(|size| size.blocks(block, footprint).map(u64::from))
        .collect::<Result<Vec<_>, _>>()?;
    blocks.sort_unstable();
    blocks.dedup();
    Ok(blocks)
}

/// The curves as csv, a line a point.
pub(super) fn csv(answers: &[Answer]) -> String {
    let mut out = String::from(
        "trace,volume,policy,method,sampled_rate,writes,size_blocks,size_bytes,counted,miss_ratio,read_miss_ratio\n",
    );
    for answer in answers {
        for point in &answer.points {
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{}",
                quoted(&answer.trace),
                quoted(answer.volume.as_deref().unwrap_or("")),
                quoted(&answer.policy),
                answer.method,
                answer.rate,
                answer.writes,
                point.size_blocks,
                point.size_bytes,
                answer.counted,
                point.miss_ratio,
                point.read_miss_ratio,
            );
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_out_in_blocks_once_and_growing() {
        let sizes = ["10%", "4KiB", "100blk", "1blk"].map(|text| text.parse().unwrap());
        assert_eq!(in_blocks(&sizes, Bytes::kib(4), 1_000), Ok(vec![1, 100]));
    }

    #[test]
    fn csv_fields_with_commas_are_quoted() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
