//! Latencies of a device: a constant, or drawn by a seed.
//!
//! Logarithm, exponential and cosine are `libm`'s, which gives the same bits on every machine.

use crate::number::{count, real};
use std::fmt;
use std::str::FromStr;
use units::{Duration, Prng};

/// How long a device takes over one I/O, beside queueing and transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Log-normal with this median and 99th percentile: what devices with a tail look like.
    LogNormal {
        /// Half of the I/Os take less.
        median: Duration,
        /// One in a hundred takes longer.
        p99: Duration,
    },
}

/// The standard normal distribution's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

impl Latency {
    /// One latency.
    pub fn draw(self, dice: &mut Prng) -> Duration {
        let nanos = match self {
            Self::Fixed(latency) => return latency,
            Self::Exponential { mean } => -libm::log(uniform(dice)) * real(mean.as_nanos()),
            Self::LogNormal { median, p99 } => {
                let sigma = libm::log(real(p99.as_nanos()) / real(median.as_nanos())) / Z99;
                real(median.as_nanos()) * libm::exp(sigma * normal(dice))
            }
        };
        Duration::from_nanos(count(nanos))
    }

    /// The mean of all that are drawn.
    pub fn mean(self) -> Duration {
        match self {
            Self::Fixed(mean) | Self::Exponential { mean } => mean,
            Self::LogNormal { median, p99 } => {
                let sigma = libm::log(real(p99.as_nanos()) / real(median.as_nanos())) / Z99;
                let mean = real(median.as_nanos()) * libm::exp(sigma * sigma / 2.0);
                Duration::from_nanos(count(mean))
            }
        }
    }
}

/// Uniform in (0, 1]: never zero, whose logarithm is not a number.
fn uniform(dice: &mut Prng) -> f64 {
    real((dice.u64() >> 11) + 1) / real(1 << 53)
}

/// Standard normal (Box and Muller 1958), one of the pair.
fn normal(dice: &mut Prng) -> f64 {
    let radius = (-2.0 * libm::log(uniform(dice))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * uniform(dice))
}

/// The text is not a latency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a latency: write a time (80us), exponential:MEAN (exponential:80us) or \
     lognormal:MEDIAN:P99 (lognormal:80us:400us)"
)]
pub struct ParseLatencyError(String);

impl FromStr for Latency {
    type Err = ParseLatencyError;

    fn from_str(text: &str) -> Result<Self, ParseLatencyError> {
        let error = || ParseLatencyError(text.to_owned());
        let time = |text: &str| text.parse::<Duration>().map_err(|_| error());
        let words: Vec<&str> = text.split(':').collect();
        let latency = match words[..] {
            [fixed] => Self::Fixed(time(fixed)?),
            ["exponential", mean] => Self::Exponential { mean: time(mean)? },
            ["lognormal", median, p99] => Self::LogNormal {
                median: time(median)?,
                p99: time(p99)?,
            },
            _ => return Err(error()),
        };
        match latency {
            Self::LogNormal { median, p99 } if median == Duration::ZERO || p99 < median => {
                Err(error())
            }
            _ => Ok(latency),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(latency) => write!(f, "{latency}"),
            Self::Exponential { mean } => write!(f, "exponential:{mean}"),
            Self::LogNormal { median, p99 } => write!(f, "lognormal:{median}:{p99}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &str) -> Vec<f64> {
        let latency: Latency = text.parse().unwrap();
        let mut dice = Prng::new(7);
        let mut drawn: Vec<f64> = (0..100_000)
            .map(|_| real(latency.draw(&mut dice).as_nanos()) / 1000.0)
            .collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn latencies_print_as_they_are_written() {
        for text in ["80us", "exponential:2ms", "lognormal:80us:400us"] {
            assert_eq!(
                text.parse::<Latency>().map(|latency| latency.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "80",
            "normal:1us",
            "lognormal:80us",
            "lognormal:0s:1us",
            "lognormal:2us:1us",
        ] {
            assert!(text.parse::<Latency>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_exponential_latency_has_its_mean_and_its_tail() {
        let drawn = sorted("exponential:100us");
        let mean = drawn.iter().sum::<f64>() / 1e5;
        assert!((mean - 100.0).abs() < 1.0, "{mean}");
        assert!((drawn[99_000] - 460.5).abs() < 10.0, "{}", drawn[99_000]);
    }

    #[test]
    fn a_log_normal_latency_has_its_median_and_99th_percentile() {
        let drawn = sorted("lognormal:80us:400us");
        assert!((drawn[50_000] - 80.0).abs() < 1.0, "{}", drawn[50_000]);
        assert!((drawn[99_000] - 400.0).abs() < 15.0, "{}", drawn[99_000]);
    }

    #[test]
    fn the_mean_is_that_of_what_is_drawn() {
        for text in ["80us", "exponential:100us", "lognormal:80us:400us"] {
            let drawn = sorted(text);
            let mean = drawn.iter().sum::<f64>() / 1e5;
            let said = text.parse::<Latency>().unwrap().mean();
            let said = real(said.as_nanos()) / 1e3;
            assert!((mean / said - 1.0).abs() < 0.02, "{text}: {mean} {said}");
        }
    }
}
