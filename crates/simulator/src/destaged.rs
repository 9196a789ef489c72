//! What is done with a dirty log on its way to its origin, as a cache tells it to counters and to the latency model.

use units::{DiskSlot, Instant};

/// What a destage has done, in the order in which it did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destaged {
    /// Blocks beside each other went to the origin in one write.
    Run(u32),
    /// The origin has these records durably, and needed none of their bytes: their blocks had been written again
    /// or erased.
    Coalesced(u32),
    /// All writes of a batch have ended before the next batch is written.
    BatchEnded,
    /// The origin has these records durably, and their room in the log is free.
    Settled {
        /// How many records with blocks.
        records: u32,
        /// The origin was flushed for it. If not, the only write was durable by itself.
        flushed: bool,
    },
}

/// What was done, with the log that it was done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The disk.
    pub disk: DiskSlot,
    /// When the log was due, by the clock of the trace.
    pub at: Instant,
    /// What was done.
    pub what: Destaged,
}

/// The dirty log of a disk, and how long it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRoom {
    /// The disk.
    pub(crate) disk: DiskSlot,
    /// Records of a block each, those written again since included.
    pub(crate) records: u64,
}
