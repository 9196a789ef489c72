//! Prefetched blocks that nobody has read yet: first in, first out, and a count of what was worth it.

/// Prefetched blocks may have one frame in so many: a guess that is always wrong costs at most that part of what else is
/// kept in memory.
pub(crate) const AHEAD_PARTS: u32 = 4;

/// What became of prefetched blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounts {
    /// Read before they left.
    pub used: u64,
    /// Left unread: for another block, or because they changed.
    pub wasted: u64,
}

impl std::ops::AddAssign for AheadCounts {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.wasted += other.wasted;
    }
}
