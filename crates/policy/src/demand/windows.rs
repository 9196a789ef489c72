//! The window lengths that are measured side by side.

use super::limits::{WINDOW_MAX, WINDOW_MIN, WINDOWS_MAX};
use units::Duration;

/// From one to [`WINDOWS_MAX`] window lengths, rising.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(Vec<Duration>);

/// Why a list is none of window lengths.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowsError {
    /// Too few or too many.
    #[error("{0} windows: give from 1 to {WINDOWS_MAX}")]
    Count(usize),
    /// One is too short or too long.
    #[error("a window of {0}: give lengths from {WINDOW_MIN} to {WINDOW_MAX}")]
    OutOfRange(Duration),
    /// They do not rise.
    #[error("a window of {after} after one of {before}: give lengths that rise")]
    NotRising {
        /// The one before.
        before: Duration,
        /// Which is not longer.
        after: Duration,
    },
}

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// From a minute to a day, by factors of two and three.
const LADDER_SECS: [u64; 11] = [
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    8 * HOUR,
    12 * HOUR,
    24 * HOUR,
];

impl Windows {
    /// These.
    ///
    /// # Errors
    /// If there are too few or too many, one is out of range, or they do not rise.
    pub fn new(lengths: &[Duration]) -> Result<Self, WindowsError> {
        if !(1..=WINDOWS_MAX).contains(&lengths.len()) {
            return Err(WindowsError::Count(lengths.len()));
        }
        for &length in lengths {
            if !(WINDOW_MIN..=WINDOW_MAX).contains(&length) {
                return Err(WindowsError::OutOfRange(length));
            }
        }
        for pair in lengths.windows(2) {
            if pair[0] >= pair[1] {
                return Err(WindowsError::NotRising {
                    before: pair[0],
                    after: pair[1],
                });
            }
        }
        Ok(Self(lengths.to_vec()))
    }

    /// The usual ladder: 1, 2, 5, 10 and 30 minutes, 1, 2, 4, 8, 12 and 24 hours.
    pub fn ladder() -> Self {
        Self(LADDER_SECS.map(Duration::from_secs).to_vec())
    }

    /// The lengths, rising.
    pub fn as_slice(&self) -> &[Duration] {
        &self.0
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.0[self.0.len() - 1]
    }

    /// The place of a length in the list.
    pub fn position(&self, length: Duration) -> Option<usize> {
        self.0.iter().position(|known| *known == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ladder_is_a_list_like_any_other() {
        let ladder = Windows::ladder();
        assert_eq!(Windows::new(ladder.as_slice()), Ok(ladder.clone()));
        assert_eq!(ladder.longest(), Duration::from_secs(24 * HOUR));
    }

    #[test]
    fn lists_that_do_not_rise_or_leave_the_range_are_refused() {
        let secs = |list: &[u64]| {
            let list: Vec<_> = list.iter().copied().map(Duration::from_secs).collect();
            Windows::new(&list).map_err(|error| error.to_string())
        };
        assert!(secs(&[]).unwrap_err().contains("0 windows"));
        assert!(secs(&[60, 60]).unwrap_err().contains("rise"));
        assert!(secs(&[0]).unwrap_err().contains("0s"));
        assert!(secs(&[8 * 24 * 3600]).unwrap_err().contains("192h"));
        let many: Vec<u64> = (1..=17).collect();
        assert!(secs(&many).unwrap_err().contains("17 windows"));
    }
}
