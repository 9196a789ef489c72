//! Distributions of whole numbers in bounded memory, exact to a thousandth.

use hdrhistogram::Histogram;
use serde::Serialize;

/// What is remembered of many numbers.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    counts: Histogram<u64>,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

/// Quantiles of a distribution, exact to 0.1 %; all zero for an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: u64,
    /// A tenth is at most this.
    pub p10: u64,
    /// Half is at most this.
    pub p50: u64,
    /// Nine tenths are at most this.
    pub p90: u64,
    /// 99 in 100 are at most this.
    pub p99: u64,
    /// The most.
    pub max: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            // Three digits over all of 64 bits, grown as needed: at most 0.5 MiB.
            counts: Histogram::new(3).expect("three digits are among those it knows"),
            sum: 0.0,
            squares: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }

    pub(super) fn add(&mut self, number: u64) {
        // Beyond what it can hold (2^63 and more) the largest stands for all.
        if self.counts.record(number).is_err() {
            self.counts.saturating_record(number);
        }
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.sum += real(number);
        self.squares += real(number) * real(number);
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.len()
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.sum / real(self.count())
    }

    /// Standard deviation over mean.
    pub(super) fn variation(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = self.squares / real(self.count()) - mean * mean;
        variance.max(0.0).sqrt() / mean
    }

    pub(super) fn median(&self) -> u64 {
        self.at(0.5)
    }

    fn at(&self, quantile: f64) -> u64 {
        // The least that cannot be told from it: sizes are round numbers more often than not.
        let found = self.counts.value_at_quantile(quantile);
        let found = self.counts.lowest_equivalent(found);
        found.clamp(self.min, self.max)
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        if self.count() == 0 {
            return Quantiles::default();
        }
        Quantiles {
            count: self.count(),
            mean: self.mean(),
            min: self.min,
            p10: self.at(0.1),
            p50: self.at(0.5),
            p90: self.at(0.9),
            p99: self.at(0.99),
            max: self.max,
        }
    }
}

/// The nearest double, which is near enough for a mean or a share.
#[allow(
    clippy::cast_precision_loss,
    reason = "means and shares are rounded when they are shown"
)]
pub(super) const fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut spread = Spread::new();
        for number in 1..=100_000 {
            spread.add(number);
        }
        let quantiles = spread.quantiles();
        assert_eq!((quantiles.count, quantiles.min), (100_000, 1));
        assert!((quantiles.mean - 50_000.5).abs() < 1e-6);
        for (found, exact) in [
            (quantiles.p10, 10_000),
            (quantiles.p50, 50_000),
            (quantiles.p99, 99_000),
        ] {
            assert!(
                u64::abs_diff(found, exact) * 1000 <= exact,
                "{found} for {exact}"
            );
        }
        // Of a uniform distribution from zero: 1 / sqrt(3).
        assert!((spread.variation() - 0.577).abs() < 0.001);
    }

    #[test]
    fn sizes_of_blocks_are_exact() {
        let mut spread = Spread::new();
        for size in [512, 4096, 65_536, 1 << 20] {
            spread.add(size);
        }
        let quantiles = spread.quantiles();
        assert_eq!((quantiles.p50, quantiles.p90), (4096, 1 << 20));
    }

    #[test]
    fn nothing_and_the_largest_number_have_quantiles() {
        assert_eq!(Spread::new().quantiles(), Quantiles::default());
        let mut spread = Spread::new();
        spread.add(u64::MAX);
        assert_eq!(spread.quantiles().count, 1);
    }
}
