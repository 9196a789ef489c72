//! The time of a tenancy, and its running window.

use crate::limits::IDLE_WINDOWS_MAX;
use units::{Duration, Instant};

/// What time it is, and when the running window began and will end.
#[derive(Debug)]
pub(crate) struct Clock {
    now: Instant,
    began: Instant,
    ends: Instant,
    /// Blocks accessed since the running window began.
    accesses: u64,
    /// Windows since one had an access.
    idle_windows: u32,
}

/// A window that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// When.
    pub(crate) at: Instant,
    /// How long it was.
    pub(crate) length: Duration,
}

impl Clock {
    /// A window of that length begins now.
    pub(crate) fn new(now: Instant, window: Duration) -> Self {
        Self {
            now,
            began: now,
            ends: now + window,
            accesses: 0,
            idle_windows: 0,
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// When the running window ends.
    pub(crate) fn window_ends(&self) -> Instant {
        self.ends
    }

    /// So many blocks are accessed at that time. Time does not go back.
    #[inline]
    pub(crate) fn access(&mut self, now: Instant, blocks: u64) {
        self.now = self.now.max(now);
        self.accesses += blocks;
    }

    /// The window that has ended by now, if one has, to be followed by [`Clock::begin`]. It ended when it
    /// should have, unless nothing was accessed for long: then the windows that nobody saw are one.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Ended> {
        // At the end of time windows end no more.
        if now < self.ends || self.ends == self.began {
            return None;
        }
        let idle = std::mem::take(&mut self.accesses) == 0;
        self.idle_windows = if idle { self.idle_windows + 1 } else { 0 };
        let at = if self.idle_windows > IDLE_WINDOWS_MAX {
            now
        } else {
            self.ends
        };
        self.now = self.now.max(at);
        let length = at - self.began;
        Some(Ended { at, length })
    }

    /// The next window begins where one ended.
    pub(crate) fn begin(&mut self, at: Instant, window: Duration) {
        self.began = at;
        self.ends = at + window;
    }

    /// The running window ends after that time at the latest.
    pub(crate) fn end_within(&mut self, window: Duration) {
        self.ends = self.ends.min(self.now + window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_in_time_until_nothing_was_accessed_for_long() {
        let second = Duration::from_secs(1);
        let start = Instant::default();
        let mut clock = Clock::new(start, second);
        assert_eq!(clock.end(start), None);
        let late = start + Duration::from_secs(1_000_000);
        let mut at = start;
        for _ in 0..IDLE_WINDOWS_MAX {
            let ended = clock.end(late).unwrap();
            assert_eq!((ended.at, ended.length), (at + second, second));
            at = ended.at;
            clock.begin(at, second);
        }
        assert_eq!(clock.end(late).unwrap().at, late);
    }
}
