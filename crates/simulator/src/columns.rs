//! The columns of every table of results: one definition for JSON, csv, Parquet and the book.
//!
//! A name ends in its unit; ratios have none.

use crate::counters::Counters;
use crate::number::{ratio, real};
use crate::result::{LatencyResult, RunResult};

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A count.
    Count(u64),
    /// A real number.
    Real(f64),
    /// Not asked for.
    Absent,
}

/// What a column holds, for formats that must know before the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Text`].
    Text,
    /// [`Value::Count`].
    Count,
    /// [`Value::Real`], or absent.
    Real,
}

/// A column.
pub struct Column {
    /// Its name, which ends in the unit.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What it says.
    pub meaning: &'static str,
    /// Its cell for a run.
    pub value: fn(&RunResult) -> Value,
}

const fn text(name: &'static str, meaning: &'static str, value: fn(&RunResult) -> Value) -> Column {
    Column {
        name,
        kind: Kind::Text,
        meaning,
        value,
    }
}

const fn count(
    name: &'static str,
    meaning: &'static str,
    value: fn(&RunResult) -> Value,
) -> Column {
    Column {
        name,
        kind: Kind::Count,
        meaning,
        value,
    }
}

const fn number(
    name: &'static str,
    meaning: &'static str,
    value: fn(&RunResult) -> Value,
) -> Column {
    Column {
        name,
        kind: Kind::Real,
        meaning,
        value,
    }
}

fn timed(run: &RunResult, value: fn(&LatencyResult) -> f64) -> Value {
    run.latency
        .as_ref()
        .map_or(Value::Absent, |latency| Value::Real(value(latency)))
}

