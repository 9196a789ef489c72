//! What a store asks of its caller, and what each operation of the flash is for.

use crate::retained::RetainedUpdate;
use block_io::FlashOp;
use flash_format::SegmentIndex;
use units::{BlockIndex, DiskSlot, Offset};

/// What the store asks of its caller.
#[derive(Debug)]
pub enum Effect {
    /// Carry this out on the flash device, and hand its completion to [`crate::Ports::completed`].
    Flash(FlashOp),
    /// Tell this to retained memory, at once.
    Retain(RetainedUpdate),
    /// Say what on flash is not what was written there.
    Damaged(Damage),
}

/// Something on flash is not what was written there, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Whose it is.
    pub disk: DiskSlot,
    /// Which block it is; none: a segment's list of blocks, or a block whose number is not known.
    pub block: Option<BlockIndex>,
    /// Where on the flash it was read, in bytes.
    pub at: Offset,
    /// Whether the origin lacks the block: nobody has what was written.
    pub is_dirty: bool,
}

/// What an operation of the flash is for.
#[derive(Debug)]
pub enum Purpose<T> {
    /// The store's own: its completion goes to [`crate::Store::completed`].
    Store(Own),
    /// A read that the caller asked for, with what it remembers of it.
    Caller(T),
}

/// What the store wants an operation for.
#[derive(Debug)]
pub struct Own(pub(crate) Errand);

impl Own {
    /// Whether guests wait for it; else a detach, a stop or a reclaim may.
    pub fn is_awaited_by_guests(&self) -> bool {
        match self.0 {
            Errand::Journal
            | Errand::CheckpointPages
            | Errand::Superblock
            | Errand::LogChunk(_)
            | Errand::LogFlush(_) => true,
            Errand::Chunk(_)
            | Errand::Footer(_)
            | Errand::FlashFlush
            | Errand::ReclaimFooter
            | Errand::ReclaimRun { .. } => false,
        }
    }
}

/// What the completion of an operation means to the store.
#[derive(Debug)]
pub enum Errand {
    /// A chunk of blocks on its way to flash.
    Chunk(usize),
    /// The same of a dirty log.
    LogChunk(usize),
    /// The footer of a segment that closes.
    Footer(SegmentIndex),
    /// A flush that nobody waits for.
    FlashFlush,
    /// A flush that a dirty log waits for.
    LogFlush(DiskSlot),
    /// A batch of the journal.
    Journal,
    /// Pages of the running checkpoint.
    CheckpointPages,
    /// The superblock that completes it.
    Superblock,
    /// The footer of the segment being reclaimed.
    ReclaimFooter,
    /// Survivors of it: descriptors `first..first + count` of those to be kept.
    ReclaimRun { first: usize, count: usize },
}
