//! The pass over a trace.

use super::arrival::Rates;
use super::blocks::Blocks;
use super::copies::COPY_TIME_US_MAX;
use super::signs::{Access, Look, Signs};
use super::spread::Spread;
use super::volumes::Rows;
use super::{Info, SizeBucket, Sizes};
use crate::format::Format;
use crate::record::{Op, Record, Volumes};
use crate::records::Records;
use crate::splitter::{Batch, SplitError, Splitter};
use units::Bytes;

/// What a format can say at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// When requests came.
    pub time: bool,
    /// What they do.
    pub operation: bool,
    /// Where they go, in bytes or sectors; otherwise keys that stand for a block each.
    pub place: bool,
}

impl Known {
    /// What a format can say. Formats with columns of the user's choice are taken to say everything.
    pub fn of(format: Format) -> Self {
        let everything = Self {
            time: true,
            operation: true,
            place: true,
        };
        match format.name() {
            "text" | "raw-u32" | "raw-u64" => Self {
                time: false,
                operation: false,
                place: false,
            },
            "lis" => Self {
                time: false,
                operation: false,
                ..everything
            },
            "oracle-general" => Self {
                operation: false,
                place: false,
                ..everything
            },
            _ => everything,
        }
    }
}

/// Takes in a trace and tells what it is like.
#[derive(Clone, Debug)]
pub struct Collector(Signs<Detail>);

/// All that is told of a trace, beside its warnings.
#[derive(Clone, Debug)]
struct Detail {
    views: Views,
    sizes: [Spread; 3],
    /// Reads and writes by the power of two that their length is not above.
    buckets: [[u64; 2]; 65],
    rates: Rates,
    rows: Rows,
    blocks: Blocks,
    /// Distinct blocks so far.
    distinct: u32,
}

/// What each VM has seen of the base images: their blocks are counted once, and in the row of each
/// VM that touches them.
#[derive(Clone, Debug)]
struct Views {
    splitter: Splitter,
    /// The record that is looked at.
    records: Records,
    batch: Batch,
}

impl Views {
    fn new(block: Bytes) -> Self {
        Self {
            // It is not told the volumes, so each VM's view of an image is a volume of its own.
            splitter: Splitter::new(block),
            records: Records::new(),
            batch: Batch::default(),
        }
    }

    /// How many blocks of this record its VM touches for the first time.
    fn add(&mut self, record: &Record) -> Result<u32, SplitError> {
        let before = self.splitter.distinct();
        self.records.clear();
        self.records.push(*record);
        self.splitter.split(&self.records, &mut self.batch)?;
        Ok(self.splitter.distinct() - before)
    }
}

impl Look for Detail {
    fn sized(&mut self, record: &Record) {
        let bytes = record.length.get();
        let is_write = record.op == Op::Write;
        self.sizes[0].add(bytes);
        self.sizes[1 + usize::from(is_write)].add(bytes);
        self.buckets[bucket(bytes)][usize::from(is_write)] += 1;
    }

    fn time(&mut self, time_us: u64) {
        self.rates.add(time_us);
    }

    fn may_be_copy(&self, access: &Access<'_>) -> bool {
        let first = access.keys[0];
        self.blocks
            .is_recent(first, access.time_us, COPY_TIME_US_MAX)
    }

    fn blocks(
        &mut self,
        record: &Record,
        access: Option<Access<'_>>,
        is_image: bool,
    ) -> Result<(), SplitError> {
        let mut new_blocks = 0;
        if let Some(access) = access {
            self.blocks.add(record.op, access.time_us, access.keys);
            let top = access.keys.iter().max().map_or(0, |key| key + 1);
            new_blocks = top.saturating_sub(self.distinct);
            self.distinct = self.distinct.max(top);
            if is_image {
                new_blocks = self.views.add(record)?;
            }
        }
        self.rows.add(record, u64::from(new_blocks));
        Ok(())
    }
}

impl Collector {
    /// A collector for a trace that says so much, in blocks of that size.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub fn new(known: Known, block: Bytes) -> Self {
        let detail = Detail {
            views: Views::new(block),
            sizes: [Spread::new(), Spread::new(), Spread::new()],
            buckets: [[0; 2]; 65],
            rates: Rates::new(),
            rows: Rows::new(),
            blocks: Blocks::new(known.time),
            distinct: 0,
        };
        Self(Signs::new(known, block, detail))
    }

    /// Takes in the next records, and the volumes seen so far, which are theirs among others.
    ///
    /// # Errors
    /// If there are more distinct blocks than can be numbered. What no system issues is no error here:
    /// it is left out, and told of.
    pub fn add(&mut self, records: &Records, volumes: &Volumes) -> Result<(), SplitError> {
        self.0.add(records, volumes)
    }

    /// What the trace is like.
    pub fn finish(self, volumes: &Volumes) -> Info {
        let signs = self.0;
        let volumes_info = signs.look().rows.infos(volumes);
        let warnings = signs.warnings(&volumes_info);
        let block_bytes = signs.block().get();
        let (requests, operations, clock, mut detail) = signs.into_parts();
        let mut reuse = detail.blocks.reuse();
        if clock.is_none() {
            reuse.time_us = None;
        }
        Info {
            requests,
            operations,
            sizes: sizes(&detail.sizes, &detail.buckets),
            footprint: detail.blocks.footprint(block_bytes),
            arrival: clock.map(|clock| detail.rates.summary(&clock)),
            reuse,
            sequentiality: detail.rows.sequentiality(),
            volumes: volumes_info,
            warnings,
        }
    }
}

/// The place of the smallest power of two that is not below `bytes`.
fn bucket(bytes: u64) -> usize {
    let power = bytes.checked_next_power_of_two();
    power.map_or(64, u64::trailing_zeros) as usize
}

fn sizes(spreads: &[Spread; 3], buckets: &[[u64; 2]; 65]) -> Sizes {
    let [all, reads, writes] = spreads;
    let filled = buckets.iter().zip(0_u32..).filter(|([r, w], _)| r + w > 0);
    Sizes {
        all_bytes: all.quantiles(),
        read_bytes: reads.quantiles(),
        write_bytes: writes.quantiles(),
        histogram: filled
            .map(|([reads, writes], power)| SizeBucket {
                to_bytes: 1_u64.checked_shl(power).unwrap_or(u64::MAX),
                reads: *reads,
                writes: *writes,
            })
            .collect(),
    }
}
