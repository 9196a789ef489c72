//! What happens at a moment of a run, beside the arrival of requests. Times are nanoseconds.

use units::DiskSlot;

/// Which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Flash,
    Origin,
}

/// What happens at a moment, beside the arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// An I/O is submitted.
    Submit {
        target: Target,
        writes: bool,
        bytes: u64,
        then: Then,
    },
    /// An I/O that something waits for has ended.
    Ended(Then),
}

/// What an I/O is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Then {
    Nothing,
    /// Its bytes are written there.
    WriteTo(Target),
    /// The block of a store that waits for evicted blocks is at the origin.
    Evicted(u64),
    /// A write of a disk's log to the origin has ended.
    Destaged(DiskSlot),
    /// A flush of the origin for a disk's log has ended.
    Flushed(DiskSlot),
    /// A guest's read of a disk's origin has ended that took so many ns.
    OriginRead(DiskSlot, u64),
    /// A log that has paused is looked at.
    Wake(DiskSlot),
}

/// An event and its moment. Ordered by time, then by when it was thought of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pending {
    pub(super) at: u64,
    pub(super) sequence: u64,
    pub(super) event: Event,
}
