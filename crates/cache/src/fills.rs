//! Misses on their way from the origin, shared by everybody who wants the same blocks.
//!
//! A fill is *killed* when one of its blocks is written while it is on its way: what it brings
//! may be older than the write. Those who wait for it still get it, since they asked before the
//! write was answered; but it is not admitted, and nobody joins it any more.

use crate::reads::ReadId;
use slab::Slab;
use units::{BlockIndex, DiskSlot};

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
}

impl Fill {
    fn contains(&self, block: BlockIndex) -> bool {
        block >= self.first && block.get() < self.first.get() + self.count
    }

    fn overlaps(&self, first: BlockIndex, count: u64) -> bool {
        self.first.get() < first.get() + count && first.get() < self.first.get() + self.count
    }
}

/// All fills of a cache, and which belong to which disk.
#[derive(Default)]
pub(crate) struct Fills {
    fills: Slab<Fill>,
    by_disk: Vec<Vec<FillId>>,
}

impl Fills {
    pub(crate) fn insert(&mut self, fill: Fill) -> FillId {
        let disk = fill.disk.index();
        let id = self.fills.insert(fill);
        if self.by_disk.len() <= disk {
            self.by_disk.resize_with(disk + 1, Vec::new);
        }
        self.by_disk[disk].push(id);
        id
    }

    pub(crate) fn remove(&mut self, id: FillId) -> Fill {
        let fill = self.fills.remove(id);
        self.by_disk[fill.disk.index()].retain(|other| *other != id);
        fill
    }

    pub(crate) fn disk(&self, id: FillId) -> DiskSlot {
        self.fills[id].disk
    }

    pub(crate) fn join(&mut self, id: FillId, waiter: Waiter) {
        self.fills[id].waiters.push(waiter);
    }

    fn of_disk(&self, disk: DiskSlot) -> &[FillId] {
        self.by_disk.get(disk.index()).map_or(&[], Vec::as_slice)
    }

    /// The fill that one may join for this block, with its first block and count.
    pub(crate) fn covering(
        &self,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Option<(FillId, BlockIndex, u64)> {
        let joinable = |id: &&FillId| !self.fills[**id].killed && self.fills[**id].contains(block);
        let id = *self.of_disk(disk).iter().find(joinable)?;
        Some((id, self.fills[id].first, self.fills[id].count))
    }

    /// The first block after `block` and before `end` that a joinable fill brings.
    pub(crate) fn next_covered(
        &self,
        disk: DiskSlot,
        block: BlockIndex,
        end: BlockIndex,
    ) -> Option<BlockIndex> {
        let starts = self
            .of_disk(disk)
            .iter()
            .map(|id| &self.fills[*id])
            .filter(|fill| !fill.killed);
        starts
            .map(|fill| fill.first)
            .filter(|first| *first > block && *first < end)
            .min()
    }

    /// Kills every fill that overlaps these blocks. Returns how many.
    pub(crate) fn kill(&mut self, disk: DiskSlot, first: BlockIndex, count: u64) -> u64 {
        let mut killed = 0;
        for id in self
            .by_disk
            .get(disk.index())
            .map_or(&[][..], Vec::as_slice)
        {
            let fill = &mut self.fills[*id];
            if !fill.killed && fill.overlaps(first, count) {
                fill.killed = true;
                killed += 1;
            }
        }
        killed
    }
}
