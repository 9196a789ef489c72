//! An index for blocks that are numbered from zero: an array.
//!
//! A word for each number up to the largest: the slot and, in the lowest four bits, the mark; zero
//! for a block that is not cached. Numbers are unique over all disks, so the index does
//! not look at whose a block is.

use crate::heat::MARKS;
use crate::index::{Full, Index, Marked};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// Bits of a mark.
const MARK_BITS: u32 = MARKS.ilog2();

/// An index that is an array of words, 4 bytes for each block number in use.
#[derive(Clone, Debug, Default)]
pub struct Dense {
    words: Vec<u32>,
    len: usize,
}

impl Dense {
    /// Slots that fit beside the mark: 1 TiB of blocks.
    pub const SLOTS_MAX: u32 = 1 << (u32::BITS - MARK_BITS);

    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for so many numbers, an eighth more at a time: what is reserved in vain counts too.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, length: usize) {
        let target = length.max(self.words.len() + self.words.len() / 8);
        self.words.reserve_exact(target - self.words.len());
        self.words.resize(target, 0);
    }

    #[inline]
    fn word(&self, block: BlockIndex) -> u32 {
        let at = usize::try_from(block.get()).ok();
        at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    #[inline]
    fn word_mut(&mut self, block: BlockIndex) -> &mut u32 {
        let at = usize::try_from(block.get()).expect("a dense block number fits in memory");
        if at >= self.words.len() {
            self.grow(at + 1);
        }
        &mut self.words[at]
    }
}

#[inline]
fn marked_of(word: u32) -> Option<Marked> {
    let slot = FlashSlot::checked_new(word >> MARK_BITS)?;
    let mark = u8::try_from(word & u32::from(MARKS - 1)).expect("a mark has four bits");
    Some(Marked { slot, mark })
}

/// # Panics
/// If the slot does not fit beside the mark.
#[inline]
fn word_of(marked: Marked) -> u32 {
    assert!(
        marked.slot.get() < Dense::SLOTS_MAX,
        "a dense index is for 2^28 slots"
    );
    marked.slot.get() << MARK_BITS | u32::from(marked.mark)
}

impl Index for Dense {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn find(&self, _disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        marked_of(self.word(block))
    }

    #[inline]
    fn change(
        &mut self,
        _disk: DiskSlot,
        block: BlockIndex,
        change: impl FnOnce(Marked) -> Marked,
    ) -> Option<Marked> {
        let at = usize::try_from(block.get()).ok()?;
        let word = self.words.get_mut(at)?;
        let before = marked_of(*word)?;
        *word = word_of(change(before));
        Some(before)
    }

    #[inline]
    fn insert(
        &mut self,
        _disk: DiskSlot,
        block: BlockIndex,
        marked: Marked,
    ) -> Result<Option<Marked>, Full> {
        let word = self.word_mut(block);
        let previous = marked_of(std::mem::replace(word, word_of(marked)));
        self.len += usize::from(previous.is_none());
        Ok(previous)
    }

    #[inline]
    fn insert_run(
        &mut self,
        _disk: DiskSlot,
        blocks: impl Iterator<Item = BlockIndex>,
        first: Marked,
    ) -> u32 {
        let mut next = word_of(first);
        let mut count = 0;
        for block in blocks {
            let word = self.word_mut(block);
            if *word != 0 {
                break;
            }
            *word = next;
            next = next.wrapping_add(1 << MARK_BITS);
            count += 1;
        }
        let behind = first.slot.get().checked_add(count);
        assert!(
            behind.is_some_and(|behind| behind <= Self::SLOTS_MAX),
            "a dense index is for 2^28 slots"
        );
        self.len += count as usize;
        count
    }

    #[inline]
    fn remove(&mut self, _disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        let word = self.word_mut(block);
        let marked = marked_of(std::mem::take(word))?;
        self.len -= 1;
        Some(marked)
    }

    #[inline]
    fn remove_if(&mut self, _disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> Option<Marked> {
        let at = usize::try_from(block.get()).ok()?;
        let word = self.words.get_mut(at)?;
        let marked = marked_of(*word).filter(|marked| marked.slot == slot)?;
        *word = 0;
        self.len -= 1;
        Some(marked)
    }

    fn retain(&mut self, mut keep: impl FnMut(BlockIndex, Marked) -> bool) {
        for (block, word) in (0..).map(BlockIndex::new).zip(&mut self.words) {
            if marked_of(*word).is_some_and(|marked| !keep(block, marked)) {
                *word = 0;
                self.len -= 1;
            }
        }
    }

    fn for_each(&self, see: impl FnMut(Marked)) {
        self.words
            .iter()
            .copied()
            .filter_map(marked_of)
            .for_each(see);
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DISK: DiskSlot = DiskSlot::new(0);

    proptest! {
        #[test]
        fn the_array_agrees_with_an_ordered_map(
            steps in prop::collection::vec((0..7_u8, 0..40_u64, 1..60_u32, 0..16_u8), 1..300)
        ) {
            let mut dense = Dense::new();
            let mut model: BTreeMap<u64, Marked> = BTreeMap::new();
            for (what, number, slot, mark) in steps {
                let (block, slot) = (BlockIndex::new(number), FlashSlot::new(slot));
                let new = Marked { slot, mark };
                let there = model.get(&number).copied();
                match what {
                    0 | 1 => {
                        prop_assert_eq!(dense.insert(DISK, block, new).unwrap(), there);
                        model.insert(number, new);
                    }
                    2 => {
                        prop_assert_eq!(dense.remove(DISK, block), there);
                        model.remove(&number);
                    }
                    3 => {
                        let lies = there.filter(|there| there.slot == slot);
                        prop_assert_eq!(dense.remove_if(DISK, block, slot), lies);
                        model.retain(|key, _| *key != number || lies.is_none());
                    }
                    4 => {
                        let run = (number..number + 5).map(BlockIndex::new);
                        let count = dense.insert_run(DISK, run, new);
                        let free = (number..number + 5).take_while(|key| !model.contains_key(key));
                        let free: Vec<u64> = free.collect();
                        prop_assert_eq!(count as usize, free.len());
                        for (at, key) in (0..).zip(free) {
                            let slot = slot.advance(at);
                            model.insert(key, Marked { slot, mark });
                        }
                    }
                    5 => {
                        let changed = dense.change(DISK, block, |was| {
                            assert_eq!(Some(was), there);
                            new
                        });
                        prop_assert_eq!(changed, there);
                        model.entry(number).and_modify(|there| *there = new);
                    }
                    _ => {
                        dense.retain(|block, at| {
                            assert_eq!(model.get(&block.get()), Some(&at));
                            at.slot != slot
                        });
                        model.retain(|_, there| there.slot != slot);
                    }
                }
                prop_assert_eq!(dense.len(), model.len());
                prop_assert_eq!(dense.find(DISK, block), model.get(&number).copied());
            }
            let mut seen = Vec::new();
            dense.for_each(|marked| seen.push(marked));
            prop_assert!(seen.into_iter().eq(model.into_values()));
        }
    }
}
