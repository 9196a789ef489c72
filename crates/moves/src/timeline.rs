//! What happens when: events in order of time, and of the order in which they were thought of.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use units::Instant;

struct Due<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events to come.
pub(crate) struct Timeline<E> {
    events: BinaryHeap<Reverse<Due<E>>>,
    number: u64,
    now: Instant,
}

impl<E> Timeline<E> {
    /// Nothing is to come.
    pub(crate) fn new() -> Self {
        Self {
            events: BinaryHeap::new(),
            number: 0,
            now: Instant::ZERO,
        }
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// An event comes at that time; now, if the time has passed.
    pub(crate) fn push(&mut self, at: Instant, event: E) {
        self.number += 1;
        self.events.push(Reverse(Due {
            at: at.max(self.now),
            number: self.number,
            event,
        }));
    }

    /// The next event, until a time.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<E> {
        let Reverse(next) = self.events.peek()?;
        if next.at > until {
            return None;
        }
        let Reverse(Due { at, event, .. }) = self.events.pop()?;
        self.now = at;
        Some(event)
    }
}
