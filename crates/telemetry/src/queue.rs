//! What ended spans wait in, and how they are counted.

use crate::ended::Ended;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::Sender;
use units::Prng;

/// What has become of spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// The collector has taken them.
    pub delivered: u64,
    /// It has not, or there was no room for them to wait.
    pub dropped: u64,
}

/// The same, as it is counted.
#[derive(Default)]
pub(crate) struct Counts {
    delivered: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    pub(crate) fn now(&self) -> SpanCounts {
        SpanCounts {
            delivered: self.delivered.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn deliver(&self, spans: u64) {
        self.delivered.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn lose(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }
}

/// What spans need: numbers, and where they go when they end.
pub(crate) struct Inner {
    queue: Sender<Ended>,
    counts: Arc<Counts>,
    dice: Mutex<Prng>,
}

impl Inner {
    /// Spans go to this queue, and have numbers of these dice.
    pub(crate) fn new(queue: Sender<Ended>, counts: Arc<Counts>, dice: Prng) -> Self {
        Self {
            queue,
            counts,
            dice: Mutex::new(dice),
        }
    }

    /// Numbers of a trace and of a span.
    pub(crate) fn numbers(&self) -> (u128, u64) {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let trace = (u128::from(dice.u64()) << 64) | u128::from(dice.u64());
        (trace, dice.u64())
    }

    /// A span has ended. Waits for nothing.
    pub(crate) fn ended(&self, span: Ended) {
        if self.queue.try_send(span).is_err() {
            self.counts.lose(1);
        }
    }
}
