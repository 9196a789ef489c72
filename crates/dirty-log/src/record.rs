//! What a record of a dirty log says, and what a log says of a block.

use flash_format::{Erasure, Position};
use units::{BlockIndex, FlashSlot};

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block was written; here are its bytes.
    Data {
        /// Which.
        block: BlockIndex,
        /// Where.
        slot: FlashSlot,
    },
    /// Blocks were erased.
    Erasure(Erasure),
}

/// A record and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Behind all records before it.
    pub at: Position,
    /// What it says.
    pub what: What,
}

/// What the log says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the origin has it, or has it not changed.
    Clean,
    /// Its bytes are in this slot, and nowhere else.
    Dirty(FlashSlot),
    /// It reads as zeroes, and so does every block before this one.
    Erased(BlockIndex),
}
