//! When a trace's requests are due.

use std::fmt;
use std::str::FromStr;
use units::number::{count_near, real};
use units::{Duration, Instant};

/// How fast a trace's clock goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// Each request as soon as there is room for it.
    Max,
}

/// A text that is no speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no speed: write 1, 10 or 0.5 (times the trace's own), from 0.001 to 1000000, or max"
)]
pub struct ParseSpeedError(String);

impl FromStr for Speed {
    type Err = ParseSpeedError;

    fn from_str(text: &str) -> Result<Self, ParseSpeedError> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times: Option<f64> = text.parse().ok();
        let within = times.filter(|times| (0.001..=1e6).contains(times));
        let speed = within.map(Self::Times);
        speed.ok_or_else(|| ParseSpeedError(text.to_owned()))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}"),
            Self::Max => f.write_str("max"),
        }
    }
}

/// When requests are due: the trace's clock, laid on ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    speed: Speed,
    began: Instant,
    /// The latest time that was asked for.
    latest: Duration,
}

impl Schedule {
    pub(super) fn new(speed: Speed, began: Instant) -> Self {
        Self {
            speed,
            began,
            latest: Duration::ZERO,
        }
    }

    /// When the trace's next request is due, `at` after its first one; `None` for as soon as possible.
    ///
    /// A request that the trace has behind a later one is due with that: requests keep their order.
    pub(super) fn due(&mut self, at: Duration) -> Option<Instant> {
        let Speed::Times(times) = self.speed else {
            return None;
        };
        self.latest = self.latest.max(at);
        let nanos = count_near(real(self.latest.as_nanos()) / times);
        Some(self.began + Duration::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Instant = Instant::from_nanos(5_000);

    fn due(speed: &str, at: &[u64]) -> Vec<Option<u64>> {
        let mut schedule = Schedule::new(speed.parse().unwrap(), BEGAN);
        let due = |at: &u64| schedule.due(Duration::from_nanos(*at));
        let due = at.iter().map(due);
        due.map(|due| due.map(|due| (due - BEGAN).as_nanos()))
            .collect()
    }

    #[test]
    fn times_are_divided_by_the_speed() {
        assert_eq!(due("1", &[0, 700]), [Some(0), Some(700)]);
        assert_eq!(due("10", &[0, 700]), [Some(0), Some(70)]);
        assert_eq!(due("0.5", &[0, 700]), [Some(0), Some(1400)]);
        assert_eq!(due("max", &[0, 700]), [None, None]);
    }

    #[test]
    fn a_step_back_is_due_with_the_request_before() {
        assert_eq!(due("1", &[500, 20, 600]), [Some(500), Some(500), Some(600)]);
    }

    #[test]
    fn speeds_are_numbers_above_nothing_or_max() {
        for text in ["0", "-1", "nan", "inf", "fast", "", "1e9"] {
            let error = text.parse::<Speed>().unwrap_err().to_string();
            assert!(error.contains("or max"), "{error}");
        }
        assert_eq!("2.5".parse::<Speed>().unwrap().to_string(), "2.5");
    }
}
