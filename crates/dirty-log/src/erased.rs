//! Ranges of blocks that are erased and that the origin does not know of yet: they read as zeroes.
//!
//! Invariants: ranges do not touch the same block, and none is empty. Each has the number of the
//! record that erased it, so that it goes when that record does.

use crate::number::RecordNumber;
use std::collections::BTreeMap;
use units::BlockIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    end: u64,
    number: RecordNumber,
}

/// Erased ranges, by their first block.
#[derive(Clone, Debug, Default)]
pub struct Erased {
    ranges: BTreeMap<u64, Range>,
    blocks: u64,
}

impl Erased {
    /// Whether nothing is erased.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of memory: a node of the tree holds 5 to 11 ranges.
    pub fn bytes(&self) -> usize {
        const RANGE_BYTES_MAX: usize = 64;
        self.ranges.len() * RANGE_BYTES_MAX
    }

    /// Blocks in all ranges.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The block behind the last of the erased ones that begin with this one, if this one is
    /// erased. Ranges that follow each other may be told one by one.
    pub fn end_of(&self, block: BlockIndex) -> Option<BlockIndex> {
        let (_, range) = self.ranges.range(..=block.get()).next_back()?;
        (range.end > block.get()).then(|| BlockIndex::new(range.end))
    }

    /// Record `number` erases these blocks.
    pub fn insert(&mut self, first: BlockIndex, blocks: u64, number: RecordNumber) {
        self.carve(first, blocks);
        let end = first.get() + blocks;
        self.ranges.insert(first.get(), Range { end, number });
        self.blocks += blocks;
    }

    /// These blocks are written, or erased anew.
    pub fn carve(&mut self, first: BlockIndex, blocks: u64) {
        let (start, end) = (first.get(), first.get() + blocks);
        while let Some((at, range)) = self.ranges.range(..end).next_back()
            && range.end > start
        {
            let (at, range) = (*at, *range);
            self.ranges.remove(&at);
            self.blocks -= range.end - at;
            self.put_back(at, start, range.number);
            self.put_back(end, range.end, range.number);
        }
    }

    fn put_back(&mut self, start: u64, end: u64, number: RecordNumber) {
        if start < end {
            self.ranges.insert(start, Range { end, number });
            self.blocks += end - start;
        }
    }

    /// The origin has what record `number` erased, which lies within these blocks.
    pub fn settle(&mut self, first: BlockIndex, blocks: u64, number: RecordNumber) {
        let within = first.get()..first.get() + blocks;
        let its: Vec<u64> = self
            .ranges
            .range(within)
            .filter(|(_, range)| range.number == number)
            .map(|(at, _)| *at)
            .collect();
        for at in its {
            if let Some(range) = self.ranges.remove(&at) {
                self.blocks -= range.end - at;
            }
        }
    }

    /// Whether any of these blocks is erased.
    pub fn overlaps(&self, first: BlockIndex, blocks: u64) -> bool {
        let before = self.ranges.range(..first.get() + blocks).next_back();
        before.is_some_and(|(_, range)| range.end > first.get())
    }

    /// Every range: first block, count, and the record that erased it.
    pub fn numbered(&self) -> impl Iterator<Item = (BlockIndex, u64, RecordNumber)> {
        let ranges = self.ranges.iter();
        ranges.map(|(at, range)| (BlockIndex::new(*at), range.end - at, range.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: RecordNumber = RecordNumber::FIRST;

    fn block(number: u64) -> BlockIndex {
        BlockIndex::new(number)
    }

    #[test]
    fn a_written_block_splits_a_range() {
        let mut erased = Erased::default();
        erased.insert(block(10), 10, FIRST);
        erased.carve(block(14), 2);
        assert_eq!(erased.end_of(block(9)), None);
        assert_eq!(erased.end_of(block(10)), Some(block(14)));
        assert_eq!(erased.end_of(block(14)), None);
        assert_eq!(erased.end_of(block(16)), Some(block(20)));
        assert_eq!(erased.blocks(), 8);
    }

    #[test]
    fn what_was_erased_again_stays_when_the_first_record_goes() {
        let mut erased = Erased::default();
        erased.insert(block(0), 10, FIRST);
        erased.insert(block(5), 10, FIRST.next());
        erased.settle(block(0), 10, FIRST);
        assert_eq!(erased.end_of(block(4)), None);
        assert_eq!(erased.end_of(block(5)), Some(block(15)));
        assert!(!erased.overlaps(block(0), 5));
        assert!(erased.overlaps(block(0), 6));
        assert!(erased.overlaps(block(14), 9));
        assert!(!erased.overlaps(block(15), 9));
    }
}
