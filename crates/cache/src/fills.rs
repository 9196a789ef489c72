//! Misses on their way from the origin, shared by everybody who wants the same blocks.
//!
//! A fill is *killed* when one of its blocks is written while it is on its way: what it brings
//! may be older than the write. Those who wait for it still get it, since they asked before the
//! write was answered; but it is not admitted, and nobody joins it any more.

use crate::foresight::Promise;
use crate::under_way::{ReadId, index};
use block_io::PAGE_BYTES;
use slab::Slab;
use std::collections::BTreeMap;
use units::{BLOCK_BYTES, BlockIndex, DiskSlot, Map};

pub(crate) type FillId = usize;

/// Who waits for part of a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) read: ReadId,
    pub(crate) part: usize,
    /// Within the fill's bytes.
    pub(crate) skip: usize,
    pub(crate) length: usize,
}

/// Blocks on their way from the origin.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) disk: DiskSlot,
    pub(crate) first: BlockIndex,
    pub(crate) count: u64,
    pub(crate) killed: bool,
    pub(crate) waiters: Vec<Waiter>,
    /// It was fetched for a guess, which this says.
    pub(crate) ahead: Option<Promise>,
}

impl Waiter {
    /// Whether it waits for the block of the fill with this number.
    pub(crate) fn has(&self, at: u64) -> bool {
        let start = index(at * BLOCK_BYTES);
        self.skip < start + PAGE_BYTES && start < self.skip + self.length
    }
}

impl Fill {
    /// For nobody yet.
    pub(crate) fn new(disk: DiskSlot, first: BlockIndex, count: u64) -> Self {
        Self {
            disk,
            first,
            count,
            killed: false,
            waiters: Vec::new(),
            ahead: None,
        }
    }

    fn contains(&self, block: BlockIndex) -> bool {
        block >= self.first && block.get() < self.first.get() + self.count
    }
}

/// All fills of a cache, and which belong to which disk.
///
/// Those of a disk that may be joined do not overlap: a fill begins where none is, and ends before the
/// next one. So they are found by their first block, in the logarithm of their number.
#[derive(Default)]
pub(crate) struct Fills {
    table: Slab<Fill>,
    /// By disk: those that may be joined, by their first block. Numbers, since the end of a range may
    /// lie behind the last block that there can be.
    joinable: Vec<BTreeMap<u64, FillId>>,
    /// By disk: how many somebody waits for.
    waited_for: Map<DiskSlot, u32>,
}

impl Fills {
    pub(crate) fn insert(&mut self, fill: Fill) -> FillId {
        let (disk, first, killed) = (fill.disk.index(), fill.first, fill.killed);
        let id = self.table.insert(fill);
        if killed {
            return id;
        }
        if self.joinable.len() <= disk {
            self.joinable.resize_with(disk + 1, BTreeMap::new);
        }
        let before = self.joinable[disk].insert(first.get(), id);
        assert!(before.is_none(), "a fill begins where none is");
        id
    }

    pub(crate) fn remove(&mut self, id: FillId) -> Fill {
        let fill = self.table.remove(id);
        if !fill.killed {
            self.joinable[fill.disk.index()].remove(&fill.first.get());
        }
        if !fill.waiters.is_empty()
            && let Some(count) = self.waited_for.get_mut(&fill.disk)
        {
            *count -= 1;
        }
        fill
    }

    pub(crate) fn disk(&self, id: FillId) -> DiskSlot {
        self.table[id].disk
    }

    pub(crate) fn join(&mut self, id: FillId, waiter: Waiter) {
        let fill = &mut self.table[id];
        if fill.waiters.is_empty() {
            *self.waited_for.entry(fill.disk).or_insert(0) += 1;
        }
        fill.waiters.push(waiter);
    }

    /// Whether somebody waits for blocks of a disk that are on their way.
    pub(crate) fn is_waited_for(&self, disk: DiskSlot) -> bool {
        self.waited_for.get(&disk).is_some_and(|count| *count > 0)
    }

    /// The joinable fill of a disk that begins last at or before this block.
    fn at_or_before(&self, disk: DiskSlot, block: BlockIndex) -> Option<FillId> {
        let joinable = self.joinable.get(disk.index())?;
        let before = joinable.range(..=block.get()).next_back();
        before.map(|(_, id)| *id)
    }

