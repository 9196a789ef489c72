//! Runs of blocks.

use units::BlockIndex;

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: BlockIndex,
    /// How many.
    pub count: u32,
}
