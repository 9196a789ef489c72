//! The clock of the spans that one process has of one trace.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A moment on two clocks: the wall's, which collectors want, and one that nobody sets.
///
/// All spans of a trace in this process count from the same moment. So a span never ends after the span above it
/// merely because somebody set the wall clock, or because a thread waited between two looks at the clocks.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    unix_nanos: u64,
    at: Instant,
}

impl Clock {
    /// One that counts from now on.
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            unix_nanos: u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX),
            at: Instant::now(),
        }
    }

    /// Nanoseconds from the beginning of 1970 to now.
    pub(crate) fn unix_nanos(&self) -> u64 {
        let since = u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.unix_nanos.saturating_add(since)
    }
}

#[cfg(test)]
impl Clock {
    /// One of a wall clock that stood at the beginning of 1970 a moment ago.
    pub(crate) fn of_1970() -> Self {
        Self {
            unix_nanos: 0,
            at: Instant::now(),
        }
    }
}
