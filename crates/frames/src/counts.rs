//! What became of prefetched blocks.

/// What became of prefetched blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounts {
    /// Read before they left.
    pub used: u64,
    /// Left unread: for another block, or because they changed.
    pub wasted: u64,
}
