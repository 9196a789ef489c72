//! What a store says of itself: segments by what they are, how far its tables are durable.

/// Segments by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Nothing in it counts.
    pub free: u64,
    /// Blocks are being appended, or its last are on their way.
    pub open: u64,
    /// Full.
    pub closed: u64,
    /// Being reclaimed or dropped.
    pub reclaiming: u64,
}

/// How far the tables on flash are durable: two counters that only grow. Flash that is found with a
/// smaller one than it had is an older copy of itself, or has lost what it had said was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The sequence number of the latest superblock.
    pub superblock: u64,
    /// The first page of the journal that may not be durable.
    pub journal: u64,
}

impl Committed {
    /// Whether flash that has come to `found` was farther before.
    pub fn is_beyond(self, found: Self) -> bool {
        self.superblock > found.superblock || self.journal > found.journal
    }

    /// The farther of two, of each counter.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            superblock: self.superblock.max(other.superblock),
            journal: self.journal.max(other.journal),
        }
    }
}
