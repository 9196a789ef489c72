//! How long the sequential run is to which a request belongs.
//!
//! A request that begins where another ended continues its run. The ends of recent runs are kept in a
//! table without probing, so that a request costs one hash and two lines of memory whatever comes:
//!
//! ```text
//!   request d0 100..108:   end "d0 100" known: run of 64 ─► it is 72 blocks long now, end "d0 108"
//!                          not known:          ─► it is 8 blocks long, end "d0 108"
//! ```
//!
//! An end that another one overwrites is forgotten, and its run begins anew: too much is admitted then,
//! never too little. Reads and writes make runs of their own.

use crate::limits::RUNS;
use units::{BlockIndex, DiskSlot};

/// Where a run ended and how long it was.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Disk, kind and block, plus one; zero if there is none.
    at: u64,
    blocks: u32,
}

/// The ends of a tenant's recent runs.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    ends: Box<[End]>,
}

/// A name for a place on a disk where a run of reads or of writes ends.
fn name(disk: DiskSlot, block: u64, write: bool) -> u64 {
    (u64::from(disk.get()) << 1 | u64::from(write)) << (BlockIndex::BITS + 1) | (block + 1)
}

/// Its place in the table: the high bits of a product with an odd number without pattern.
fn place(name: u64) -> usize {
    const BITS: u32 = RUNS.trailing_zeros();
    const { assert!(RUNS.is_power_of_two(), "a place is some bits of a hash") };
    let hash = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(hash >> (u64::BITS - BITS)).expect("a place is a few bits")
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self {
            ends: vec![End::default(); RUNS].into(),
        }
    }

    /// A request of `count` blocks. Returns how many blocks its run has, these included.
    #[inline]
    pub(crate) fn extend(
        &mut self,
        disk: DiskSlot,
        first: BlockIndex,
        count: u64,
        write: bool,
    ) -> u32 {
        let begins = name(disk, first.get(), write);
        let before = &mut self.ends[place(begins)];
        let mut blocks = u32::try_from(count).unwrap_or(u32::MAX);
        if before.at == begins {
            blocks = blocks.saturating_add(before.blocks);
            *before = End::default();
        }
        let end = first.get().saturating_add(count).min(1 << BlockIndex::BITS);
        let ends = name(disk, end, write);
        self.ends[place(ends)] = End { at: ends, blocks };
        blocks
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ends.len() * size_of::<End>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskSlot = DiskSlot::new(0);

    fn at(block: u64) -> BlockIndex {
        BlockIndex::new(block)
    }

    #[test]
    fn a_run_grows_while_each_request_begins_where_the_last_one_ended() {
        let mut runs = Runs::new();
        assert_eq!(runs.extend(DISK, at(100), 8, false), 8);
        assert_eq!(runs.extend(DISK, at(108), 64, false), 72);
        assert_eq!(
            runs.extend(DISK, at(173), 1, false),
            1,
            "a block is left out"
        );
        assert_eq!(runs.extend(DISK, at(172), 8, false), 80);
    }

    #[test]
    fn runs_of_other_disks_and_of_writes_are_other_runs() {
        let mut runs = Runs::new();
        runs.extend(DISK, at(0), 8, false);
        assert_eq!(runs.extend(DiskSlot::new(1), at(8), 8, false), 8);
        assert_eq!(runs.extend(DISK, at(8), 8, true), 8);
        assert_eq!(runs.extend(DISK, at(8), 8, false), 16);
        assert_eq!(
            runs.extend(DISK, at(8), 8, false),
            8,
            "an end continues once"
        );
    }

    #[test]
    fn several_readers_among_random_requests_keep_their_runs() {
        let mut runs = Runs::new();
        let mut dice = units::Prng::new(1);
        let mut broken = 0;
        for step in 0..1000_u64 {
            for reader in 0..4_u64 {
                let first = at(reader * 1_000_000 + step * 8);
                broken += u32::from(runs.extend(DISK, first, 8, false) == 8);
                runs.extend(DISK, at(dice.below(1 << 30)), 1, false);
            }
        }
        assert!(broken < 200, "{broken} of 4000");
    }

    #[test]
    fn the_longest_request_and_the_last_block_do_no_harm() {
        let mut runs = Runs::new();
        let last = at((1 << BlockIndex::BITS) - 1);
        assert_eq!(runs.extend(DISK, last, u64::MAX, false), u32::MAX);
        assert_eq!(runs.extend(DISK, last, 1, false), 1);
    }
}
