//! What an operator can say about write-back, and see of it.

use block_io::IoError;
use block_store::LockReason;
use units::{Bytes, Duration, Instant};

pub use destage::{DestageOrder, WriteBack};

/// What becomes of a disk's bytes that the origin lacks, when it is detached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OfDirty {
    /// The detach is refused while there are any.
    #[default]
    Refuse,
    /// They are brought to the origin first.
    Flush,
    /// They stay on flash, and the owner's record open, for the next attach.
    Keep,
    /// They are lost.
    Drop,
}

/// Who is to have soon what a guest has written, since the disk is about to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follower {
    /// The origin.
    Origin,
    /// The cache of the host that is about to get the disk, which asks for records of the dirty log.
    Host,
}

/// What the transfer to the origin does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DestageState {
    /// Nothing, or it waits for more.
    #[default]
    Idle,
    /// Bytes are on their way.
    Running,
    /// It has used up its rate for now.
    PausedByRate,
    /// It waits because guests' reads of the origin became slow.
    PausedByLatency,
    /// The origin refused; it is tried again.
    Failing {
        /// When it was first refused.
        since: Instant,
        /// With what.
        error: IoError,
    },
    /// At full speed, since everything has to reach the origin.
    Draining,
    /// It has stopped until the operator decides.
    Locked(LockReason),
}

/// A disk under write-back at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyStatus {
    /// Length of its dirty log, what was written again since included.
    pub logged: Bytes,
    /// Bytes that the origin lacks.
    pub distinct: Bytes,
    /// How long the oldest of them have waited.
    pub oldest: Option<Duration>,
    /// Intervals between flushes that the origin lacks, or lacks a part of.
    pub intervals: u64,
    /// What the transfer to the origin does.
    pub state: DestageState,
    /// Bytes that have reached the origin since the disk was attached.
    pub destaged: Bytes,
    /// Writes that waited for room since the disk was attached.
    pub stalls: u64,
    /// The period in which it is attached, as in the owner's record; zero if it never had one.
    pub epoch: u64,
    /// The flash is late and its guest does not wait for it: all of its log goes to the origin, and then its
    /// writes do, until the flash is in time.
    pub is_bypassed: bool,
}
