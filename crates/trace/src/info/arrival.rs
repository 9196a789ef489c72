//! Time: gaps, requests a second, and clocks that go wrong.

use super::spread::{Spread, real};
use super::{Arrival, share};

/// A microsecond's worth of seconds.
const SECOND_US: u64 = 1_000_000;

/// A step of the clock, and the record after it (counted from 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) us: u64,
    pub(super) record: u64,
}

/// What is remembered of a clock: its ends, its unit, its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    records: u64,
    first_us: u64,
    earliest_us: u64,
    latest_us: u64,
    last_us: u64,
    /// Divides every time's distance from the first.
    divisor_us: u64,
    /// Records that are earlier than the one before.
    pub(super) steps_back: u64,
    pub(super) first_back: Step,
    pub(super) worst_back: Step,
    pub(super) longest_gap: Step,
}

impl Clock {
    #[inline]
    pub(super) fn add(&mut self, time_us: u64) {
        self.records += 1;
        // Nothing changes while the clock stands still, which coarse ones mostly do.
        if time_us != self.last_us || self.records == 1 {
            self.moves(time_us);
        }
    }

    fn moves(&mut self, time_us: u64) {
        if self.records == 1 {
            self.first_us = time_us;
            self.earliest_us = time_us;
            self.latest_us = time_us;
        } else if time_us < self.last_us {
            self.step_back(self.last_us - time_us);
        } else if time_us - self.last_us > self.longest_gap.us {
            self.longest_gap = Step {
                us: time_us - self.last_us,
                record: self.records,
            };
        }
        self.earliest_us = self.earliest_us.min(time_us);
        self.latest_us = self.latest_us.max(time_us);
        self.last_us = time_us;
        // One divides everything.
        if self.divisor_us != 1 {
            self.divisor_us = divisor(time_us.abs_diff(self.first_us), self.divisor_us);
        }
    }

    fn step_back(&mut self, us: u64) {
        let step = Step {
            us,
            record: self.records,
        };
        if self.steps_back == 0 {
            self.first_back = step;
        }
        if us > self.worst_back.us {
            self.worst_back = step;
        }
        self.steps_back += 1;
    }

    /// Whether any two records differ in time.
    pub(super) fn differ(&self) -> bool {
        self.earliest_us < self.latest_us
    }

    /// The coarsest unit that every time is a multiple of, in microseconds.
    pub(super) fn unit_us(&self) -> u64 {
        self.divisor_us
    }

    pub(super) fn duration_us(&self) -> u64 {
        self.latest_us - self.earliest_us
    }
}

/// What is remembered of how records follow each other.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    first_us: Option<u64>,
    last_us: u64,
    gaps: Spread,
    /// The second that is being counted, from the first record's time, and its requests so far.
    second: (u64, u64),
    second_squares: f64,
    second_max: u64,
}

impl Rates {
    pub(super) fn new() -> Self {
        Self {
            first_us: None,
            last_us: 0,
            gaps: Spread::new(),
            second: (0, 0),
            second_squares: 0.0,
            second_max: 0,
        }
    }

    pub(super) fn add(&mut self, time_us: u64) {
        if self.first_us.is_some()
            && let Some(gap) = time_us.checked_sub(self.last_us)
        {
            self.gaps.add(gap);
        }
        let first_us = *self.first_us.get_or_insert(time_us);
        self.last_us = time_us;
        let second = time_us.saturating_sub(first_us) / SECOND_US;
        if second > self.second.0 {
            self.end_second();
            self.second = (second, 0);
        }
        self.second.1 += 1;
    }

    fn end_second(&mut self) {
        self.second_squares += real(self.second.1) * real(self.second.1);
        self.second_max = self.second_max.max(self.second.1);
    }

    pub(super) fn summary(mut self, clock: &Clock) -> Arrival {
        self.end_second();
        let duration_us = clock.duration_us();
        let seconds = (duration_us / SECOND_US + 1).max(1);
        let mean = real(clock.records) / real(seconds);
        // Seconds without a request add nothing to the sum of squares.
        let variance = self.second_squares / real(seconds) - mean * mean;
        Arrival {
            first_us: clock.earliest_us,
            last_us: clock.latest_us,
            duration_us,
            requests_per_second: share(clock.records, duration_us) * real(SECOND_US),
            requests_per_second_max: self.second_max,
            gap_variation: self.gaps.variation(),
            gap_us: self.gaps.quantiles(),
            dispersion: if mean > 0.0 {
                variance.max(0.0) / mean
            } else {
                0.0
            },
        }
    }
}

/// The greatest common divisor; of zero and a number, the number.
pub(super) fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_counted_with_the_empty_ones() {
        let (mut clock, mut rates) = (Clock::default(), Rates::new());
        for time in [0, 10, 20, 3_000_000] {
            clock.add(time);
            rates.add(time);
        }
        let arrival = rates.summary(&clock);
        assert_eq!(arrival.requests_per_second_max, 3);
        // 3, 0, 0, 1: mean 1, variance 1.5.
        assert!((arrival.dispersion - 1.5).abs() < 1e-9);
        assert_eq!(arrival.gap_us.count, 3);
        assert_eq!(arrival.duration_us, 3_000_000);
    }

    #[test]
    fn steps_back_are_counted_with_first_and_worst() {
        let mut times = Clock::default();
        for time in [100, 90, 200, 50, 300] {
            times.add(time);
        }
        assert_eq!(times.steps_back, 2);
        assert_eq!(times.first_back, Step { us: 10, record: 2 });
        assert_eq!(times.worst_back, Step { us: 150, record: 4 });
        assert_eq!(times.longest_gap, Step { us: 250, record: 5 });
    }

    #[test]
    fn the_unit_of_time_is_found() {
        let mut times = Clock::default();
        for time in [7, 2_000_007, 5_000_007] {
            times.add(time);
        }
        assert_eq!(times.unit_us(), 1_000_000);
    }
}
