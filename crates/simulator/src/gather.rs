//! Writes gathered in memory before they go on: what a chunk that waits longer would save.
//!
//! ```text
//!   write ─► open chunk, one slot a block ─┬─ the block is in it ─► absorbed: the older bytes go nowhere
//!                                          └─ it is not ──────────► a slot more
//!   full, as old as the interval, or (if it is honoured) a flush ─► the chunk goes on
//! ```
//!
//! `MultiCache` gathers writes in chunks of 1 MiB (64 KiB to 4 MiB) that go on when they are full or after 30 seconds. The
//! daemon's open chunk of a dirty log is such a chunk, and a flush seals it: what a flush acknowledged is durable. Here
//! both are counted over a trace, the flushes honoured and not, which is what the acknowledgement costs.

use crate::engine::Source;
use crate::error::SimError;
use trace::{Batch, Op, Reader, Request, Splitter};
use units::{Bytes, Duration};

/// How writes are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Bytes of a chunk.
    pub chunk: Bytes,
    /// The longest that the first write of a chunk waits.
    pub interval: Duration,
    /// Whether a flush lets the chunk go on.
    pub honours_flushes: bool,
}

/// What was gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Blocks that were written.
    pub written: u64,
    /// Of those, the ones that replaced what was in the open chunk.
    pub absorbed: u64,
    /// Chunks that went on, the last included.
    pub chunks: u64,
    /// Of those, the ones that were not full.
    pub partial: u64,
}

/// One way to gather, at work.
struct Gatherer {
    gathering: Gathering,
    slots: u64,
    interval_us: u64,
    /// By key: the chunk that has the block.
    chunk_of: Vec<u64>,
    /// The number of the open chunk, from 1.
    open: u64,
    /// Slots in use, and when the first was taken.
    used: u64,
    since_us: u64,
    gathered: Gathered,
}

impl Gatherer {
    fn new(gathering: Gathering, block: Bytes) -> Self {
        Self {
            gathering,
            slots: (gathering.chunk.get() / block.get()).max(1),
            interval_us: gathering.interval.as_nanos() / 1000,
            chunk_of: Vec::new(),
            open: 1,
            used: 0,
            since_us: 0,
            gathered: Gathered::default(),
        }
    }

    fn request(&mut self, request: &Request, keys: &[u32]) {
        let now = request.record.time_us;
        if self.used > 0 && now.saturating_sub(self.since_us) >= self.interval_us {
            self.goes_on();
        }
        match request.record.op {
            Op::Write => keys.iter().for_each(|key| self.write(*key, now)),
            Op::Flush if self.gathering.honours_flushes => self.goes_on(),
            // What is erased need not be written: the slot is free for the block's next write, and counts until then.
            Op::Discard | Op::WriteZeroes | Op::Read | Op::Flush => {}
        }
    }

    fn write(&mut self, key: u32, now: u64) {
        let at = key as usize;
        if at >= self.chunk_of.len() {
            self.chunk_of.resize(at + 1, 0);
        }
        self.gathered.written += 1;
        if self.chunk_of[at] == self.open {
            self.gathered.absorbed += 1;
            return;
        }
        if self.used == 0 {
            self.since_us = now;
        }
        self.chunk_of[at] = self.open;
        self.used += 1;
        if self.used == self.slots {
            self.goes_on();
        }
    }

    fn goes_on(&mut self) {
        if self.used == 0 {
            return;
        }
        self.gathered.chunks += 1;
        self.gathered.partial += u64::from(self.used < self.slots);
        self.used = 0;
        self.open += 1;
    }
}

/// Gathers a trace's writes in each of these ways.
///
/// # Errors
/// If the trace cannot be read to its end, has no times, or accesses nothing.
pub fn gather(
    reader: &mut dyn Reader,
    block: Bytes,
    ways: &[Gathering],
) -> Result<Vec<(Gathering, Gathered)>, SimError> {
    let mut source = Source::new(reader, Splitter::new(block));
    let mut ways: Vec<Gatherer> = ways.iter().map(|way| Gatherer::new(*way, block)).collect();
    let (mut batch, mut has_time) = (Batch::default(), false);
    while source.next(&mut batch)? {
        for request in &batch.requests {
            has_time |= request.record.time_us > 0;
            for way in &mut ways {
                way.request(request, batch.keys_of(request));
            }
        }
    }
    if source.splitter().distinct() == 0 {
        return Err(SimError::Empty);
    }
    if !has_time {
        return Err(SimError::NoTime("gathering writes for some time"));
    }
    let end = |mut way: Gatherer| {
        way.goes_on();
        (way.gathering, way.gathered)
    };
    Ok(ways.into_iter().map(end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Record, VolumeIndex};
    use units::Offset;

    /// Steps of a trace: a time in milliseconds, then a block that is written, or a flush.
    fn gathered(gathering: Gathering, steps: &[(u64, Option<u32>)]) -> Gathered {
        let mut gatherer = Gatherer::new(gathering, Bytes::kib(4));
        for &(time_ms, block) in steps {
            let request = Request {
                record: Record::new(
                    1 + time_ms * 1000,
                    VolumeIndex::new(0),
                    block.map_or(Op::Flush, |_| Op::Write),
                    Offset::new(0),
                    Bytes::kib(4),
                ),
                keys: 0..1,
            };
            let keys: Vec<u32> = block.into_iter().collect();
            gatherer.request(&request, &keys);
        }
        gatherer.goes_on();
        gatherer.gathered
    }

    const WAY: Gathering = Gathering {
        chunk: Bytes::kib(8),
        interval: Duration::from_secs(1),
        honours_flushes: true,
    };

    #[test]
    fn a_block_that_is_written_again_in_the_open_chunk_is_absorbed() {
        let steps = [(0, Some(7)), (10, Some(7)), (20, Some(8)), (30, Some(7))];
        let expected = Gathered {
            written: 4,
            absorbed: 1,
            chunks: 2,
            partial: 1,
        };
        assert_eq!(gathered(WAY, &steps), expected);
    }

    #[test]
    fn a_flush_ends_a_chunk_if_it_is_honoured() {
        let steps = [(0, Some(7)), (10, None), (20, None), (30, Some(7))];
        assert_eq!(gathered(WAY, &steps).absorbed, 0);
        assert_eq!(gathered(WAY, &steps).chunks, 2);
        let ignored = Gathering {
            honours_flushes: false,
            ..WAY
        };
        assert_eq!(gathered(ignored, &steps).absorbed, 1);
        assert_eq!(gathered(ignored, &steps).chunks, 1);
    }

    #[test]
    fn a_chunk_waits_no_longer_than_the_interval_from_its_first_write() {
        let steps = [(0, Some(7)), (999, Some(7)), (1000, Some(7))];
        let result = gathered(WAY, &steps);
        assert_eq!((result.absorbed, result.chunks, result.partial), (1, 2, 2));
    }
}
