//! What an operator can say about write-back, and see of it.

use block_io::IoError;
use block_store::LockReason;
use units::{Bytes, Duration, Instant};

/// In which order bytes reach the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DestageOrder {
    /// What came before a flush of the guest is durable at the origin before anything that came
    /// after it: the origin is at all times a disk that the guest could have left behind.
    #[default]
    Ordered,
    /// Largest runs first. The origin alone is no disk until everything is there.
    Unordered,
}

/// How writes reach the origin under [`crate::WritePolicy::Back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// In which order.
    pub order: DestageOrder,
    /// The longest that the dirty log may be, blocks that were written again since included. Writes
    /// wait while it is; above half of it bytes go to the origin at once.
    pub dirty_max: Bytes,
    /// The longest that bytes may wait for the origin.
    pub age_max: Duration,
    /// Bytes go to the origin when no guest has asked for anything for so long.
    pub idle_after: Duration,
    /// At most so many bytes a second go to the origin.
    pub rate: Option<Bytes>,
    /// The longest that a write may wait for room before it is an error.
    pub stall_max: Duration,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self {
            order: DestageOrder::Ordered,
            dirty_max: Bytes::gib(1),
            age_max: Duration::from_secs(30),
            idle_after: Duration::from_secs(2),
            rate: None,
            stall_max: Duration::from_secs(60),
        }
    }
}

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
