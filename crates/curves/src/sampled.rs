//! The sampled methods over a trace: runs of blocks, straight from the records.

use mrc::{Counted, FixedRate, FixedSize, Kind, Miniature, Run};
use trace::limits::REQUEST_BYTES_MAX;
use trace::{Op, Records, SplitError, Stretch, VolumeIndex, Volumes};
use units::{Bytes, Offset};

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
    /// Blocks of a volume that as many requests access, in their order.
    fn access_each(&mut self, kind: Kind, volume: u32, blocks: impl Iterator<Item = u64>) {
        for first in blocks {
            let count = 1;
            self.access(
                kind,
                Run {
                    volume,
                    first,
                    count,
                },
            );
        }
    }
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

    /// The blocks of a request of a stretch; `None` if it has none.
    fn run(&self, stretch: &Stretch, offset: Offset) -> Result<Option<Run>, SplitError> {
        let length = stretch.length;
        if length.is_zero() {
            return Ok(None);
        }
        let too_long = || SplitError::TooLong { offset, length };
        let last = offset
            .get()
            .checked_add(length.get() - 1)
            .ok_or_else(too_long)?;
        if stretch.op.carries_data() && length > REQUEST_BYTES_MAX {
            return Err(too_long());
        }
        let first = offset.get() >> self.block_bits;
        Ok(Some(Run {
            volume: stretch.volume.get(),
            first,
            count: (last >> self.block_bits) - first + 1,
        }))
    }

    /// A request of a stretch; `blocks` is the volume that has its blocks.
    fn one(&mut self, stretch: &Stretch, run: Run, blocks: VolumeIndex) {
        let volume = blocks.get();
        apply(&mut self.total, stretch.op, Run { volume, ..run });
        self.total_counts.add(stretch.op, run.count);
        if let Some((sample, counts)) = self.of_volume(stretch.volume) {
            apply(sample, stretch.op, run);
            counts.add(stretch.op, run.count);
        }
    }

    /// A stretch whose requests read or write one block each.
    fn singles(&mut self, stretch: &Stretch, offsets: &[Offset], blocks: VolumeIndex) {
        let (kind, count) = (kind(stretch.op), u64::from(stretch.count));
        let bits = self.block_bits;
        let places = offsets.iter().map(|offset| offset.get() >> bits);
        self.total.access_each(kind, blocks.get(), places.clone());
        self.total_counts.add(stretch.op, count);
        if let Some((sample, counts)) = self.of_volume(stretch.volume) {
            sample.access_each(kind, stretch.volume.get(), places);
            counts.add(stretch.op, count);
        }
    }

    /// The sample of a volume by itself, if there shall be any.
    fn of_volume(&mut self, volume: VolumeIndex) -> Option<(&mut S, &mut Counts)> {
        if !self.per_volume {
            return None;
        }
        let at = volume.to_usize();
        if self.volumes.len() <= at {
            self.volumes.resize_with(at + 1, &mut self.empty);
            self.counts.resize(at + 1, Counts::default());
        }
        Some((&mut self.volumes[at], &mut self.counts[at]))
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

/// What a read or write does with its blocks.
fn kind(op: Op) -> Kind {
    if op == Op::Write {
        Kind::Write
    } else {
        Kind::Read
    }
}

fn apply<S: Sample>(sample: &mut S, op: Op, run: Run) {
    match op {
        Op::Read | Op::Write => sample.access(kind(op), run),
        Op::Discard | Op::WriteZeroes => sample.remove(run),
        Op::Flush => {}
    }
}

impl<S: Sample, E: FnMut() -> S> Pass for SampledPass<S, E> {
    fn take(&mut self, records: &Records, volumes: &Volumes) -> Result<(), SplitError> {
        let block = Bytes::new(1 << self.block_bits);
        for (stretch, offsets) in records.stretches() {
            let role = volumes.roles().get(stretch.volume.to_usize());
            let blocks = role.map_or(stretch.volume, |role| role.blocks);
            if stretch.is_of_single_blocks(offsets, block) {
                self.singles(stretch, offsets, blocks);
                continue;
            }
            for offset in offsets {
                if let Some(run) = self.run(stretch, *offset)? {
                    self.one(stretch, run, blocks);
                }
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
    ($form:ty $(, $access_each:item)?) => {
        impl Sample for $form {
            fn access(&mut self, kind: Kind, run: Run) {
                self.access(kind, run);
            }

            $($access_each)?

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

sample!(
    FixedRate,
    fn access_each(&mut self, kind: Kind, volume: u32, blocks: impl Iterator<Item = u64>) {
        self.access_each(kind, volume, blocks);
    }
);
sample!(FixedSize);
sample!(Miniature);
