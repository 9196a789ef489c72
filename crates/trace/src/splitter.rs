//! Requests become accesses of aligned blocks, numbered from 0 in order of first access.
//!
//! A policy then needs no hash table: the number is an index. A block is a place on a volume; the same
//! place on two volumes is two blocks.
//!
//! Reads and writes name every block that they touch. Discards and write-zeroes bring nothing into a
//! cache, so they name only the blocks that were accessed before: a discard of a whole volume costs what
//! has been seen of it.

use std::ops::Range;

use units::{Bytes, Map};

use crate::limits::{DISTINCT_BLOCKS_MAX, REQUEST_BYTES_MAX};
use crate::record::{Record, VolumeIndex};

/// A record and the keys of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The record as it was read.
    pub record: Record,
    /// Its part of [`Batch::keys`].
    pub keys: Range<u32>,
}

/// Requests with the blocks that they access, in the order of the trace.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The requests.
    pub requests: Vec<Request>,
    /// Their blocks, one after the other.
    pub keys: Vec<u32>,
}

impl Batch {
    /// The blocks of one of this batch's requests.
    pub fn keys_of(&self, request: &Request) -> &[u32] {
        &self.keys[request.keys.start as usize..request.keys.end as usize]
    }
}

/// Why requests cannot be split.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// More distinct blocks than keys.
    #[error(
        "the trace touches more than {DISTINCT_BLOCKS_MAX} distinct blocks; choose larger ones with --block"
    )]
    TooManyBlocks,
    /// A read or write longer than [`REQUEST_BYTES_MAX`], or one that ends beyond 2^64 bytes.
    #[error(
        "a request at offset {offset} is {length} long, which no system issues; the trace is mangled"
    )]
    TooLong {
        /// The request's offset.
        offset: Bytes,
        /// Its length.
        length: Bytes,
    },
}

/// Splits requests into blocks of one size and numbers these.
#[derive(Clone, Debug)]
pub struct Splitter {
    block_bytes: u64,
    keys: Map<(VolumeIndex, u64), u32>,
    volumes: Vec<VolumeIndex>,
}

impl Splitter {
    /// A splitter into blocks of that size.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub fn new(block: Bytes) -> Self {
        assert!(block.get().is_power_of_two());
        assert!(block.get() >= units::SECTOR_BYTES);
        Self {
            block_bytes: block.get(),
            keys: Map::default(),
            volumes: Vec::new(),
        }
    }

    /// The size of a block.
    pub fn block(&self) -> Bytes {
        Bytes::new(self.block_bytes)
    }

    /// How many different blocks were accessed: keys are below this.
    ///
    /// # Panics
    /// Never: `split` stops before the count outgrows 32 bits.
    pub fn distinct(&self) -> u32 {
        u32::try_from(self.volumes.len()).expect("at most DISTINCT_BLOCKS_MAX")
    }

    /// The volume of a block that was accessed.
    ///
    /// # Panics
    /// If `key` is not below [`Self::distinct`].
    pub fn volume_of(&self, key: u32) -> VolumeIndex {
        self.volumes[key as usize]
    }

    /// Replaces the content of `into` with these records and their blocks.
    ///
    /// # Errors
    /// If a request is longer than any system issues, or there are more distinct blocks than keys.
    /// `into` then holds the requests before that one.
    ///
    /// # Panics
    /// If the records of one call name 2^32 blocks or more, which [`crate::limits::BATCH_RECORDS`] of
    /// them cannot.
    pub fn split(&mut self, records: &[Record], into: &mut Batch) -> Result<(), SplitError> {
        into.requests.clear();
        into.keys.clear();
        for record in records {
            let start = into.keys.len();
            self.split_one(record, &mut into.keys)?;
            let range = u32::try_from(start).expect("a batch is small")
                ..u32::try_from(into.keys.len()).expect("a batch is small");
            into.requests.push(Request {
                record: *record,
                keys: range,
            });
        }
        Ok(())
    }

    fn split_one(&mut self, record: &Record, keys: &mut Vec<u32>) -> Result<(), SplitError> {
        if record.length.is_zero() {
            return Ok(());
        }
        let too_long = || SplitError::TooLong {
            offset: record.offset,
            length: record.length,
        };
        let last_byte = record
            .offset
            .checked_add(record.length - Bytes::new(1))
            .ok_or_else(too_long)?;
        let blocks = record.offset.get() / self.block_bytes..=last_byte.get() / self.block_bytes;
        if !record.op.carries_data() {
            keys.extend(blocks.filter_map(|block| self.keys.get(&(record.volume, block))));
            return Ok(());
        }
        if record.length > REQUEST_BYTES_MAX {
            return Err(too_long());
        }
        for block in blocks {
            let next = self.distinct();
            let key = *self.keys.entry((record.volume, block)).or_insert(next);
            if key == next {
                if next == DISTINCT_BLOCKS_MAX {
                    return Err(SplitError::TooManyBlocks);
                }
                self.volumes.push(record.volume);
            }
            keys.push(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;

    fn record(op: Op, volume: u32, offset: u64, length: u64) -> Record {
        Record {
            time_us: 0,
            offset: Bytes::new(offset),
            length: Bytes::new(length),
            response_us: None,
            volume: VolumeIndex::new(volume),
            op,
            hash: None,
        }
    }

    fn keys(splitter: &mut Splitter, record: Record) -> Vec<u32> {
        let mut batch = Batch::default();
        splitter.split(&[record], &mut batch).unwrap();
        assert_eq!(batch.keys_of(&batch.requests[0]), batch.keys);
        batch.keys
    }

    #[test]
    fn a_request_touches_every_block_that_it_overlaps() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4095, 2)), [0, 1]);
        assert_eq!(keys(&mut splitter, record(Op::Write, 0, 4096, 4096)), [1]);
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4096, 4097)), [1, 2]);
        assert_eq!(splitter.distinct(), 3);
    }

    #[test]
    fn the_same_place_on_another_volume_is_another_block() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 0, 512)), [0]);
        assert_eq!(keys(&mut splitter, record(Op::Read, 7, 0, 512)), [1]);
        assert_eq!(splitter.volume_of(1), VolumeIndex::new(7));
    }

    #[test]
    fn discards_and_flushes_number_nothing() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Flush, 0, 0, 0)), []);
        assert_eq!(keys(&mut splitter, record(Op::Discard, 0, 0, 8192)), []);
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4096, 1)), [0]);
        assert_eq!(
            keys(&mut splitter, record(Op::WriteZeroes, 0, 0, 8192)),
            [0]
        );
        assert_eq!(splitter.distinct(), 1);
    }

    #[test]
    fn mangled_lengths_are_refused() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        let mut batch = Batch::default();
        for (offset, length) in [(0, 1 << 40), (u64::MAX, 2)] {
            let split = splitter.split(&[record(Op::Read, 0, offset, length)], &mut batch);
            assert!(matches!(split, Err(SplitError::TooLong { .. })), "{offset}");
        }
        assert_eq!(splitter.distinct(), 0);
    }
}