/// Every column, in order.
pub const COLUMNS: &[Column] = &[
    text("trace", "the trace, as it was given", |r| {
        Value::Text(r.trace.clone())
    }),
    text(
        "policy",
        "the policy with its parameters, as it was given",
        |r| Value::Text(r.policy.clone()),
    ),
    text("size", "the size, as it was given", |r| {
        Value::Text(r.size.clone())
    }),
    count("size_blocks", "the size in blocks", |r| {
        Value::Count(r.size_blocks.into())
    }),
    count("size_bytes", "the size in bytes", |r| {
        Value::Count(r.size_bytes())
    }),
    count("block_bytes", "bytes of a block", |r| {
        Value::Count(r.block_bytes)
    }),
    text("write_policy", "around, through or back", |r| {
        Value::Text(r.write_policy.to_owned())
    }),
    text("write_miss", "allocate or bypass", |r| {
        Value::Text(r.write_miss.to_owned())
    }),
    count(
        "footprint_blocks",
        "distinct blocks that the whole trace reads or writes",
        |r| Value::Count(r.footprint_blocks.into()),
    ),
    count(
        "requests",
        "requests of the trace, behind the warm-up",
        |r| Value::Count(r.counters.requests()),
    ),
    count("accesses", "blocks that they read and write", |r| {
        Value::Count(r.counters.accesses())
    }),
    count(
        "hits",
        "accesses that found their block in the cache",
        |r| Value::Count(r.counters.hits()),
    ),
    count("misses", "accesses that did not", |r| {
        Value::Count(r.counters.misses())
    }),
    number("miss_ratio", "misses / accesses", |r| {
        Value::Real(r.counters.miss_ratio())
    }),
    number("hit_ratio", "hits / accesses", |r| {
        Value::Real(r.hit_ratio())
    }),
    count("reads", "blocks read", |r| Value::Count(r.counters.reads)),
    count("read_hits", "blocks read that were in the cache", |r| {
        Value::Count(r.counters.read_hits)
    }),
    number("read_hit_ratio", "read_hits / reads", |r| {
        Value::Real(ratio(r.counters.read_hits, r.counters.reads))
    }),
    count("writes", "blocks written", |r| {
        Value::Count(r.counters.writes)
    }),
    count("write_hits", "blocks written that were in the cache", |r| {
        Value::Count(r.counters.write_hits)
    }),
    number("write_hit_ratio", "write_hits / writes", |r| {
        Value::Real(ratio(r.counters.write_hits, r.counters.writes))
    }),
    count("request_bytes", "bytes read and written", |r| {
        Value::Count(r.counters.bytes)
    }),
    number(
        "byte_hit_ratio",
        "the part of request_bytes that lies in blocks which were in the cache",
        |r| Value::Real(ratio(r.counters.hit_bytes, r.counters.bytes)),
    ),
    count("flush_requests", "flushes", |r| {
        Value::Count(r.counters.flush_requests)
    }),
    count("discard_requests", "discards and write-zeroes", |r| {
        Value::Count(r.counters.discard_requests)
    }),
    count(
        "origin_read_requests",
        "reads at the origin; adjacent missing blocks of a request are one",
        |r| Value::Count(r.counters.origin_reads),
    ),
    count("origin_read_bytes", "bytes of them, whole blocks", |r| {
        Value::Count(r.counters.origin_read_bytes)
    }),
    count(
        "origin_write_requests",
        "writes at the origin, discards and destaged runs of blocks included",
        |r| Value::Count(r.counters.origin_writes),
    ),
    count("origin_write_bytes", "bytes of them", |r| {
        Value::Count(r.counters.origin_write_bytes)
    }),
    count(
        "flash_writes_blocks",
        "blocks written to flash, for every cause",
        |r| Value::Count(r.counters.flash_writes_blocks()),
    ),
    count("flash_write_bytes", "the same in bytes", |r| {
        Value::Count(r.counters.flash_writes_blocks() * r.block_bytes)
    }),
    count(
        "flash_fill_blocks",
        "... because a block came into the cache",
        |r| Value::Count(r.counters.flash_fill_blocks),
    ),
    count(
        "flash_update_blocks",
        "... because a cached block was written",
        |r| Value::Count(r.counters.flash_update_blocks),
    ),
    count(
        "flash_dirty_blocks",
        "... because a guest wrote a block that the origin gets later",
        |r| Value::Count(r.counters.flash_dirty_blocks),
    ),
    count(
        "flash_reclaim_blocks",
        "... because reclaim kept a block",
        |r| Value::Count(r.counters.flash_reclaim_blocks),
    ),
    count(
        "flash_descriptor_blocks",
        "... as descriptors of what lies where",
        |r| Value::Count(r.counters.flash_descriptor_blocks),
    ),
    count(
        "flash_journal_blocks",
        "... as journal and checkpoints",
        |r| Value::Count(r.counters.flash_journal_blocks),
    ),
    number(
        "write_amplification",
        "flash_writes_blocks / (flash_fill_blocks + flash_update_blocks + flash_dirty_blocks)",
        |r| Value::Real(r.counters.write_amplification()),
    ),
    count(
        "destaged_blocks",
        "dirty blocks written to the origin",
        |r| Value::Count(r.counters.destaged_blocks),
    ),
    count(
        "coalesced_blocks",
        "blocks of dirty logs that were written again or erased before the origin had them",
        |r| Value::Count(r.counters.coalesced_blocks),
    ),
    number(
        "used_blocks_mean",
        "blocks in the cache, mean over the accesses",
        |r| Value::Real(r.used.mean),
    ),
    count("used_blocks_peak", "blocks in the cache, the most", |r| {
        Value::Count(r.used.peak.into())
    }),
    count("used_blocks_end", "blocks in the cache at the end", |r| {
        Value::Count(r.used.end.into())
    }),
    count("dirty_blocks_end", "dirty ones among them", |r| {
        Value::Count(r.used.dirty_end.into())
    }),
    text(
        "admission",
        "what may enter flash, as it was given; always lets everything in",
        |r| Value::Text(r.admission.clone()),
    ),
    text(
        "allocation",
        "what divides the cache among VMs; none, or the policy does by itself",
        |r| Value::Text(r.allocation.clone()),
    ),
    count(
        "ram_hits",
        "hits whose blocks were in RAM: staged and not on flash, or in the memory in front",
        |r| Value::Count(r.counters.ram_hits()),
    ),
    count("ram_read_hits", "the reads among them", |r| {
        Value::Count(r.counters.ram_read_hits)
    }),
    count(
        "ram_hot_read_hits",
        "those of ram_read_hits that had a copy in the memory in front; the others were staged",
        |r| Value::Count(r.counters.ram_hot_read_hits),
    ),
    text(
        "ram_policy",
        "which blocks are worth a frame of the memory in front; none without any",
        |r| Value::Text(r.ram_policy.clone()),
    ),
    count("ram_blocks", "frames of the memory in front", |r| {
        Value::Count(r.ram_blocks.into())
    }),
    number(
        "flash_writes_per_access",
        "flash_writes_blocks / accesses",
        |r| Value::Real(r.flash_writes_per_access()),
    ),
    count(
        "refused_blocks",
        "accesses whose blocks admission kept out, warm-up included",
        |r| Value::Count(r.refused.total()),
    ),
    count(
        "admission_bytes",
        "memory of admission at the end, staged blocks included",
        |r| Value::Count(r.admission_memory.get()),
    ),
    number(
        "latency_mean_us",
        "time from arrival to answer, reads and writes: mean",
        |r| timed(r, |l| l.all.mean_us),
    ),
    number("latency_p50_us", "... median", |r| {
        timed(r, |l| l.all.p50_us)
    }),
    number("latency_p90_us", "... 90th percentile", |r| {
        timed(r, |l| l.all.p90_us)
    }),
    number("latency_p95_us", "... 95th percentile", |r| {
        timed(r, |l| l.all.p95_us)
    }),
    number("latency_p99_us", "... 99th percentile", |r| {
        timed(r, |l| l.all.p99_us)
    }),
    number("latency_max_us", "... the longest", |r| {
        timed(r, |l| l.all.max_us)
    }),
    number("read_latency_mean_us", "the same of reads: mean", |r| {
        timed(r, |l| l.reads.mean_us)
    }),
    number("read_latency_p50_us", "... median", |r| {
        timed(r, |l| l.reads.p50_us)
    }),
    number("read_latency_p90_us", "... 90th percentile", |r| {
        timed(r, |l| l.reads.p90_us)
    }),
    number("read_latency_p95_us", "... 95th percentile", |r| {
        timed(r, |l| l.reads.p95_us)
    }),
    number("read_latency_p99_us", "... 99th percentile", |r| {
        timed(r, |l| l.reads.p99_us)
    }),
    number("write_latency_mean_us", "the same of writes: mean", |r| {
        timed(r, |l| l.writes.mean_us)
    }),
    number("write_latency_p50_us", "... median", |r| {
        timed(r, |l| l.writes.p50_us)
    }),
    number("write_latency_p90_us", "... 90th percentile", |r| {
        timed(r, |l| l.writes.p90_us)
    }),
    number("write_latency_p95_us", "... 95th percentile", |r| {
        timed(r, |l| l.writes.p95_us)
    }),
    number("write_latency_p99_us", "... 99th percentile", |r| {
        timed(r, |l| l.writes.p99_us)
    }),
    number(
        "requests_per_s",
        "reads and writes answered a second, from the first arrival to the last answer",
        |r| timed(r, |l| l.requests_per_s),
    ),
    number("request_bytes_per_s", "bytes of them a second", |r| {
        timed(r, |l| l.bytes_per_s)
    }),
];

