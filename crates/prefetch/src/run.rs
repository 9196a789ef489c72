//! Consecutive blocks of a disk.

use std::num::NonZeroU32;
use units::BlockIndex;

/// Consecutive blocks of one disk: one at least, none beyond what a [`BlockIndex`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    first: BlockIndex,
    blocks: NonZeroU32,
}

impl Run {
    /// So many blocks from this one on; `None` if there are none, or if they end beyond the last block.
    pub fn new(first: u64, blocks: u64) -> Option<Self> {
        let blocks = NonZeroU32::new(u32::try_from(blocks).ok()?)?;
        let end = first.checked_add(u64::from(blocks.get()))?;
        (end <= 1 << BlockIndex::BITS).then(|| Self {
            first: BlockIndex::new(first),
            blocks,
        })
    }

    /// The first block.
    pub const fn first(self) -> BlockIndex {
        self.first
    }

    /// How many.
    pub const fn blocks(self) -> u32 {
        self.blocks.get()
    }

    /// The number of the first block that is not in it any more.
    pub const fn end(self) -> u64 {
        self.first.get() + self.blocks.get() as u64
    }

    /// Its blocks in order.
    pub fn iter(self) -> impl Iterator<Item = BlockIndex> {
        (self.first.get()..self.end()).map(BlockIndex::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_blocks_and_ends_on_a_disk() {
        let run = Run::new(5, 3).unwrap();
        let blocks: Vec<_> = run.iter().map(BlockIndex::get).collect();
        assert_eq!(blocks, [5, 6, 7]);
        assert_eq!((run.end(), run.blocks()), (8, 3));
        let last = (1 << BlockIndex::BITS) - 1;
        assert!(Run::new(last, 1).is_some());
        for (first, blocks) in [(0, 0), (last, 2), (u64::MAX, 1), (0, 1 << 32)] {
            assert_eq!(Run::new(first, blocks), None, "{first} {blocks}");
        }
    }
}