    /// The fill that one may join for this block, with its first block and count.
    pub(crate) fn covering(
        &self,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Option<(FillId, BlockIndex, u64)> {
        let id = self.at_or_before(disk, block)?;
        let fill = &self.table[id];
        fill.contains(block).then_some((id, fill.first, fill.count))
    }

    /// The first block after `block` and before `end` that a joinable fill brings.
    pub(crate) fn next_covered(
        &self,
        disk: DiskSlot,
        block: BlockIndex,
        end: BlockIndex,
    ) -> Option<BlockIndex> {
        let (after, end) = (block.get() + 1, end.get());
        if after >= end {
            return None;
        }
        let joinable = self.joinable.get(disk.index())?;
        let next = joinable.range(after..end).next();
        next.map(|(first, _)| BlockIndex::new(*first))
    }

    /// Kills every fill that overlaps these blocks. Returns how many.
    pub(crate) fn kill(&mut self, disk: DiskSlot, first: BlockIndex, count: u64) -> u64 {
        let (end, mut killed) = (first.get() + count, 0);
        let mut from = match self.at_or_before(disk, first) {
            Some(id) if self.table[id].contains(first) => self.table[id].first.get(),
            Some(_) | None => first.get(),
        };
        while from < end
            && let Some(joinable) = self.joinable.get_mut(disk.index())
            && let Some((&start, &id)) = joinable.range(from..end).next()
        {
            joinable.remove(&start);
            self.table[id].killed = true;
            killed += 1;
            from = start + 1;
        }
        killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskSlot = DiskSlot::new(3);

    fn at(block: u64) -> BlockIndex {
        BlockIndex::new(block)
    }

    fn fill(first: u64, count: u64) -> Fill {
        Fill::new(DISK, at(first), count)
    }

    #[test]
    fn fills_are_found_by_the_blocks_that_they_bring() {
        let mut fills = Fills::default();
        let low = fills.insert(fill(10, 5));
        let high = fills.insert(fill(20, 1));
        assert_eq!(fills.covering(DISK, at(9)), None);
        assert_eq!(fills.covering(DISK, at(10)), Some((low, at(10), 5)));
        assert_eq!(fills.covering(DISK, at(14)), Some((low, at(10), 5)));
        assert_eq!(fills.covering(DISK, at(15)), None);
        assert_eq!(fills.covering(DiskSlot::new(2), at(10)), None);
        assert_eq!(fills.next_covered(DISK, at(0), at(100)), Some(at(10)));
        assert_eq!(fills.next_covered(DISK, at(10), at(100)), Some(at(20)));
        assert_eq!(fills.next_covered(DISK, at(10), at(20)), None);
        assert_eq!(fills.next_covered(DISK, at(10), at(11)), None);
        fills.remove(high);
        assert_eq!(fills.covering(DISK, at(20)), None);
    }

    #[test]
    fn the_last_block_that_there_can_be_is_one_like_others() {
        let mut fills = Fills::default();
        let last = (1 << BlockIndex::BITS) - 1;
        let id = fills.insert(fill(last, 1));
        assert_eq!(fills.covering(DISK, at(last)), Some((id, at(last), 1)));
        assert_eq!(fills.next_covered(DISK, at(last), at(last)), None);
        assert_eq!(fills.kill(DISK, at(last), 1), 1);
    }

    #[test]
    fn a_write_kills_what_it_touches_and_nothing_else() {
        let mut fills = Fills::default();
        let all: Vec<FillId> = (0..4).map(|i| fills.insert(fill(i * 10, 5))).collect();
        assert_eq!(fills.kill(DISK, at(5), 5), 0);
        assert_eq!(fills.kill(DISK, at(14), 7), 2);
        assert_eq!(fills.kill(DISK, at(14), 7), 0, "once each");
        for (number, id) in all.iter().enumerate() {
            assert_eq!(fills.table[*id].killed, number == 1 || number == 2);
        }
        // A killed fill is joined no more, and another one may begin in its place.
        let anew = fills.insert(fill(11, 2));
        assert_eq!(fills.covering(DISK, at(12)), Some((anew, at(11), 2)));
        fills.remove(all[1]);
        assert_eq!(fills.covering(DISK, at(12)), Some((anew, at(11), 2)));
    }
}
