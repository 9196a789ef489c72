//! The pass over a trace.

use super::arrival::{Times, divisor};
use super::blocks::Blocks;
use super::copies::{COPY_TIME_US_MAX, Copies};
use super::spread::Spread;
use super::volumes::Rows;
use super::warnings::{self, Evidence, Seen};
use super::{Count, Info, Operations, SizeBucket, Sizes, VolumeInfo};
use crate::format::Format;
use crate::limits::REQUEST_BYTES_MAX;
use crate::record::{Op, Record, Volumes};
use crate::splitter::{Batch, SplitError, Splitter};
use units::{Bytes, SECTOR_BYTES};

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
pub struct Collector {
    known: Known,
    splitter: Splitter,
    batch: Batch,
    views: Views,
    sane: Vec<Record>,
    requests: u64,
    origin_us: Option<u64>,
    operations: Operations,
    sizes: [Spread; 3],
    /// Reads and writes by the power of two that their length is not above.
    buckets: [[u64; 2]; 65],
    times: Times,
    rows: Rows,
    blocks: Blocks,
    copies: Copies,
    offsets_divisor: u64,
    unaligned: Seen,
    implausible: Seen,
    impossible: Seen,
    empty: Seen,
    misaligned: Seen,
}

/// What each VM has seen of the base images: their blocks are counted once, and in the row of each
/// VM that touches them.
#[derive(Clone, Debug)]
struct Views {
    splitter: Splitter,
    batch: Batch,
}

impl Views {
    fn new(block: Bytes) -> Self {
        Self {
            // It is not told the volumes, so each VM's view of an image is a volume of its own.
            splitter: Splitter::new(block),
            batch: Batch::default(),
        }
    }

    /// How many blocks of this record its VM touches for the first time.
    fn add(&mut self, record: &Record) -> Result<u32, SplitError> {
        let before = self.splitter.distinct();
        self.splitter
            .split(std::slice::from_ref(record), &mut self.batch)?;
        Ok(self.splitter.distinct() - before)
    }
}

/// An offset from which on no volume reaches: 1 PiB. The largest volumes of public clouds are 64 TiB;
/// beyond lie hashed keys and negative numbers.
const PLAUSIBLE_OFFSET_MAX: u64 = 1 << 50;

