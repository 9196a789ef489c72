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

/// Where a block lies, and the mark that the log has put on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Where it lies.
    pub slot: FlashSlot,
    /// The mark: below [`MARKS`](crate::MARKS). What it means is the log's business.
    pub mark: u8,
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

/// An exact index of cached blocks with a mark of four bits for each.
///
/// The log keeps its counts beside it, so nobody else changes an index that a log has.
pub trait Index {
    /// Blocks in it.
    fn len(&self) -> usize;

    /// True if no block is in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a block lies, and its mark, if it is cached.
    fn find(&self, disk: DiskSlot, block: BlockIndex) -> Option<Marked>;

    /// Where a block lies, if it is cached.
    fn get(&self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.find(disk, block).map(|marked| marked.slot)
    }

    /// Says where a cached block lies and how it is marked, given what was said last, which is
    /// returned; `None` if the block is not cached. Never fails for lack of room.
    fn change(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        change: impl FnOnce(Marked) -> Marked,
    ) -> Option<Marked>;

    /// Says where a block lies and how it is marked. Returns what was said before, if it was
    /// cached.
    ///
    /// # Errors
    /// [`Full`] if the block is new and no place was found for it; nothing is changed.
    fn insert(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        marked: Marked,
    ) -> Result<Option<Marked>, Full>;

    /// [`Index::insert`] for many blocks, with mark 0, those of the same name in their order; `each` gets
    /// each one's position in `blocks` and its result.
    fn insert_batch(
        &mut self,
        blocks: &[Located],
        mut each: impl FnMut(usize, Result<Option<Marked>, Full>),
    ) {
        for (i, located) in blocks.iter().enumerate() {
            let marked = Marked {
                slot: located.slot,
                mark: 0,
            };
            each(i, self.insert(located.disk, located.block, marked));
        }
    }

    /// Says that blocks lie one behind the other from a slot on, each with the mark of the first, up to the first
    /// block that is cached already or finds no place. Returns how many.
    fn insert_run(
        &mut self,
        disk: DiskSlot,
        blocks: impl Iterator<Item = BlockIndex>,
        first: Marked,
    ) -> u32 {
        let mut count = 0;
        for block in blocks {
            let marked = Marked {
                slot: first.slot.advance(count),
                mark: first.mark,
            };
            if self.find(disk, block).is_some() || self.insert(disk, block, marked).is_err() {
                break;
            }
            count += 1;
        }
        count
    }

    /// Forgets a block. Returns where it lay and its mark, if it was cached.
    fn remove(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<Marked>;

    /// Forgets a block if it lies in this slot. Returns its place and mark if it did.
    fn remove_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> Option<Marked>;

    /// Forgets every block for which `keep` is false.
    fn retain(&mut self, keep: impl FnMut(BlockIndex, Marked) -> bool);

    /// Every cached block.
    fn for_each(&self, see: impl FnMut(Marked));

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}