/// What is said of each volume, under the names of the columns.
pub(crate) fn of_volume(counters: &Counters) -> [(&'static str, Value); 19] {
    let part = |part, whole| Value::Real(ratio(part, whole));
    [
        ("requests", Value::Count(counters.requests())),
        ("accesses", Value::Count(counters.accesses())),
        ("hits", Value::Count(counters.hits())),
        ("misses", Value::Count(counters.misses())),
        ("miss_ratio", Value::Real(counters.miss_ratio())),
        ("hit_ratio", part(counters.hits(), counters.accesses())),
        ("reads", Value::Count(counters.reads)),
        ("read_hits", Value::Count(counters.read_hits)),
        ("read_hit_ratio", part(counters.read_hits, counters.reads)),
        ("writes", Value::Count(counters.writes)),
        ("write_hits", Value::Count(counters.write_hits)),
        (
            "write_hit_ratio",
            part(counters.write_hits, counters.writes),
        ),
        ("byte_hit_ratio", part(counters.hit_bytes, counters.bytes)),
        ("origin_read_requests", Value::Count(counters.origin_reads)),
        (
            "origin_read_bytes",
            Value::Count(counters.origin_read_bytes),
        ),
        (
            "origin_write_requests",
            Value::Count(counters.origin_writes),
        ),
        (
            "origin_write_bytes",
            Value::Count(counters.origin_write_bytes),
        ),
        (
            "flash_fill_blocks",
            Value::Count(counters.flash_fill_blocks),
        ),
        (
            "flash_update_blocks",
            Value::Count(counters.flash_update_blocks),
        ),
    ]
}

impl Value {
    /// The cell as a number, if it is one.
    pub fn as_real(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(real(*count)),
            Self::Real(real) => Some(*real),
            Self::Text(_) | Self::Absent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (place, column) in COLUMNS.iter().enumerate() {
            assert!(
                COLUMNS[..place]
                    .iter()
                    .all(|other| other.name != column.name),
                "{}",
                column.name
            );
        }
    }

    #[test]
    fn the_book_explains_every_column() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/simulator.md");
        let page = std::fs::read_to_string(path).unwrap();
        for column in COLUMNS {
            let row = format!("| `{}` | {} |", column.name, column.meaning);
            assert!(
                page.contains(&row),
                "the book's simulator.md has no row: {row}"
            );
        }
    }
}
