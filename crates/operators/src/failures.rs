//! Attempts that failed: how many there were, and when they are told of.
//!
//! An event a minute says how many there were since the last one, so that whoever tries tokens fills no log.

use std::time::Duration;

/// The least time between two events.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Counts failed attempts. Times are those since any fixed moment.
#[derive(Debug, Default)]
pub struct Failures {
    untold: u64,
    told_at: Option<Duration>,
}

impl Failures {
    /// Counts an attempt that failed; returns how many are to be told of, with this one, if it is time to.
    pub fn note(&mut self, now: Duration) -> Option<u64> {
        self.untold += 1;
        let is_time = self
            .told_at
            .is_none_or(|told| now.saturating_sub(told) >= TOLD_EVERY);
        is_time.then(|| {
            self.told_at = Some(now);
            std::mem::take(&mut self.untold)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_of_once_a_minute_and_none_is_forgotten() {
        let mut failures = Failures::default();
        let at = |seconds| Duration::from_secs(seconds);
        assert_eq!(failures.note(at(7)), Some(1));
        for second in 8..67 {
            assert_eq!(failures.note(at(second)), None, "{second}");
        }
        assert_eq!(failures.note(at(67)), Some(60));
        assert_eq!(failures.note(at(68)), None);
        assert_eq!(failures.note(at(500)), Some(2));
    }
}
