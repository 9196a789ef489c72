//! What an operator can say about write-back: in which order bytes reach the origin, and when.

use dirty_log::{DirtyLog, RecordNumber};
use units::{BLOCK_BYTES, Bytes, Duration, Instant};

/// What part of a flash all dirty logs together may take: one in so many. The rest is for clean blocks and
/// for what reclaim needs.
const DIRTY_PART: u64 = 2;
/// Into how many shares what is left of that is divided for disks without a length of their own, at least: a
/// second disk finds room, and the first one need not give anything back.
const AUTO_SHARES: u64 = 4;

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

/// How the writes of a disk under write-back reach its origin.
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

impl WriteBack {
    /// The least that a disk's dirty log may be: some segments, since it fills them one by one.
    pub const DIRTY_LEAST: Bytes = Bytes::mib(16);

    /// How much of a flash of this size all dirty logs together may take.
    pub fn room_on(flash: Bytes) -> Bytes {
        Bytes::new(flash.get() / DIRTY_PART)
    }

    /// The longest that the dirty log of a disk may be if so many disks, this one among them, share what is
    /// left of the room for dirty logs.
    pub fn share_of(left: Bytes, disks: u64) -> Bytes {
        let share = left.get() / disks.max(AUTO_SHARES);
        let whole = Bytes::mib(share / Bytes::mib(1).get());
        whole.clamp(Self::DIRTY_LEAST, Self::default().dirty_max)
    }

    /// Whether a log of this length may have one more record.
    pub fn has_room(&self, logged: Bytes) -> bool {
        logged.get() + BLOCK_BYTES <= self.dirty_max.get().max(BLOCK_BYTES)
    }

    /// Whether a log goes to its origin although nobody asks for that: it is long, its oldest record has
    /// waited for long, or its guest has asked for nothing since `asked_at`.
    fn is_due(&self, log: &DirtyLog, asked_at: Instant, now: Instant) -> bool {
        let is_long = log.logged().get() > self.dirty_max.get() / 2;
        let is_old = log.oldest().is_some_and(|at| now.since(at) >= self.age_max);
        is_long || is_old || now.since(asked_at) >= self.idle_after
    }

    /// The number before which everything should go to the origin now although nobody asks for that. `is_short`: what
    /// reclaim could free of the flash is all dirty.
    pub fn wanted(
        &self,
        log: &DirtyLog,
        is_short: bool,
        asked_at: Instant,
        now: Instant,
    ) -> RecordNumber {
        if is_short || self.is_due(log, asked_at, now) {
            log.end()
        } else {
            RecordNumber::FIRST
        }
    }

    /// When a log with such an oldest record is old, and when its guest, which asked for something at
    /// `asked_at`, is idle.
    pub fn dues(&self, oldest: Instant, asked_at: Instant) -> [Instant; 2] {
        [oldest + self.age_max, asked_at + self.idle_after]
    }
}
