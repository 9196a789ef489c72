//! An index for blocks that are numbered from zero: an array.
//!
//! A word for each number up to the largest: the slot and, in the lowest bit, the referenced
//! mark; zero for a block that is not cached. Numbers are unique over all disks, so the index does
//! not look at whose a block is.

use crate::index::{Full, Index};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// Slots that fit beside the mark: 8 TiB of blocks.
const SLOTS_MAX: u32 = 1 << 31;

/// An index that is an array of words, 4 bytes for each block number in use.
#[derive(Clone, Debug, Default)]
pub struct Dense {
    words: Vec<u32>,
    len: usize,
}

impl Dense {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u32>()
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
const fn slot_of(word: u32) -> Option<FlashSlot> {
    FlashSlot::checked_new(word >> 1)
}

/// # Panics
/// If the slot does not fit beside the mark.
#[inline]
const fn word_of(slot: FlashSlot) -> u32 {
    assert!(slot.get() < SLOTS_MAX, "a dense index is for 2^31 slots");
    slot.get() << 1
}

impl Index for Dense {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, _disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        slot_of(self.word(block))
    }

    #[inline]
    fn get_and_touch(&mut self, _disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        let at = usize::try_from(block.get()).ok()?;
        let word = self.words.get_mut(at)?;
        let slot = slot_of(*word)?;
        *word |= 1;
        Some(slot)
    }

    #[inline]
    fn take_referenced(&mut self, _disk: DiskSlot, block: BlockIndex) -> bool {
        let word = self.word_mut(block);
        let referenced = *word & 1 == 1;
        *word &= !1;
        referenced
    }

    #[inline]
    fn insert(
        &mut self,
        _disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) -> Result<Option<FlashSlot>, Full> {
        let word = self.word_mut(block);
        let previous = slot_of(*word);
        *word = word_of(slot) | (*word & 1);
        self.len += usize::from(previous.is_none());
        Ok(previous)
    }

    #[inline]
    fn remove(&mut self, _disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        let word = self.word_mut(block);
        let slot = slot_of(std::mem::take(word))?;
        self.len -= 1;
        Some(slot)
    }

    #[inline]
    fn remove_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> bool {
        self.get(disk, block) == Some(slot) && self.remove(disk, block).is_some()
    }

    #[inline]
    fn relocate(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        from: FlashSlot,
        to: FlashSlot,
    ) -> bool {
        let lies = self.get(disk, block) == Some(from);
        if lies {
            let word = self.word_mut(block);
            *word = word_of(to) | (*word & 1);
        }
        lies
    }

    fn retain(&mut self, mut keep: impl FnMut(FlashSlot) -> bool) {
        for word in &mut self.words {
            if slot_of(*word).is_some_and(|slot| !keep(slot)) {
                *word = 0;
                self.len -= 1;
            }
        }
    }

    fn for_each(&self, see: impl FnMut(FlashSlot)) {
        self.words.iter().copied().filter_map(slot_of).for_each(see);
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
            steps in prop::collection::vec((0..8_u8, 0..40_u64, 1..60_u32), 1..300)
        ) {
            let mut dense = Dense::new();
            let mut model: BTreeMap<u64, (FlashSlot, bool)> = BTreeMap::new();
            for (what, number, slot) in steps {
                let (block, slot) = (BlockIndex::new(number), FlashSlot::new(slot));
                let there = model.get(&number).copied();
                match what {
                    0 | 1 => {
                        let before = dense.insert(DISK, block, slot).unwrap();
                        prop_assert_eq!(before, there.map(|there| there.0));
                        model.insert(number, (slot, there.is_some_and(|there| there.1)));
                    }
                    2 => {
                        prop_assert_eq!(dense.remove(DISK, block), there.map(|there| there.0));
                        model.remove(&number);
                    }
                    3 => {
                        let lies = there.is_some_and(|there| there.0 == slot);
                        prop_assert_eq!(dense.remove_if(DISK, block, slot), lies);
                        model.retain(|key, _| *key != number || !lies);
                    }
                    4 => {
                        let touched = dense.get_and_touch(DISK, block);
                        prop_assert_eq!(touched, there.map(|there| there.0));
                        model.entry(number).and_modify(|there| there.1 = true);
                    }
                    5 => {
                        let marked = there.is_some_and(|there| there.1);
                        prop_assert_eq!(dense.take_referenced(DISK, block), marked);
                        model.entry(number).and_modify(|there| there.1 = false);
                    }
                    6 => {
                        let from = there.map_or(slot, |there| there.0);
                        let moved = dense.relocate(DISK, block, from, slot);
                        prop_assert_eq!(moved, there.is_some());
                        model.entry(number).and_modify(|there| there.0 = slot);
                    }
                    _ => {
                        dense.retain(|at| at != slot);
                        model.retain(|_, there| there.0 != slot);
                    }
                }
                prop_assert_eq!(dense.len(), model.len());
                prop_assert_eq!(dense.get(DISK, block), model.get(&number).map(|there| there.0));
            }
            let mut seen = Vec::new();
            dense.for_each(|slot| seen.push(slot));
            prop_assert!(seen.into_iter().eq(model.into_values().map(|there| there.0)));
        }
    }
}
