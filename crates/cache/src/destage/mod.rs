//! Bringing a dirty log to its origin.
//!
//! ```text
//!  log ─► batch of one interval ─► each block once, sorted ─► read from flash, verified
//!           (2048 records)                                        │
//!  settled ◄─ origin flushed ◄─ interval over, or enough ◄─ written, several at a time
//! ```
//!
//! *Ordered*: nothing of an interval is written before the origin has all of the one before it
//! durably. The next batch is read while one is written. An interval that is one write is written
//! with FUA instead of a flush. *Unordered*: whatever is newest, the longest runs first.
//!
//! What a refused write or flush of the origin leaves behind is not known, so everything since the
//! last flush that succeeded is written again, after a pause that grows.

pub(crate) mod batch;
mod choose;
mod load;
pub(crate) mod pace;
pub(crate) mod plan;
mod times;
mod turn;

pub(crate) use load::DestageRead;
pub(crate) use turn::DestageWrite;

use crate::guard::{Guard, holds};
use crate::limits::{RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use batch::Batch;
use block_io::IoError;
use pace::Pace;
use plan::Piece;
use std::collections::VecDeque;
pub(crate) use times::ReadTimes;
use units::{Duration, Instant};

/// The origin refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failing {
    pub(crate) since: Instant,
    pub(crate) error: IoError,
    /// Not tried again before.
    until: Instant,
    pause: Duration,
}

/// What keeps writes from going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paused {
    Rate,
    Latency,
}

/// The transfer of a disk's log to its origin.
#[derive(Debug)]
pub(crate) struct Destage {
    loading: Option<Batch>,
    writing: Option<Batch>,
    /// A flush of the origin is on its way; what it settles.
    flushing: Option<Flushing>,
    batch_next: u64,
    /// Records before this number are in a batch or behind it.
    loaded_to: u64,
    /// Bytes written since the origin was flushed.
    unflushed: u64,
    /// Everything before this number has to reach the origin at full speed.
    pub(crate) demand: u64,
    pub(crate) failing: Option<Failing>,
    paused: Option<Paused>,
    pub(crate) pace: Pace,
    /// Out of order: what comes next.
    planned: VecDeque<Piece>,
}

#[derive(Debug)]
struct Flushing {
    id: u64,
    to: u64,
    some: Option<Vec<u64>>,
}

impl Destage {
    /// Its batches are numbered from `first` on.
    pub(crate) fn new(first: u64, now: Instant) -> Self {
        Self {
            loading: None,
            writing: None,
            flushing: None,
            batch_next: first,
            loaded_to: 0,
            unflushed: 0,
            demand: 0,
            failing: None,
            paused: None,
            pace: Pace::new(now),
            planned: VecDeque::new(),
        }
    }

    /// Batches that have been begun.
    pub(crate) fn batches(&self) -> u64 {
        self.batch_next
    }

    /// Whether records are on their way that were taken out of their order.
    pub(crate) fn is_out_of_order(&self) -> bool {
        let batches = [&self.loading, &self.writing];
        let some = batches
            .iter()
            .any(|b| b.as_ref().is_some_and(|b| b.some.is_some()));
        some || self.flushing.as_ref().is_some_and(|f| f.some.is_some())
    }

    /// Whether nothing is on its way, neither from flash nor to the origin.
    pub(crate) fn is_idle(&self) -> bool {
        self.loading.is_none() && self.writing.is_none() && self.flushing.is_none()
    }

    /// Whether reads of the log or writes to the origin are on their way.
    pub(crate) fn is_busy(&self) -> bool {
        let reads = |batch: &Batch| batch.reads_left > 0;
        self.is_writing() || self.loading.as_ref().is_some_and(reads)
    }

    /// Whether writes to the origin are on their way.
    pub(crate) fn is_writing(&self) -> bool {
        let writes = self
            .writing
            .as_ref()
            .is_some_and(|batch| batch.in_flight > 0);
        writes || self.flushing.is_some()
    }

    /// The origin, or the flash, refused: begins anew from the oldest record, after a pause.
    fn give_up(&mut self, error: IoError, now: Instant) {
        if holds(Guard::RefusedComesAgain) {
            self.begin_anew();
        }
        let before = self.failing;
        let pause = before.map_or(RETRY_PAUSE_MIN, |failing| {
            let doubled = failing.pause.as_nanos().saturating_mul(2);
            Duration::from_nanos(doubled.min(RETRY_PAUSE_MAX.as_nanos()))
        });
        self.failing = Some(Failing {
            since: before.map_or(now, |failing| failing.since),
            error,
            until: now + pause,
            pause,
        });
    }

    /// Forgets what is under way: completions of it mean nothing any more.
    fn begin_anew(&mut self) {
        self.loading = None;
        self.writing = None;
        self.flushing = None;
        self.loaded_to = 0;
        self.unflushed = 0;
        self.planned.clear();
    }
}
