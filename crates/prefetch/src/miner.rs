//! The miners: each looks at the reads of one disk and says what will be read next.
//!
//! ```text
//!   sequential, readahead   what follows on the disk
//!   delta                   what lies as far as the guest usually jumps
//!   vip                     what followed last time
//!   mithril                 what was read at about the same times
//! ```
//!
//! A miner knows block numbers only. It takes its memory when it is built; [`Miner::memory`] never changes.

pub mod delta;
pub mod mithril;
pub mod none;
pub mod readahead;
pub mod sequential;
pub mod vip;

mod registry;
mod settings;

pub use registry::Spec;

use crate::run::Run;
use policy::replacement::Fraction;
use units::{BlockIndex, Bytes};

/// Blocks of one guess at most: what one read of the origin brings.
pub const GUESS_BLOCKS_MAX: u64 = 256;

/// Guesses that a miner makes at a read at most.
pub const GUESSES_MAX: usize = 16;

/// Blocks that the guest is thought to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The blocks, [`GUESS_BLOCKS_MAX`] at most.
    pub run: Run,
    /// How sure the miner is, by its own measure. [`crate::Price`] tells the sure guesses of a miner from its
    /// bold ones by it, and measures what each of the two is worth.
    pub confidence: Fraction,
}

/// One that guesses.
pub trait Miner: Send {
    /// A guest's read of the disk, in order of arrival; `hit` if all of it was in memory. Guesses are appended
    /// to `out`, the most useful first, [`GUESSES_MAX`] at most.
    fn read(&mut self, run: Run, hit: bool, out: &mut Vec<Guess>);

    /// From this block on the guess that begins there was not taken: nobody fetches it.
    fn refused(&mut self, _from: BlockIndex) {}

    /// Blocks were written or discarded: what was fetched of them is gone.
    fn changed(&mut self, _run: Run) {}

    /// What it takes: the same from the day it was built.
    fn memory(&self) -> Bytes;
}

/// What a miner works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Blocks of the disk.
    pub disk_blocks: u64,
    /// Blocks of the memory into which is fetched.
    pub memory_blocks: u64,
}

impl Setup {
    /// Blocks from `first` on that the disk has, [`GUESS_BLOCKS_MAX`] at most; `None` if it has none there.
    pub(crate) fn on_disk(self, first: u64, blocks: u64) -> Option<Run> {
        let left = self.disk_blocks.checked_sub(first)?;
        Run::new(first, blocks.min(left).min(GUESS_BLOCKS_MAX))
    }
}

/// `numerator / denominator`, one at most; zero for a part of nothing.
pub(crate) fn part(numerator: u64, denominator: u64) -> Fraction {
    let millionths = (numerator * 1_000_000)
        .checked_div(denominator)
        .unwrap_or(0);
    let millionths = u32::try_from(millionths.min(1_000_000)).expect("a million fits in 32 bits");
    Fraction::millionths(millionths)
}

/// Both of two that happen one after the other.
pub(crate) fn both(one: Fraction, other: Fraction) -> Fraction {
    let product = u64::from(one.get_millionths()) * u64::from(other.get_millionths());
    part(product, 1_000_000_000_000)
}
