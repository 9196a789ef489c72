//! Where each block lies: what the log asks of an index.

use units::{BlockIndex, DiskSlot, FlashSlot};

/// No place was found for a new block; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index has no place for this block")]
pub struct Full;

/// One cached block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Whose block.
    pub disk: DiskSlot,
    /// Which block.
    pub block: BlockIndex,
    /// Where it lies.
    pub slot: FlashSlot,
}

/// What became of a block that was to be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is in the index.
    New,
    /// It is, in place of a copy that lay here.
    Instead(FlashSlot),
    /// The index has no place for it.
    Full,
}

/// An exact index of cached blocks with a referenced mark for each.
///
/// The log keeps its counts beside it, so nobody else changes an index that a log has.
pub trait Index {
    /// Blocks in it.
    fn len(&self) -> usize;

    /// True if no block is in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a block lies, if it is cached.
    fn get(&self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot>;

    /// Where a block lies, if it is cached; marks it as referenced.
    fn get_and_touch(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot>;

    /// Whether a block was referenced since this was last asked; false if it is not cached.
    fn take_referenced(&mut self, disk: DiskSlot, block: BlockIndex) -> bool;

    /// Says where a block lies. Returns where it lay before, if it was cached; it then stays
    /// marked as referenced if it was. A new block is not marked.
    ///
    /// # Errors
    /// [`Full`] if the block is new and no place was found for it; nothing is changed.
    fn insert(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) -> Result<Option<FlashSlot>, Full>;

    /// [`Index::insert`] for many blocks in their order; `each` gets each one's position in
    /// `blocks` and its result.
    fn insert_batch(
        &mut self,
        blocks: &[Located],
        mut each: impl FnMut(usize, Result<Option<FlashSlot>, Full>),
    ) {
        for (i, located) in blocks.iter().enumerate() {
            each(i, self.insert(located.disk, located.block, located.slot));
        }
    }

    /// Forgets a block. Returns where it lay, if it was cached.
    fn remove(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot>;

    /// Forgets a block if it lies in this slot. True if it did.
    fn remove_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> bool;

    /// Moves a block to another slot if it lies in `from`. True if it did. Never fails for lack
    /// of room; the referenced mark stays.
    fn relocate(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        from: FlashSlot,
        to: FlashSlot,
    ) -> bool;

    /// Forgets every block for whose slot `keep` is false.
    fn retain(&mut self, keep: impl FnMut(FlashSlot) -> bool);

    /// The slot of every cached block.
    fn for_each(&self, see: impl FnMut(FlashSlot));
}
