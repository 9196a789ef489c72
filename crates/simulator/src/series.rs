//! Samples over time: what was counted in each interval.
//!
//! Intervals are spans of the trace's time, or numbers of accesses where a trace has no time. Without a
//! given length they begin short and double whenever there would be too many, so that one pass over a
//! trace of unknown length gives between 256 and 512 of them. An interval of time in which nothing
//! happened has no sample.

use crate::counters::Counters;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use units::Duration;

/// Samples that are kept when the length of an interval is chosen by the program.
const SAMPLES_AUTOMATIC: usize = 512;

/// How long the intervals are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interval {
    /// As long as it takes to have some hundred.
    #[default]
    Automatic,
    /// That long, in the trace's time.
    Time(Duration),
    /// That many block accesses.
    Accesses(u64),
}

/// The text is not an interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an interval: write a time of at least 1us (60s), a number of accesses (100000) or auto"
)]
pub struct ParseIntervalError(String);

impl FromStr for Interval {
    type Err = ParseIntervalError;

    fn from_str(text: &str) -> Result<Self, ParseIntervalError> {
        let error = || ParseIntervalError(text.to_owned());
        if text == "auto" {
            return Ok(Self::Automatic);
        }
        if let Ok(accesses) = text.parse::<u64>() {
            return if accesses > 0 {
                Ok(Self::Accesses(accesses))
            } else {
                Err(error())
            };
        }
        let time: Duration = text.parse().map_err(|_| error())?;
        if time < Duration::from_micros(1) {
            return Err(error());
        }
        Ok(Self::Time(time))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Automatic => f.write_str("auto"),
            Self::Time(time) => write!(f, "{time}"),
            Self::Accesses(accesses) => write!(f, "{accesses}"),
        }
    }
}

/// What a VM has of a cache that is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VmSample {
    /// Blocks that it may hold.
    pub share_blocks: u64,
    /// Blocks that it holds.
    pub held_blocks: u64,
    /// Blocks that it is expected to want, where that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand_blocks: Option<u64>,
}

/// What happened in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Where the interval begins: microseconds since the first request, or accesses.
    pub start: u64,
    /// What was counted in it.
    #[serde(flatten)]
    pub counters: Counters,
    /// Blocks in the cache at its end.
    pub used_blocks: u32,
    /// Dirty ones among them.
    pub dirty_blocks: u32,
    /// What each VM has at its end, by the VM's number; of a cache that is divided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<VmSample>,
}

/// What an interval's `start` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Microseconds since the first request.
    TimeUs,
    /// Block accesses.
    Accesses,
}

/// The samples of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// What `start` counts.
    pub axis: Axis,
    /// The length of an interval, in units of `axis`.
    pub interval: u64,
    /// In order of their starts.
    pub samples: Vec<Sample>,
    #[serde(skip)]
    automatic: bool,
}

impl Series {
    pub(crate) fn new(interval: Interval, has_time: bool) -> Self {
        let (axis, interval, automatic) = match interval {
            Interval::Time(time) => (Axis::TimeUs, time.as_nanos() / 1000, false),
            Interval::Accesses(accesses) => (Axis::Accesses, accesses, false),
            Interval::Automatic if has_time => (Axis::TimeUs, 1000, true),
            Interval::Automatic => (Axis::Accesses, 64, true),
        };
        Self {
            axis,
            interval,
            samples: Vec::new(),
            automatic,
        }
    }

    /// The start of the interval that holds the moment `at`.
    pub(crate) const fn start_of(&self, at: u64) -> u64 {
        at - at % self.interval
    }

    /// Adds what was counted in the interval that starts at `sample.start`, or more of it.
    pub(crate) fn add(&mut self, sample: Sample) {
        match self.samples.last_mut() {
            // A trace whose clock steps back adds to where it had come.
            Some(last) if last.start >= sample.start => {
                last.counters += &sample.counters;
                last.used_blocks = sample.used_blocks;
                last.dirty_blocks = sample.dirty_blocks;
                last.vms = sample.vms;
            }
            _ => self.samples.push(sample),
        }
        while self.automatic && self.span() > SAMPLES_AUTOMATIC as u64 {
            self.halve();
        }
    }

    /// Intervals from the first to the last, empty ones too.
    fn span(&self) -> u64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => (last.start - first.start) / self.interval + 1,
            _ => 0,
        }
    }

    fn halve(&mut self) {
        self.interval *= 2;
        let mut halved: Vec<Sample> = Vec::with_capacity(self.samples.len() / 2 + 1);
        for mut sample in self.samples.drain(..) {
            sample.start -= sample.start % self.interval;
            match halved.last_mut() {
                Some(last) if last.start == sample.start => {
                    last.counters += &sample.counters;
                    last.used_blocks = sample.used_blocks;
                    last.dirty_blocks = sample.dirty_blocks;
                    last.vms = sample.vms;
                }
                _ => halved.push(sample),
            }
        }
        self.samples = halved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(start: u64, reads: u64) -> Sample {
        Sample {
            start,
            counters: Counters {
                reads,
                ..Counters::default()
            },
            used_blocks: 0,
            dirty_blocks: 0,
            vms: Vec::new(),
        }
    }

    #[test]
    fn intervals_parse_as_they_print() {
        for text in ["auto", "1min", "100000"] {
            assert_eq!(
                text.parse::<Interval>().map(|i| i.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["0", "0s", "10ns", "often"] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }

    #[test]
    fn automatic_intervals_double_and_lose_nothing() {
        let mut series = Series::new(Interval::Automatic, true);
        for second in 0..3600 {
            let start = series.start_of(second * 1_000_000);
            series.add(sample(start, 1));
        }
        assert_eq!(series.interval, 8_192_000);
        assert_eq!(series.samples.len(), 440);
        assert_eq!(
            series.samples.iter().map(|s| s.counters.reads).sum::<u64>(),
            3600
        );
        assert!(
            series
                .samples
                .iter()
                .all(|s| s.start % series.interval == 0)
        );
    }

    #[test]
    fn given_intervals_stay_and_empty_ones_are_left_out() {
        let mut series = Series::new(Interval::Time(Duration::from_secs(1)), true);
        for at in [0, 500_000, 9_000_000, 8_000_000] {
            let start = series.start_of(at);
            series.add(sample(start, 1));
        }
        let counts: Vec<_> = series
            .samples
            .iter()
            .map(|s| (s.start, s.counters.reads))
            .collect();
        assert_eq!(counts, [(0, 2), (9_000_000, 2)]);
    }
}
