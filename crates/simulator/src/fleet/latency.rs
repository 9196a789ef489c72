//! A VM's 90th percentile of read latency by its hit ratio.
//!
//! Hits and misses have lognormal latencies, of medians 0.12 and 2 ms. The percentile is that of their mixture. A fuller
//! origin is not slower here: what a real one would gain from fewer misses comes on top.

use std::f64::consts::SQRT_2;
use units::number::{count_near, real};

/// Medians in milliseconds, and standard deviations of the logarithms.
const HIT: (f64, f64) = (0.12, 0.4);
const MISS: (f64, f64) = (2.0, 0.5);

/// Means of these distributions in microseconds, which hosts publish.
pub(super) const HIT_US: f64 = 130.0;
pub(super) const MISS_US: f64 = 2_266.0;

/// Hit ratios that are worked out, in steps of a thousandth.
const STEPS: usize = 1_000;

/// The 90th percentile for each hit ratio.
#[derive(Clone, Debug)]
pub(super) struct Percentiles(Vec<f64>);

impl Percentiles {
    pub(super) fn new() -> Self {
        let steps = 0..=STEPS as u64;
        Self(
            steps
                .map(|step| percentile(real(step) / real(STEPS as u64)))
                .collect(),
        )
    }

    /// In milliseconds.
    pub(super) fn p90_ms(&self, hits: f64) -> f64 {
        let step = count_near(hits * real(STEPS as u64));
        let step = usize::try_from(step).unwrap_or(STEPS).min(STEPS);
        self.0[step]
    }
}

fn percentile(hits: f64) -> f64 {
    let below = |latency: f64| {
        let part = |(median, deviation): (f64, f64)| {
            let standard = libm::log(latency / median) / deviation;
            0.5 * (1.0 + libm::erf(standard / SQRT_2))
        };
        hits * part(HIT) + (1.0 - hits) * part(MISS)
    };
    let (mut low, mut high) = (0.001, 100.0);
    for _ in 0..60 {
        let middle = libm::sqrt(low * high);
        if below(middle) < 0.9 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_hits_are_a_lower_percentile() {
        let table = Percentiles::new();
        let all: Vec<f64> = [0.0, 0.5, 0.8, 0.95, 1.0]
            .into_iter()
            .map(|hits| table.p90_ms(hits))
            .collect();
        assert!(all.windows(2).all(|pair| pair[1] < pair[0]), "{all:?}");
        // The ninetieth percentile of one lognormal: median x exp(1.2816 deviation).
        assert!((all[0] - 2.0 * libm::exp(1.281_55 * 0.5)).abs() < 1e-3);
        assert!((all[4] - 0.12 * libm::exp(1.281_55 * 0.4)).abs() < 1e-4);
    }

    #[test]
    fn the_published_means_are_those_of_the_distributions() {
        let mean =
            |(median, deviation): (f64, f64)| 1e3 * median * libm::exp(deviation * deviation / 2.0);
        assert!((mean(HIT) - HIT_US).abs() < 1.0);
        assert!((mean(MISS) - MISS_US).abs() < 1.0);
    }
}
