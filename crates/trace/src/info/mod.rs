//! What a trace is like, in one pass, and what about it would ruin a study.
//!
//! ```text
//!  records ─► Collector ─┬─ arrival: gaps, requests a second, steps back        ─┐
//!                        ├─ volumes: sizes, offsets, runs, one row each          ├─► Info
//!                        └─ splitter ─► blocks: footprint, reuse, second copies ─┘     └─► warnings
//! ```
//!
//! Memory: the splitter's table and 12 bytes a distinct block, and a table of what each VM has seen of base
//! images; everything else is bounded.
//! [`Info`] is the JSON of `hearth trace info --json`. Units are the last word of a name; names are not
//! changed or taken away, new ones may come.

mod arrival;
mod blocks;
mod collect;
mod copies;
mod signs;
mod spread;
mod volumes;
mod warnings;
mod watch;

pub use collect::{Collector, Known};
pub use spread::Quantiles;
pub use warnings::{Severity, Warning};
pub use watch::Watch;

use serde::Serialize;

/// What a trace is like.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Records of any kind.
    pub requests: u64,
    /// Requests and bytes by operation.
    pub operations: Operations,
    /// Lengths of reads and writes.
    pub sizes: Sizes,
    /// What the trace touches.
    pub footprint: Footprint,
    /// When, and how requests come; absent for a trace without time.
    pub arrival: Option<Arrival>,
    /// How blocks come again.
    pub reuse: Reuse,
    /// How far requests go on where the one before ended.
    pub sequentiality: Sequentiality,
    /// Each volume, the busiest first.
    pub volumes: Vec<VolumeInfo>,
    /// What ruins a study, or should be known.
    pub warnings: Vec<Warning>,
}

/// Requests and bytes by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Reads.
    pub read: Count,
    /// Writes.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Write-zeroes.
    pub write_zeroes: Count,
}

/// How many requests, of how many bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Lengths of reads and writes.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Reads and writes together.
    pub all_bytes: Quantiles,
    /// Reads.
    pub read_bytes: Quantiles,
    /// Writes.
    pub write_bytes: Quantiles,
    /// How many reads and writes are longer than the bucket before and not longer than this one, a power
    /// of two; empty buckets are left out.
    pub histogram: Vec<SizeBucket>,
}

/// A bucket of [`Sizes::histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// The longest that falls into it.
    pub to_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// What a trace touches, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// The size of a block.
    pub block_bytes: u64,
    /// Blocks that reads and writes touch, each time.
    pub accesses: u64,
    /// Distinct blocks. Those of a base image count once, however many VMs read them.
    pub blocks: u64,
    /// Distinct blocks, in bytes.
    pub bytes: u64,
    /// Distinct blocks that are read and never written.
    pub only_read_blocks: u64,
    /// Distinct blocks that are written and never read.
    pub only_written_blocks: u64,
    /// Distinct blocks that are read and written.
    pub read_and_written_blocks: u64,
}

/// When requests come.
#[derive(Clone, Debug, Serialize)]
pub struct Arrival {
    /// The earliest time, in the trace's own clock.
    pub first_us: u64,
    /// The latest time.
    pub last_us: u64,
    /// From the earliest to the latest.
    pub duration_us: u64,
    /// Requests a second on average; zero for a trace without duration.
    pub requests_per_second: f64,
    /// Requests of the busiest second.
    pub requests_per_second_max: u64,
    /// Gaps between a request and the next.
    pub gap_us: Quantiles,
    /// Standard deviation of the gaps over their mean: 0 for a fixed rate, 1 for independent requests,
    /// more for bursts.
    pub gap_variation: f64,
    /// Variance of the requests of a second over their mean: 1 for independent requests.
    pub dispersion: f64,
}

/// How blocks come again. A re-reference is an access to a block that was accessed before.
#[derive(Clone, Debug, Serialize)]
pub struct Reuse {
    /// Re-references.
    pub rereferences: u64,
    /// Their share of all accesses: the hit ratio of a cache without limit.
    pub rereference_share: f64,
    /// Their share of the blocks read.
    pub read_rereference_share: f64,
    /// Reads of a block whose last access was a read.
    pub read_after_read: u64,
    /// Reads of a block whose last access was a write.
    pub read_after_write: u64,
    /// Writes of a block whose last access was a read.
    pub write_after_read: u64,
    /// Writes of a block whose last access was a write.
    pub write_after_write: u64,
    /// Time since the block's last access; absent for a trace without time.
    pub time_us: Option<Quantiles>,
    /// Accesses to any block since then. (The distinct ones among them, the stack distance, are what
    /// `hearth mrc` counts.)
    pub accesses: Quantiles,
}

/// How far requests go on where the one before ended. Reads and writes, each volume by itself.
#[derive(Clone, Debug, Serialize)]
pub struct Sequentiality {
    /// Requests that begin where the volume's one before ended.
    pub sequential_requests: u64,
    /// Their share of reads and writes.
    pub sequential_share: f64,
    /// Requests of a run: of one that does not go on, 1.
    pub run_requests: Quantiles,
    /// Bytes of a run.
    pub run_bytes: Quantiles,
}

/// A row of [`Info::volumes`].
#[derive(Clone, Debug, Serialize)]
pub struct VolumeInfo {
    /// The VM; empty where the trace does not say.
    pub vm: String,
    /// The volume; empty where the trace does not say.
    pub volume: String,
    /// Records of any kind.
    pub requests: u64,
    /// Reads.
    pub reads: Count,
    /// Writes.
    pub writes: Count,
    /// Distinct blocks; of a base image those that this VM touches.
    pub blocks: u64,
    /// Where the furthest request ends.
    pub end_bytes: u64,
    /// Share of its reads and writes that begin where the one before ended.
    pub sequential_share: f64,
}

/// A part of a whole; zero of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    spread::real(part) / spread::real(whole)
}