impl Collector {
    /// A collector for a trace that says so much, in blocks of that size.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub fn new(known: Known, block: Bytes) -> Self {
        Self {
            known,
            splitter: Splitter::new(block),
            batch: Batch::default(),
            views: Views::new(block),
            sane: Vec::new(),
            requests: 0,
            origin_us: None,
            operations: Operations::default(),
            sizes: [Spread::new(), Spread::new(), Spread::new()],
            buckets: [[0; 2]; 65],
            times: Times::new(),
            rows: Rows::new(),
            blocks: Blocks::new(known.time),
            copies: Copies::new(known.time),
            offsets_divisor: 0,
            unaligned: Seen::default(),
            implausible: Seen::default(),
            impossible: Seen::default(),
            empty: Seen::default(),
            misaligned: Seen::default(),
        }
    }

    /// Takes in the next records, and the volumes seen so far, which are theirs among others.
    ///
    /// # Errors
    /// If there are more distinct blocks than can be numbered. What no system issues is no error here:
    /// it is left out, and told of.
    pub fn add(&mut self, records: &[Record], volumes: &Volumes) -> Result<(), SplitError> {
        self.splitter.know(volumes);
        let mut sane = std::mem::take(&mut self.sane);
        sane.clear();
        let mut first = self.requests + 1;
        for record in records {
            self.requests += 1;
            if self.is_sane(record) {
                sane.push(*record);
                continue;
            }
            // Those before it first: blocks are looked at in order.
            self.add_sane(&sane, first)?;
            sane.clear();
            first = self.requests + 1;
        }
        self.add_sane(&sane, first)?;
        self.sane = sane;
        Ok(())
    }

    /// Counts a record, and tells whether its blocks can be looked at.
    fn is_sane(&mut self, record: &Record) -> bool {
        if self.known.time {
            self.times.add(record.time_us);
        }
        let bytes = record.length.get();
        let operations = &mut self.operations;
        let count: &mut Count = match record.op {
            Op::Read => &mut operations.read,
            Op::Write => &mut operations.write,
            Op::Flush => &mut operations.flush,
            Op::Discard => &mut operations.discard,
            Op::WriteZeroes => &mut operations.write_zeroes,
        };
        count.add(bytes);
        let (offset, is_data) = (record.offset.get(), record.op.carries_data());
        let number = self.requests;
        let place = |seen: &mut Seen| seen.add(number, offset, bytes);
        let is_long = is_data && bytes > REQUEST_BYTES_MAX.get();
        if is_long || offset.checked_add(bytes).is_none() {
            place(&mut self.impossible);
            return false;
        }
        if !is_data {
            return true;
        }
        if bytes == 0 {
            place(&mut self.empty);
        }
        if offset >= PLAUSIBLE_OFFSET_MAX {
            place(&mut self.implausible);
        }
        let block = self.splitter.block().get();
        if !offset.is_multiple_of(SECTOR_BYTES) {
            place(&mut self.unaligned);
        } else if bytes > 0 && bytes.is_multiple_of(block) && !offset.is_multiple_of(block) {
            place(&mut self.misaligned);
        }
        self.offsets_divisor = divisor(self.offsets_divisor, offset);
        let is_write = record.op == Op::Write;
        self.sizes[0].add(bytes);
        self.sizes[1 + usize::from(is_write)].add(bytes);
        self.buckets[bucket(bytes)][usize::from(is_write)] += 1;
        true
    }

    /// Takes in records whose blocks can be looked at; the first of them has that number.
    fn add_sane(&mut self, records: &[Record], first: u64) -> Result<(), SplitError> {
        if let (None, [record, ..]) = (self.origin_us, records) {
            self.origin_us = Some(record.time_us);
        }
        let origin_us = self.origin_us.unwrap_or(0);
        let mut known_blocks = self.splitter.distinct();
        self.splitter.split(records, &mut self.batch)?;
        for (number, request) in (first..).zip(&self.batch.requests) {
            let (record, keys) = (&request.record, self.batch.keys_of(request));
            let mut new_blocks = 0;
            if let (true, [first_key, ..]) = (record.op.carries_data(), keys) {
                let time_us = record.time_us.saturating_sub(origin_us);
                let recent = self.blocks.is_recent(*first_key, time_us, COPY_TIME_US_MAX);
                self.copies.add(record, number, recent);
                self.blocks.add(record.op, time_us, keys);
                let top = keys.iter().max().map_or(0, |key| key + 1);
                new_blocks = top.saturating_sub(known_blocks);
                known_blocks = known_blocks.max(top);
                if self.batch.role(record.volume).is_image {
                    new_blocks = self.views.add(record)?;
                }
            }
            self.rows.add(record, u64::from(new_blocks));
        }
        Ok(())
    }

    /// Takes in the times of the next records, and nothing else of them.
    pub(super) fn add_times(&mut self, records: &[Record]) {
        self.requests += records.len() as u64;
        if self.known.time {
            for record in records {
                self.times.add(record.time_us);
            }
        }
    }

    /// What of the trace ruins a study, or should be known before one.
    pub(super) fn judge(&self, volumes: &Volumes) -> Vec<warnings::Warning> {
        self.warnings(&self.rows.infos(volumes))
    }

    fn warnings(&self, volumes: &[VolumeInfo]) -> Vec<warnings::Warning> {
        warnings::judge(&Evidence {
            known: self.known,
            requests: self.requests,
            operations: self.operations,
            times: &self.times,
            copies: &self.copies,
            offsets_divisor: self.offsets_divisor,
            unaligned: self.unaligned,
            implausible: self.implausible,
            impossible: self.impossible,
            empty: self.empty,
            misaligned: self.misaligned,
            volumes,
            block_bytes: self.splitter.block().get(),
        })
    }

    /// What the trace is like.
    pub fn finish(mut self, volumes: &Volumes) -> Info {
        let block_bytes = self.splitter.block().get();
        let footprint = self.blocks.footprint(block_bytes);
        let volumes_info = self.rows.infos(volumes);
        let sequentiality = self.rows.sequentiality();
        let warnings = self.warnings(&volumes_info);
        let has_time = self.known.time && self.times.differ();
        let mut reuse = self.blocks.reuse();
        if !has_time {
            reuse.time_us = None;
        }
        Info {
            requests: self.requests,
            operations: self.operations,
            sizes: sizes(&self.sizes, &self.buckets),
            footprint,
            arrival: has_time.then(|| self.times.summary()),
            reuse,
            sequentiality,
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
