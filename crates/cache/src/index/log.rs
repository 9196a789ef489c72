//! The index as the log's.

use super::{Full, Index, Located, Sweep};
use units::{BlockIndex, DiskSlot, FlashSlot};

impl segment_log::Index for Index {
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.get(disk, block)
    }

    #[inline]
    fn get_and_touch(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.get_and_touch(disk, block)
    }

    fn take_referenced(&mut self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.take_referenced(disk, block)
    }

    fn insert(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) -> Result<Option<FlashSlot>, Full> {
        self.insert(disk, block, slot)
    }

    fn insert_batch(
        &mut self,
        blocks: &[Located],
        each: impl FnMut(usize, Result<Option<FlashSlot>, Full>),
    ) {
        self.insert_batch(blocks, each);
    }

    fn remove(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.remove(disk, block)
    }

    fn remove_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> bool {
        self.remove_if(disk, block, slot)
    }

    fn relocate(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        from: FlashSlot,
        to: FlashSlot,
    ) -> bool {
        self.relocate(disk, block, from, to)
    }

    fn retain(&mut self, mut keep: impl FnMut(FlashSlot) -> bool) {
        self.restart_sweep();
        let done = self.sweep(usize::MAX, |entry| {
            if keep(entry.slot) {
                Sweep::Keep
            } else {
                Sweep::Remove
            }
        });
        assert!(done, "a sweep of all buckets ends");
    }

    fn for_each(&self, mut see: impl FnMut(FlashSlot)) {
        self.iter().for_each(|entry| see(entry.slot));
    }
}
