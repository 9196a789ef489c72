//! The sampled methods over a trace: runs of blocks, straight from the records.

use mrc::{Counted, FixedRate, FixedSize, Kind, Miniature, Run};
use trace::{Op, Record, SplitError, VolumeIndex, Volumes, limits::REQUEST_BYTES_MAX};

use crate::measure::{Curves, Pass, Settings};

/// The samples of a pass: a form of SHARDS, or miniature caches.
pub(crate) struct SampledPass<S, E> {
    block_bits: u32,
    per_volume: bool,
    empty: E,
    total: S,
    volumes: Vec<S>,
    counts: Vec<Counts>,
    total_counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    accesses: u64,
    reads: u64,
}

/// What all of them do.
pub(crate) trait Sample {
    fn access(&mut self, kind: Kind, run: Run);
    fn remove(&mut self, run: Run);
    fn curves(&self, accesses: u64, reads: u64) -> Curves;
}

impl<S: Sample, E: FnMut() -> S> SampledPass<S, E> {
    pub(crate) fn new(settings: &Settings, total: S, empty: E) -> Self {
        let block = settings.block.get();
        assert!(block.is_power_of_two(), "blocks are a power of two");
        Self {
            block_bits: block.trailing_zeros(),
            per_volume: settings.per_volume,
            total,
            empty,
            volumes: Vec::new(),
            counts: Vec::new(),
            total_counts: Counts::default(),
        }
    }

    /// The blocks of a record; `None` if it has none.
    #[inline]
    fn run(&self, record: &Record) -> Result<Option<Run>, SplitError> {
        if record.length.is_zero() {
            return Ok(None);
        }
        let too_long = || SplitError::TooLong {
            offset: record.offset,
            length: record.length,
        };
        let last = record
            .offset
            .get()
            .checked_add(record.length.get() - 1)
            .ok_or_else(too_long)?;
        if record.op.carries_data() && record.length > REQUEST_BYTES_MAX {
            return Err(too_long());
        }
        let first = record.offset.get() >> self.block_bits;
        Ok(Some(Run {
            volume: record.volume.get(),
            first,
            count: (last >> self.block_bits) - first + 1,
        }))
    }

    /// `blocks` is the volume that has the record's blocks.
    #[inline]
    fn one(&mut self, record: &Record, run: Run, blocks: VolumeIndex) {
        let volume = blocks.get();
        apply(&mut self.total, record.op, Run { volume, ..run });
        self.total_counts.add(record.op, run.count);
        if !self.per_volume {
            return;
        }
        let at = record.volume.to_usize();
        if self.volumes.len() <= at {
            self.volumes.resize_with(at + 1, &mut self.empty);
            self.counts.resize(at + 1, Counts::default());
        }
        apply(&mut self.volumes[at], record.op, run);
        self.counts[at].add(record.op, run.count);
    }
}

impl Counts {
    fn add(&mut self, op: Op, blocks: u64) {
        match op {
            Op::Read => {
                self.accesses += blocks;
                self.reads += blocks;
            }
            Op::Write => self.accesses += blocks,
            Op::Flush | Op::Discard | Op::WriteZeroes => {}
        }
    }
}

fn apply<S: Sample>(sample: &mut S, op: Op, run: Run) {
    match op {
        Op::Read => sample.access(Kind::Read, run),
        Op::Write => sample.access(Kind::Write, run),
        Op::Discard | Op::WriteZeroes => sample.remove(run),
        Op::Flush => {}
    }
}

impl<S: Sample, E: FnMut() -> S> Pass for SampledPass<S, E> {
    fn take(&mut self, records: &[Record], volumes: &Volumes) -> Result<(), SplitError> {
        let roles = volumes.roles();
        for record in records {
            if let Some(run) = self.run(record)? {
                let role = roles.get(record.volume.to_usize());
                self.one(record, run, role.map_or(record.volume, |role| role.blocks));
            }
        }
        Ok(())
    }

    fn total(&self) -> Curves {
        self.total
            .curves(self.total_counts.accesses, self.total_counts.reads)
    }

    fn volumes(&self) -> Vec<Option<Curves>> {
        let each = self.volumes.iter().zip(&self.counts);
        each.map(|(sample, counts)| {
            (counts.accesses > 0).then(|| sample.curves(counts.accesses, counts.reads))
        })
        .collect()
    }
}

macro_rules! sample {
    ($form:ty) => {
        impl Sample for $form {
            #[inline]
            fn access(&mut self, kind: Kind, run: Run) {
                self.access(kind, run);
            }

            fn remove(&mut self, run: Run) {
                self.remove(run);
            }

            fn curves(&self, accesses: u64, reads_count: u64) -> Curves {
                Curves {
                    all: self.curve(Counted::All),
                    reads: self.curve(Counted::Reads),
                    accesses,
                    reads_count,
                    footprint_blocks: self.footprint_blocks(),
                    sampled_blocks: self.sampled_blocks(),
                    rate: self.rate(),
                    memory_bytes: self.bytes(),
                }
            }
        }
    };
}

sample!(FixedRate);
sample!(FixedSize);
sample!(Miniature);
