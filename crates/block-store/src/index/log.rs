//! The index as the log's.

use super::{Full, Index, Located, Marked, Sweep};
use units::{BlockIndex, DiskSlot, FlashSlot};

impl segment_log::Index for Index {
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn find(&self, disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        self.find(disk, block)
    }

    #[inline]
    fn get(&self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.get(disk, block)
    }

    #[inline]
    fn change(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        change: impl FnOnce(Marked) -> Marked,
    ) -> Option<Marked> {
        self.change(disk, block, change)
    }

    fn insert(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        marked: Marked,
    ) -> Result<Option<Marked>, Full> {
        self.insert(disk, block, marked)
    }

    fn insert_batch(
        &mut self,
        blocks: &[Located],
        each: impl FnMut(usize, Result<Option<Marked>, Full>),
    ) {
        self.insert_batch(blocks, each);
    }

    fn remove(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        self.remove(disk, block)
    }

    fn remove_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> Option<Marked> {
        self.remove_if(disk, block, slot)
    }

    fn retain(&mut self, mut keep: impl FnMut(BlockIndex, Marked) -> bool) {
        self.restart_sweep();
        let done = self.sweep_marked(usize::MAX, |located, marked| {
            if keep(located.block, marked) {
                Sweep::Keep
            } else {
                Sweep::Remove
            }
        });
        assert!(done, "a sweep of all buckets ends");
    }

    fn for_each(&self, see: impl FnMut(Marked)) {
        self.iter_marked().for_each(see);
    }
    fn bytes(&self) -> usize {
        self.bytes()
    }
}
