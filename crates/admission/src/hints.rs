//! What a guest says of ranges of its disk: what not to keep, and what will be wanted again.
//!
//! ```text
//!   said:   [ 0 .. 100 keep out ]          then   [ 40 .. 60 wanted ]
//!   known:  [ 0 .. 40 keep out ][ 40 .. 60 wanted ][ 60 .. 100 keep out ]
//! ```
//!
//! A guest may lie. So a hint is asked about for blocks of the guest's own disk alone, and says no more than what the guest
//! could bring about by what it reads: to keep its blocks out, or to count one earlier access.
//!
//! Invariants: the ranges are not empty, do not overlap, and two that touch say different things; there are no more than the
//! caller allows.

use std::collections::BTreeMap;
use units::{BlockIndex, Bytes};

/// What a guest says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It is not worth keeping: swap, a journal, a temporary file, what is read once.
    KeepOut,
    /// It will be wanted again: as if it had been accessed once before.
    Wanted,
}

/// What a guest has said of a disk.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// By first block: the block behind the last, and what is said.
    ranges: BTreeMap<BlockIndex, (BlockIndex, Hint)>,
    /// Blocks of each hint: to be kept out, and wanted.
    blocks: [u64; 2],
}

impl Hints {
    /// Memory of a range, as the map's nodes are filled on average.
    const RANGE_BYTES: u64 = 40;

    /// The guest says this of the blocks from `first` to before `end`; what was said of them before no longer counts. False
    /// if there might be more than `most` ranges then: nothing is changed.
    pub fn say(&mut self, first: BlockIndex, end: BlockIndex, hint: Hint, most: usize) -> bool {
        if first >= end {
            return true;
        }
        // It may cut a range in two, and stand between them.
        if self.ranges.len() + 2 > most {
            return false;
        }
        self.cut_out(first, end);
        let (mut first, mut end) = (first, end);
        if let Some((&before, &(touches, said))) = self.ranges.range(..first).next_back()
            && (touches, said) == (first, hint)
        {
            first = before;
        }
        if let Some(&(behind, said)) = self.ranges.get(&end)
            && said == hint
        {
            self.remove(end);
            end = behind;
        }
        self.remove(first);
        self.insert(first, end, hint);
        true
    }

    fn insert(&mut self, first: BlockIndex, end: BlockIndex, hint: Hint) {
        self.blocks[hint as usize] += end.get() - first.get();
        self.ranges.insert(first, (end, hint));
    }

    fn remove(&mut self, first: BlockIndex) {
        if let Some((end, hint)) = self.ranges.remove(&first) {
            self.blocks[hint as usize] -= end.get() - first.get();
        }
    }

    /// Nothing is said of these blocks any more.
    fn cut_out(&mut self, first: BlockIndex, end: BlockIndex) {
        if let Some((&before, &(last, said))) = self.ranges.range(..first).next_back()
            && last > first
        {
            self.remove(before);
            self.insert(before, first, said);
            if last > end {
                self.insert(end, last, said);
            }
        }
        while let Some((&inside, &(last, said))) = self.ranges.range(first..end).next() {
            self.remove(inside);
            if last > end {
                self.insert(end, last, said);
            }
        }
    }

    /// What the guest says of a block.
    pub fn of(&self, block: BlockIndex) -> Option<Hint> {
        let (_, &(end, hint)) = self.ranges.range(..=block).next_back()?;
        (block < end).then_some(hint)
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Blocks of which this is said.
    pub fn blocks(&self, hint: Hint) -> u64 {
        self.blocks[hint as usize]
    }

    /// Main memory that it takes, about.
    pub fn memory(&self) -> Bytes {
        Bytes::new(self.ranges.len() as u64 * Self::RANGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
        proptest::collection::vec((0..60_u64, 0..30_u64, any::<bool>()), 0..40)
    }

    fn hint(out: bool) -> Hint {
        if out { Hint::KeepOut } else { Hint::Wanted }
    }

    proptest! {
        /// Each block has what was said of it last, as a table of blocks has it.
        #[test]
        fn the_last_word_of_a_block_counts(said in said(), most in 2..20_usize) {
            let mut hints = Hints::default();
            let mut table = [None; 100];
            for (first, count, out) in said {
                let (first, end) = (BlockIndex::new(first), BlockIndex::new(first + count));
                if hints.say(first, end, hint(out), most) {
                    for block in first.get()..end.get() {
                        table[usize::try_from(block).unwrap()] = Some(hint(out));
                    }
                }
                prop_assert!(hints.len() <= most);
                for (block, expected) in (0..).zip(table) {
                    prop_assert_eq!(hints.of(BlockIndex::new(block)), expected);
                }
                let mut at = BlockIndex::new(0);
                let mut last = None;
                for (first, (end, said)) in &hints.ranges {
                    prop_assert!(*first >= at && end > first);
                    prop_assert!(*first > at || last != Some(*said), "two that touch say the same");
                    (at, last) = (*end, Some(*said));
                }
                let counted = table.iter().filter(|said| **said == Some(Hint::Wanted)).count();
                prop_assert_eq!(hints.blocks(Hint::Wanted), counted as u64);
            }
        }
    }

    #[test]
    fn no_more_ranges_are_known_than_are_allowed() {
        let mut hints = Hints::default();
        let mut taken = 0;
        for at in 0..100 {
            let (first, end) = (BlockIndex::new(2 * at), BlockIndex::new(2 * at + 1));
            taken += usize::from(hints.say(first, end, Hint::KeepOut, 10));
        }
        assert_eq!((taken, hints.len()), (9, 9));
        assert_eq!(hints.memory(), Bytes::new(360));
    }
}
