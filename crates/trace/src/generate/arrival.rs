//! When requests come.
//!
//! ```text
//!  fixed    |   |   |   |   |   |     every 1/rate
//!  poisson  | |    ||     |   |       independent of each other, rate a second on average
//!  diurnal  |    |  | |||||| | |   |  poisson whose rate swings like a day: least at the start of a
//!                                     period, most in its middle
//! ```

use super::dice;
use std::f64::consts::TAU;
use units::Prng;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// At equal distances.
    Fixed,
    /// Independently of each other.
    Poisson,
    /// The same, more by day than by night.
    Diurnal(Day),
}

/// A day of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Day {
    /// How long it is, in microseconds.
    pub period_us: u64,
    /// How far the rate goes below and above its mean: 0 never, near 1 from nothing to twice the mean.
    pub swing: f64,
}

impl Day {
    /// How much of a day it is at a time: -1 in the middle of the night, 1 at noon.
    pub(super) fn light(self, time_us: u64) -> f64 {
        let phase = dice::real(time_us % self.period_us) / dice::real(self.period_us);
        -libm::cos(TAU * phase)
    }
}

/// The clock of one source of requests.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    arrival: Arrival,
    /// Requests a second.
    rate: f64,
    start_us: u64,
    /// Requests so far.
    count: u64,
    /// Time since `start_us`: not rounded, so that the mean is the rate's.
    passed_us: f64,
    dice: Prng,
}

impl Clock {
    /// A clock whose first request comes at `start_us` (fixed) or a first gap later.
    pub(super) fn new(arrival: Arrival, rate: f64, start_us: u64, dice: Prng) -> Self {
        assert!(rate > 0.0, "requests come");
        Self {
            arrival,
            rate,
            start_us,
            count: 0,
            passed_us: 0.0,
            dice,
        }
    }

    /// When the next request comes, in microseconds; never earlier than the one before.
    pub(super) fn next(&mut self) -> u64 {
        let gap_us = 1e6 / self.rate;
        match self.arrival {
            Arrival::Fixed => self.passed_us = dice::real(self.count) * gap_us,
            Arrival::Poisson => self.passed_us += self.exponential() * gap_us,
            Arrival::Diurnal(day) => {
                // The rate at the end of the gap before stands for the gap: a gap is short beside a day.
                let rate = 1.0 + day.swing * day.light(dice::whole(self.passed_us));
                self.passed_us += self.exponential() * gap_us / rate;
            }
        }
        self.count += 1;
        self.start_us.saturating_add(dice::whole(self.passed_us))
    }

    fn exponential(&mut self) -> f64 {
        // In (0, 1]: the logarithm of zero is no time.
        -libm::log(1.0 - self.dice.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrival: Arrival, count: usize) -> Vec<u64> {
        let mut clock = Clock::new(arrival, 1000.0, 500, Prng::new(5));
        (0..count).map(|_| clock.next()).collect()
    }

    #[test]
    fn a_fixed_rate_has_equal_gaps() {
        assert_eq!(times(Arrival::Fixed, 4), [500, 1500, 2500, 3500]);
    }

    #[test]
    fn poisson_gaps_have_the_rates_mean_and_are_as_spread() {
        let times = times(Arrival::Poisson, 100_000);
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| dice::real(pair[1] - pair[0]))
            .collect();
        let count = dice::real(gaps.len() as u64);
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / count;
        assert!((mean - 1000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn noon_has_more_requests_than_midnight() {
        let day = Day {
            period_us: 20_000_000,
            swing: 0.8,
        };
        let times = times(Arrival::Diurnal(day), 20_000);
        let within = |from: u64, to: u64| {
            times
                .iter()
                .filter(|&&time| (from..to).contains(&(time - 500)))
                .count()
        };
        // A tenth of the period around each: 1 - 0.8 x 0.98 and 1 + 0.8 x 0.98 of the mean.
        let (night, noon) = (within(0, 1_000_000), within(9_500_000, 10_500_000));
        assert!((140..300).contains(&night), "{night}");
        assert!((1650..1920).contains(&noon), "{noon}");
        assert!(times.is_sorted());
    }
}
