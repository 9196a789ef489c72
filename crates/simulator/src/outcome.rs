//! What a cache did with a batch: a byte for each block, and what it did on its own.
//!
//! ```text
//!   batch.keys      17 18 19 17 ...
//!   outcomes.blocks  0  S  S HS        H = HIT, S = STORED; R = RAM
//!   outcomes.chores (after key 2: reclaim wrote 40 blocks), ...
//! ```
//!
//! What the cache does does not depend on how long it takes; so caches fill this, and counting, time
//! series and latency read it afterwards.

use crate::destaged::Done;

/// The block was in the cache when its access came.
pub(crate) const HIT: u8 = 1;
/// The block was written to flash for this access: a fill after a read, an update or a fill for a write.
pub(crate) const STORED: u8 = 2;

/// The block was in RAM: staged and not on flash, or in the memory in front; with [`HIT`].
pub(crate) const RAM: u8 = 4;

/// The block was written to a dirty log: the origin lacks it; with [`STORED`].
pub(crate) const DIRTY: u8 = 8;

/// The block was in the memory in front, as a copy; with [`HIT`] and [`RAM`].
pub(crate) const HOT: u8 = 16;

/// Flash and origin I/O that no request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// A dirty block is read from flash and written to the origin.
    Destage,
    /// Dirty blocks beside each other are read from flash and written to the origin in one write.
    DestageRun,
    /// The origin needs blocks of a dirty log no longer, since they were written again or erased: no I/O.
    Coalesce,
    /// Reclaim reads a block from flash and writes it there again.
    Reclaim,
    /// A block of descriptors is written to flash.
    Descriptor,
    /// A page of journal or checkpoint is written to flash.
    Journal,
    /// A block that was staged in RAM is written to flash: a fill.
    Admit,
}

/// A chore and when it came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    /// The place in the batch's keys of the access that caused it.
    pub(crate) at_key: u32,
    /// What is done.
    pub(crate) chore: Chore,
    /// To how many blocks.
    pub(crate) blocks: u32,
}

/// A step of a dirty log on its way to its origin, and the access with which it came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogStep {
    /// The place in the batch's keys of the access.
    pub(crate) at_key: u32,
    /// What was done.
    pub(crate) done: Done,
}

/// What a cache did with one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    /// [`HIT`], [`STORED`], [`RAM`], [`DIRTY`] and [`HOT`] of each of the batch's keys. Those of discards and write-zeroes tell
    /// nothing.
    pub(crate) blocks: Vec<u8>,
    /// In the order of `at_key`.
    pub(crate) chores: Vec<Timed>,
    /// The steps of dirty logs, in the order of `at_key`. Their writes are among the chores too: those count, these
    /// take time.
    log_steps: Vec<LogStep>,
}

impl Outcomes {
    /// Room for `keys` blocks, all of them missed and not stored, and no chores.
    pub(crate) fn reset(&mut self, keys: usize) {
        self.blocks.clear();
        self.blocks.resize(keys, 0);
        self.chores.clear();
        self.log_steps.clear();
    }

    /// Notes a step of a dirty log.
    pub(crate) fn add_step(&mut self, step: LogStep) {
        self.log_steps.push(step);
    }

    /// The steps of dirty logs.
    pub(crate) fn log_steps(&self) -> &[LogStep] {
        &self.log_steps
    }
}

/// How many blocks of a request are what, counted in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// [`HIT`].
    pub(crate) hits: u64,
    /// [`STORED`].
    pub(crate) stored: u64,
    /// [`RAM`].
    pub(crate) in_ram: u64,
    /// [`DIRTY`].
    pub(crate) logged: u64,
    /// [`HOT`].
    pub(crate) hot: u64,
    /// [`HIT`] and [`STORED`] and nothing else: what was on flash was rewritten there.
    pub(crate) updated: u64,
}

/// Bits of each number of a packed tally.
const TALLY_BITS: u32 = 10;

/// Blocks after which a packed tally is unpacked: no number of it can be larger.
const TALLY_BLOCKS: usize = (1 << TALLY_BITS) - 1;

/// The field behind those of the flags.
const UPDATED: u32 = 5;

/// By the flags of a block: what it adds to a packed tally, a number of [`TALLY_BITS`] for each field.
const TALLIES: [u64; 32] = {
    let mut tallies = [0; 32];
    let mut flags = 0;
    while flags < tallies.len() {
        let mut field = 0;
        while field < UPDATED {
            tallies[flags] |= ((flags >> field & 1) as u64) << (field * TALLY_BITS);
            field += 1;
        }
        flags += 1;
    }
    tallies[(HIT | STORED) as usize] |= 1 << (UPDATED * TALLY_BITS);
    tallies
};

impl Tally {
    /// What these blocks are.
    pub(crate) fn of(blocks: &[u8]) -> Self {
        let mut tally = Self::default();
        for part in blocks.chunks(TALLY_BLOCKS) {
            let add = |block: &u8| TALLIES[usize::from(*block % 32)];
            let packed: u64 = part.iter().map(add).sum();
            let field = |field: u32| packed >> (field * TALLY_BITS) & TALLY_BLOCKS as u64;
            tally.hits += field(HIT.ilog2());
            tally.stored += field(STORED.ilog2());
            tally.in_ram += field(RAM.ilog2());
            tally.logged += field(DIRTY.ilog2());
            tally.hot += field(HOT.ilog2());
            tally.updated += field(UPDATED);
        }
        tally
    }
}

/// Runs of adjacent blocks for which `wanted` holds, as I/O would be issued for them: calls `each` with
/// the length of each run.
pub(crate) fn runs(blocks: &[u8], wanted: impl Fn(u8) -> bool, mut each: impl FnMut(u32)) {
    let mut length = 0;
    for &block in blocks {
        if wanted(block) {
            length += 1;
        } else if length > 0 {
            each(length);
            length = 0;
        }
    }
    if length > 0 {
        each(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_each_flag_and_what_was_updated() {
        let blocks: Vec<u8> = (0..100_000_u32)
            .map(|number| u8::try_from(number.wrapping_mul(0x9e37_79b9) >> 27).unwrap())
            .collect();
        let of = |wanted: &dyn Fn(u8) -> bool| {
            blocks.iter().filter(|block| wanted(**block)).count() as u64
        };
        let expected = Tally {
            hits: of(&|block| block & HIT != 0),
            stored: of(&|block| block & STORED != 0),
            in_ram: of(&|block| block & RAM != 0),
            logged: of(&|block| block & DIRTY != 0),
            hot: of(&|block| block & HOT != 0),
            updated: of(&|block| block == HIT | STORED),
        };
        assert_eq!(Tally::of(&blocks), expected);
        assert_eq!(Tally::of(&vec![31; TALLY_BLOCKS * 2 + 1]).hits, 2047);
    }

    #[test]
    fn adjacent_blocks_are_one_run() {
        let lengths = |blocks: &[u8]| {
            let mut lengths = Vec::new();
            runs(
                blocks,
                |block| block & HIT == 0,
                |length| lengths.push(length),
            );
            lengths
        };
        assert_eq!(lengths(&[0, 0, 1, 2, 3, 0]), [2, 1, 1]);
        assert_eq!(lengths(&[1, 1]), [0; 0]);
        assert_eq!(lengths(&[]), [0; 0]);
    }
}
