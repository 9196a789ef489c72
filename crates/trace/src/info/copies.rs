//! Second copies: what a log holds when it was taken at two layers, or at issue and at completion.
//!
//! ```text
//!  recent requests   [ W 8..16 ][ R 96..128 ][ R 0..8 ] ...          the last 256, at most 100 ms old
//!                                    ▲  ▲
//!                     R 96..112 ─────┘  └──── R 112..128     a copy, that the lower layer has split
//! ```
//!
//! A copy lies within a recent request of the same operation on the same volume, and consumes what it
//! covers, so that a request that is simply repeated again and again counts as a copy every second time
//! at most. In a log that holds every I/O twice nearly every request that is no copy has one; in the traces
//! of disks, servers and VMs that were tried at most 5 in 100 have, in a zipf law with a tenth of its
//! requests on one block 44.

use super::spread::Spread;
use crate::record::{Op, Record, VolumeIndex};
use std::collections::VecDeque;

/// A copy is at most this much later. Layers are microseconds apart, issue and completion as far as a
/// slow disk takes.
pub(super) const COPY_TIME_US_MAX: u64 = 100_000;
/// And so many requests later at most, for traces whose time is coarse.
pub(super) const COPY_REQUESTS_MAX: u64 = 256;
/// In a trace without time only so many: what is near in order is all that is known.
const COPY_REQUESTS_MAX_TIMELESS: u64 = 32;

#[derive(Clone, Copy, Debug)]
struct Recent {
    record: u64,
    time_us: u64,
    offset: u64,
    end: u64,
    volume: VolumeIndex,
    op: Op,
    /// Bytes of it that no copy has covered yet.
    open: u64,
}

/// The copies among reads and writes.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    recent: VecDeque<Recent>,
    requests_max: u64,
    pub(super) count: u64,
    /// Requests that are wholly covered by copies.
    pub(super) covered: u64,
    /// The first of them, counted from 1.
    pub(super) first: u64,
    /// How much later they are, in microseconds.
    pub(super) gaps: Spread,
}

impl Copies {
    pub(super) fn new(has_time: bool) -> Self {
        Self {
            recent: VecDeque::new(),
            requests_max: if has_time {
                COPY_REQUESTS_MAX
            } else {
                COPY_REQUESTS_MAX_TIMELESS
            },
            count: 0,
            covered: 0,
            first: 0,
            gaps: Spread::new(),
        }
    }

    /// Takes in a read or write. `number` counts records from 1; `is_known` is false if its first block
    /// was not accessed shortly before, which spares the search.
    pub(super) fn add(&mut self, record: &Record, number: u64, is_known: bool) {
        while let Some(first) = self.recent.front()
            && (number - first.record > self.requests_max
                || record.time_us.abs_diff(first.time_us) > COPY_TIME_US_MAX)
        {
            self.recent.pop_front();
        }
        let (offset, length) = (record.offset.get(), record.length.get());
        let end = offset + length;
        let covers = |recent: &&mut Recent| {
            recent.offset <= offset
                && end <= recent.end
                && recent.op == record.op
                && recent.volume == record.volume
                && recent.open >= length
        };
        if is_known && let Some(original) = self.recent.iter_mut().find(covers) {
            original.open -= length;
            self.count += 1;
            self.covered += u64::from(original.open == 0);
            if self.first == 0 {
                self.first = number;
            }
            self.gaps.add(record.time_us.abs_diff(original.time_us));
            return;
        }
        self.recent.push_back(Recent {
            record: number,
            time_us: record.time_us,
            offset,
            end,
            volume: record.volume,
            op: record.op,
            open: length,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Offset};

    fn copies(requests: &[(Op, u64, u64, u64)]) -> Copies {
        let mut copies = Copies::new(true);
        for (number, &(op, time_us, offset, length)) in (1..).zip(requests) {
            let record = Record {
                time_us,
                offset: Offset::new(offset),
                length: Bytes::new(length),
                response_us: None,
                volume: VolumeIndex::default(),
                op,
                hash: None,
            };
            copies.add(&record, number, true);
        }
        copies
    }

    use Op::{Read as R, Write as W};

    #[test]
    fn a_copy_is_the_same_operation_on_the_same_range_soon_after() {
        let twice = copies(&[(R, 0, 0, 8192), (W, 5, 0, 512), (R, 16, 0, 8192)]);
        assert_eq!((twice.count, twice.first), (1, 3));
        assert_eq!(twice.gaps.median(), 16);
        assert_eq!(copies(&[(R, 0, 0, 8192), (W, 16, 0, 8192)]).count, 0);
        assert_eq!(copies(&[(R, 0, 0, 8192), (R, 16, 4096, 8192)]).count, 0);
        assert_eq!(copies(&[(R, 0, 0, 8192), (R, 100_001, 0, 8192)]).count, 0);
    }

    #[test]
    fn a_copy_that_was_split_counts() {
        let split = copies(&[(R, 0, 0, 8192), (R, 16, 0, 4096), (R, 17, 4096, 4096)]);
        assert_eq!((split.count, split.covered), (2, 1));
    }

    #[test]
    fn neighbours_within_a_block_are_no_copies() {
        assert_eq!(
            copies(&[(W, 0, 0, 512), (W, 9, 512, 512), (W, 20, 1024, 512)]).count,
            0
        );
    }

    #[test]
    fn a_request_that_is_repeated_counts_every_second_time() {
        assert_eq!(copies(&[(W, 0, 0, 512); 9]).count, 4);
    }
}
