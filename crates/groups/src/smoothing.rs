//! From counts of bytes that sources report now and then to a steady [`TrafficMatrix`].
//!
//! A source (a host's sFlow agent, a connection table) reports the bytes of pairs over an interval. For each source and
//! pair the rates are averaged with weights that fall by a factor of e in [`DAY`]: per-VM traffic is steady over
//! hours and has the day's rhythm (Meng et al., "Improving the Scalability of Data Center Networks with Traffic-aware
//! Virtual Machine Placement", INFOCOM 2010).
//!
//! ```text
//!   at a report over dt:  k = 1 - e^(-dt/day)     rate += k (bytes/dt - rate)     weight += k (1 - weight)
//!   the average:          rate / weight           (so that the first report counts whole)
//! ```
//! Invariants:
//! - Time without a report changes nothing: a source that is silent ages, and its last word stays.
//! - Two sources that see the same pair see the same bytes: the larger average counts, not the sum.

use crate::error::TrafficError;
use crate::limits::SOURCES_MAX;
use crate::names::{Names, check_name};
use crate::traffic::TrafficMatrix;
use std::collections::BTreeMap;
use units::number::real;
use units::{Duration, Instant};

/// The time in which an observation's weight falls by a factor of e.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Bytes that two VMs exchanged in the interval of a report.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// One VM.
    pub first: &'a str,
    /// The other.
    pub second: &'a str,
    /// Bytes in both directions.
    pub bytes: u64,
}

/// Averages of what sources have reported.
#[derive(Clone, Debug, Default)]
pub struct Smoothing {
    names: Names,
    sources: BTreeMap<String, Source>,
}

#[derive(Clone, Debug, Default)]
struct Source {
    last: Instant,
    weight: f64,
    /// Unweighted averages by pair, the smaller index first.
    rates: BTreeMap<(usize, usize), f64>,
}

impl Smoothing {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a report of `source`: bytes over `interval`, which ended at `now`. A pair that is not in the report has
    /// exchanged nothing.
    ///
    /// # Errors
    /// If the interval has no length, a name is no name, or VMs or sources are too many; then nothing is changed
    /// but that names may be known.
    pub fn report(
        &mut self,
        source: &str,
        interval: Duration,
        now: Instant,
        pairs: &[Exchanged<'_>],
    ) -> Result<(), TrafficError> {
        check_name(source)?;
        if interval == Duration::ZERO {
            return Err(TrafficError::NoTime(source.to_owned()));
        }
        if !self.sources.contains_key(source) && self.sources.len() == SOURCES_MAX {
            return Err(TrafficError::TooManySources);
        }
        let mut bytes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for pair in pairs {
            let (first, second) = (
                self.names.place(pair.first)?,
                self.names.place(pair.second)?,
            );
            let key = (first.min(second), first.max(second));
            let sum = bytes.entry(key).or_default();
            *sum = sum.saturating_add(pair.bytes);
        }
        let seconds = real(interval.as_nanos()) / 1e9;
        let gain = -libm::expm1(-real(interval.as_nanos()) / real(DAY.as_nanos()));
        let source = self.sources.entry(source.to_owned()).or_default();
        source.last = source.last.max(now);
        source.weight += gain * (1.0 - source.weight);
        for rate in source.rates.values_mut() {
            *rate -= gain * *rate;
        }
        for (pair, bytes) in bytes {
            *source.rates.entry(pair).or_default() += gain * real(bytes) / seconds;
        }
        Ok(())
    }

    /// The averages: VMs in the order in which they were first reported.
    ///
    /// # Errors
    /// Never: names were checked when they came.
    pub fn matrix(&self) -> Result<TrafficMatrix, TrafficError> {
        let mut largest: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for source in self.sources.values() {
            for (pair, rate) in &source.rates {
                let average = rate / source.weight;
                let known = largest.entry(*pair).or_default();
                *known = known.max(average);
            }
        }
        let mut matrix = TrafficMatrix::of_vms(self.names.all().iter().map(String::as_str))?;
        for ((first, second), rate) in largest {
            matrix.add(first, second, rate)?;
        }
        Ok(matrix)
    }

    /// Each source, and how long ago it last reported.
    pub fn ages(&self, now: Instant) -> impl Iterator<Item = (&str, Duration)> {
        let sources = self.sources.iter();
        sources.map(move |(name, source)| (name.as_str(), now.since(source.last)))
    }

    /// Forgets sources that have been silent for longer than `age`.
    pub fn forget_older(&mut self, age: Duration, now: Instant) {
        self.sources
            .retain(|_, source| now.since(source.last) <= age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(hours: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(3_600 * hours)
    }

    fn exchanged(bytes: u64) -> [Exchanged<'static>; 1] {
        [Exchanged {
            first: "web",
            second: "db",
            bytes,
        }]
    }

    fn rate(smoothing: &Smoothing) -> f64 {
        smoothing.matrix().unwrap().rate(0, 1)
    }

    #[test]
    fn the_first_report_counts_whole() {
        let mut smoothing = Smoothing::new();
        smoothing
            .report("a", HOUR, at(1), &exchanged(3_600_000))
            .unwrap();
        assert!((rate(&smoothing) - 1_000.0).abs() < 1e-6);
    }

    #[test]
    fn an_hour_weighs_little_against_a_day() {
        let mut smoothing = Smoothing::new();
        for hour in 1..=72 {
            smoothing
                .report("a", HOUR, at(hour), &exchanged(3_600_000))
                .unwrap();
        }
        smoothing.report("a", HOUR, at(73), &[]).unwrap();
        let quiet = rate(&smoothing);
        // e^(-1/24), over a weight that is 5 % short of one.
        assert!((950.0..965.0).contains(&quiet), "{quiet}");
        for hour in 74..=145 {
            smoothing.report("a", HOUR, at(hour), &[]).unwrap();
        }
        assert!(rate(&smoothing) < 60.0);
    }

    #[test]
    fn a_silent_source_ages_and_keeps_its_word() {
        let mut smoothing = Smoothing::new();
        smoothing
            .report("a", HOUR, at(1), &exchanged(3_600_000))
            .unwrap();
        assert!((rate(&smoothing) - 1_000.0).abs() < 1e-6);
        let ages: Vec<_> = smoothing.ages(at(49)).collect();
        assert_eq!(ages, [("a", Duration::from_secs(48 * 3_600))]);
        smoothing.forget_older(DAY, at(49));
        assert_eq!(smoothing.ages(at(49)).count(), 0);
        assert!(rate(&smoothing).abs() < 1e-9);
    }

    #[test]
    fn what_two_sources_see_is_not_counted_twice() {
        let mut smoothing = Smoothing::new();
        smoothing
            .report("source", HOUR, at(1), &exchanged(3_600_000))
            .unwrap();
        smoothing
            .report("target", HOUR, at(1), &exchanged(1_800_000))
            .unwrap();
        assert!((rate(&smoothing) - 1_000.0).abs() < 1e-6);
    }

    #[test]
    fn reports_without_time_and_with_the_most_bytes_do_no_harm() {
        let mut smoothing = Smoothing::new();
        let refused = smoothing.report("a", Duration::ZERO, at(1), &exchanged(1));
        assert_eq!(refused, Err(TrafficError::NoTime("a".into())));
        let most = [exchanged(u64::MAX)[0], exchanged(u64::MAX)[0]];
        smoothing
            .report("a", Duration::from_nanos(1), at(1), &most)
            .unwrap();
        assert!(rate(&smoothing).is_finite());
    }
}
