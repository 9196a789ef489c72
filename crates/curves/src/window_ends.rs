//! The ends of windows that follow each other, as a trace's time passes them.

use units::{Duration, Instant};

/// Windows without an access that are walked through: what a gap in a trace has beyond them teaches nobody
/// anything, and a wrong time stamp could make it endless.
const SILENT_WINDOWS_MAX: u64 = 1_000;

/// Windows of one length, the first of which begins with the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowEnds {
    length: Duration,
    /// The end of the window that has not ended yet.
    next: Instant,
    now: Instant,
}

impl WindowEnds {
    /// # Panics
    /// If the length is zero.
    pub(crate) fn new(length: Duration) -> Self {
        assert!(length > Duration::ZERO, "a window has a length");
        Self {
            length,
            next: Instant::ZERO + length,
            now: Instant::ZERO,
        }
    }

    /// Lets time pass; an earlier time counts as the latest one. [`Self::ended`] has to be asked until it says `None`.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let silent = (self.now - self.next).as_nanos() / self.length.as_nanos();
        if let Some(skipped) = silent.checked_sub(SILENT_WINDOWS_MAX) {
            let skipped = self.length.as_nanos().saturating_mul(skipped);
            self.next = self.next + Duration::from_nanos(skipped);
        }
    }

    /// The end of the next window that is past, and from then on the one behind it.
    pub(crate) fn ended(&mut self) -> Option<Instant> {
        let end = self.next;
        if self.now < end {
            return None;
        }
        self.next = end + self.length;
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn ends(windows: &mut WindowEnds, seconds: u64) -> Vec<Instant> {
        windows.pass(at(seconds));
        std::iter::from_fn(|| windows.ended()).collect()
    }

    #[test]
    fn every_window_ends_once_also_the_silent_ones() {
        let mut windows = WindowEnds::new(Duration::from_secs(10));
        assert_eq!(ends(&mut windows, 9), []);
        assert_eq!(ends(&mut windows, 10), [at(10)]);
        assert_eq!(ends(&mut windows, 35), [at(20), at(30)]);
        assert_eq!(ends(&mut windows, 12), []);
    }

    #[test]
    fn a_gap_is_walked_through_for_a_thousand_windows() {
        let mut windows = WindowEnds::new(Duration::from_secs(1));
        let all = ends(&mut windows, 1_000_000);
        assert_eq!(all.len(), 1_001);
        assert_eq!(all.last(), Some(&at(1_000_000)));
    }
}
