//! Times of requests: counts by logarithmic buckets, and exact mean, least and most.

use hdrhistogram::Histogram as Buckets;
use units::number::real;

/// Percentiles that a report shows: fio's.
pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The longest time that is told apart, an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Two digits: buckets are 1 % wide at most, fio's are 1.6 %; the table stays in the L2 cache.
const DIGITS: u8 = 2;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Buckets<u64>,
    least: u64,
    most: u64,
    sum: f64,
    squares: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = Buckets::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self {
            buckets: buckets.expect("the bounds are sound"),
            least: u64::MAX,
            most: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }
}

impl Histogram {
    /// One more request took this long.
    pub fn record(&mut self, nanos: u64) {
        self.buckets.saturating_record(nanos.max(1));
        self.least = self.least.min(nanos);
        self.most = self.most.max(nanos);
        let nanos = real(nanos);
        self.sum += nanos;
        self.squares += nanos * nanos;
    }

    /// All requests of another.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) {
        let added = self.buckets.add(&other.buckets);
        added.expect("histograms have the same bounds");
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The least; 0 for none.
    pub fn least(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.least }
    }

    /// The most; 0 for none.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean; 0 for none.
    pub fn mean(&self) -> f64 {
        self.sum / real(self.count().max(1))
    }

    /// The standard deviation; 0 for none.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let variance = self.squares / real(self.count().max(1)) - mean * mean;
        variance.max(0.0).sqrt()
    }

    /// The time within which this share of the requests (in percent) were answered, at most 1 %
    /// too long; 0 for none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let value = self.buckets.value_at_percentile(percent);
        // The upper end of a bucket may lie beyond everything that is in it.
        value.min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_thousand_times_are_right() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(micros * 1000);
        }
        assert_eq!((histogram.least(), histogram.most()), (1000, 1_000_000));
        assert!((histogram.mean() - 500_500.0).abs() < 1e-6);
        // Of 1..=n the variance is (n^2 - 1) / 12.
        assert!((histogram.deviation() - 288_675.0).abs() < 1.0);
        for percent in [1.0, 50.0, 99.0, 99.9] {
            let exact = percent * 10_000.0;
            let found = real(histogram.percentile(percent));
            assert!(
                found >= exact && found <= exact * 1.01,
                "{percent}: {found}"
            );
        }
        assert_eq!(histogram.percentile(100.0), 1_000_000);
    }

    #[test]
    fn two_together_are_as_one() {
        let (mut one, mut two, mut both) = Default::default();
        let record = |histogram: &mut Histogram, nanos| histogram.record(nanos);
        for nanos in [5, 700, 90_000] {
            record(&mut one, nanos);
            record(&mut both, nanos);
        }
        for nanos in [1, 2_000_000] {
            record(&mut two, nanos);
            record(&mut both, nanos);
        }
        one.add(&two);
        assert_eq!(one.count(), 5);
        assert_eq!((one.least(), one.most()), (both.least(), both.most()));
        assert_eq!(one.percentile(50.0), both.percentile(50.0));
    }

    #[test]
    fn none_is_zero() {
        let none = Histogram::default();
        assert_eq!(
            (none.least(), none.most(), none.percentile(99.0)),
            (0, 0, 0)
        );
        assert!(none.mean().abs() < 1e-9 && none.deviation().abs() < 1e-9);
    }
}
