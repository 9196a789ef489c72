//! What is remembered of each distinct block: 12 bytes.
//!
//! ```text
//!  access   u32   the number of the last access, modulo 2^32
//!  stamp    u64   its time since the first record (61 bits), and three flags
//! ```

use super::spread::Spread;
use super::{Footprint, Reuse, share};
use crate::record::Op;

const READ: u64 = 1;
const WRITTEN: u64 = 2;
/// The last access was a write.
const LAST_WRITE: u64 = 4;
const FLAG_BITS: u32 = 3;
const TIME_MAX: u64 = u64::MAX >> FLAG_BITS;

/// Time and flags of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp(u64);

/// What is remembered of the blocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    accessed: Vec<u32>,
    stamps: Vec<Stamp>,
    accesses: u64,
    read_accesses: u64,
    read_rereferences: u64,
    /// Re-references by whether the last access was a write, and whether this one is.
    after: [[u64; 2]; 2],
    times: Spread,
    distances: Spread,
    has_time: bool,
}

impl Blocks {
    pub(super) fn new(has_time: bool) -> Self {
        Self {
            accessed: Vec::new(),
            stamps: Vec::new(),
            accesses: 0,
            read_accesses: 0,
            read_rereferences: 0,
            after: [[0; 2]; 2],
            times: Spread::new(),
            distances: Spread::new(),
            has_time,
        }
    }

    /// Whether a block was accessed at most so long before.
    pub(super) fn is_recent(&self, key: u32, time_us: u64, within_us: u64) -> bool {
        let stamp = self.stamps.get(key as usize);
        stamp.is_some_and(|stamp| time_us.abs_diff(stamp.time_us()) <= within_us)
    }

    /// Takes in a read or write of these blocks; `time_us` counts from the first record.
    ///
    /// # Panics
    /// If a key is new and not the next.
    pub(super) fn add(&mut self, op: Op, time_us: u64, keys: &[u32]) {
        let time_us = time_us.min(TIME_MAX);
        for &key in keys {
            self.access(key, op == Op::Write, time_us);
        }
    }

    fn access(&mut self, key: u32, is_write: bool, time_us: u64) {
        self.accesses += 1;
        self.read_accesses += u64::from(!is_write);
        let access = low(self.accesses);
        let mut flags = if is_write { WRITTEN | LAST_WRITE } else { READ };
        let index = key as usize;
        assert!(index <= self.stamps.len(), "keys are numbered from zero");
        if index == self.stamps.len() {
            self.accessed.push(access);
            self.stamps.push(Stamp::default());
        } else {
            let stamp = self.stamps[index];
            flags |= stamp.0 & (READ | WRITTEN);
            self.after[usize::from(stamp.is(LAST_WRITE))][usize::from(is_write)] += 1;
            self.read_rereferences += u64::from(!is_write);
            let distance = access.wrapping_sub(self.accessed[index]);
            self.distances.add(u64::from(distance));
            if self.has_time {
                self.times.add(time_us.saturating_sub(stamp.time_us()));
            }
        }
        self.accessed[index] = access;
        self.stamps[index] = Stamp(time_us << FLAG_BITS | flags);
    }

    pub(super) fn footprint(&self, block_bytes: u64) -> Footprint {
        let blocks = self.stamps.len() as u64;
        let with = |flags: u64| {
            let alike = |stamp: &&Stamp| stamp.0 & (READ | WRITTEN) == flags;
            self.stamps.iter().filter(alike).count() as u64
        };
        Footprint {
            block_bytes,
            accesses: self.accesses,
            blocks,
            bytes: blocks.saturating_mul(block_bytes),
            only_read_blocks: with(READ),
            only_written_blocks: with(WRITTEN),
            read_and_written_blocks: with(READ | WRITTEN),
        }
    }

    pub(super) fn reuse(&self) -> Reuse {
        let [after_read, after_write] = self.after;
        let rereferences = self.accesses - self.stamps.len() as u64;
        Reuse {
            rereferences,
            rereference_share: share(rereferences, self.accesses),
            read_rereference_share: share(self.read_rereferences, self.read_accesses),
            read_after_read: after_read[0],
            read_after_write: after_write[0],
            write_after_read: after_read[1],
            write_after_write: after_write[1],
            time_us: self.has_time.then(|| self.times.quantiles()),
            accesses: self.distances.quantiles(),
        }
    }
}

impl Stamp {
    fn is(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn time_us(self) -> u64 {
        self.0 >> FLAG_BITS
    }
}

/// The low half.
fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(requests: &[(Op, u64, &[u32])]) -> Blocks {
        let mut blocks = Blocks::new(true);
        for (op, time, keys) in requests {
            blocks.add(*op, *time, keys);
        }
        blocks
    }

    #[test]
    fn reuse_is_counted_by_what_came_before() {
        use Op::{Read as R, Write as W};
        let blocks = all(&[
            (R, 0, &[0, 1]),
            (W, 10, &[0]),
            (R, 500_000, &[0]),
            (R, 900_000, &[0]),
            (W, 950_000, &[2]),
        ]);
        let reuse = blocks.reuse();
        assert_eq!((reuse.rereferences, reuse.write_after_read), (3, 1));
        assert_eq!((reuse.read_after_write, reuse.read_after_read), (1, 1));
        assert_eq!(reuse.write_after_write, 0);
        assert!((reuse.read_rereference_share - 0.5).abs() < 1e-9);
        assert_eq!(reuse.accesses.max, 2);
        assert_eq!(reuse.time_us.unwrap().min, 10);
        let footprint = blocks.footprint(4096);
        assert_eq!((footprint.accesses, footprint.blocks), (6, 3));
        assert_eq!(footprint.only_read_blocks, 1);
        assert_eq!(footprint.only_written_blocks, 1);
        assert_eq!(footprint.read_and_written_blocks, 1);
    }
}
