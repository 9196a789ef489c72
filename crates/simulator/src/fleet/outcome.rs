//! What a run of a fleet counts.

use super::checks::Violation;
use super::settings::Rule;
use serde::Serialize;
use units::number::real;

/// A window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Its number, from zero.
    pub window: usize,
    /// Hosts that are there.
    pub hosts: usize,
    /// Hosts above 90 %.
    pub overloaded: usize,
    /// Mean of the hosts' loads.
    pub load_mean: f64,
    /// Their standard deviation.
    pub load_stddev: f64,
    /// Hit ratio of all reads, by curve; none if nothing is read.
    pub hits: Option<f64>,
    /// Mean over reads of their VM's 90th percentile, in milliseconds; none if nothing is read.
    pub p90_ms: Option<f64>,
    /// Moves that ended in this window, each by how.
    pub done: usize,
    /// Moves that were rolled back.
    pub rolled_back: usize,
    /// Moves that failed.
    pub failed: usize,
    /// Bytes of caches that were moved.
    pub moved_bytes: u64,
    /// Flash that plans said to be missing, in all hosts.
    pub missing_bytes: u64,
}

/// A run of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The rule's word.
    pub rule: &'static str,
    /// Each window.
    pub samples: Vec<Sample>,
    /// Moves that got another driver than the one that began them.
    pub drivers_replaced: usize,
    /// Hosts that published a part of their demand.
    pub liars: usize,
    /// How many of them were distrusted at the end.
    pub liars_found: usize,
    /// Honest hosts that were distrusted at the end.
    pub honest_distrusted: usize,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

/// A run in sums, and each window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary<'a> {
    /// Part of all host-windows that were above 90 %.
    pub overloaded_part: f64,
    /// Mean over windows of the loads' standard deviation.
    pub load_stddev: f64,
    /// Moves that were done.
    pub moves: usize,
    /// Moves that were rolled back.
    pub rolled_back: usize,
    /// Moves that failed.
    pub failed: usize,
    /// Bytes of caches that were moved.
    pub moved_bytes: u64,
    /// Mean over windows of the hit ratio.
    pub hits: f64,
    /// Mean over windows of the 90th percentile, in milliseconds.
    pub p90_ms: f64,
    /// All of it.
    #[serde(flatten)]
    pub outcome: &'a Outcome,
}

impl Outcome {
    /// Its sums.
    pub fn summary(&self) -> Summary<'_> {
        let (rolled_back, failed) = self.not_done();
        Summary {
            overloaded_part: self.overloaded_part(),
            load_stddev: self.mean(|sample| Some(sample.load_stddev)),
            moves: self.moves(),
            rolled_back,
            failed,
            moved_bytes: self.moved_bytes(),
            hits: self.mean(|sample| sample.hits),
            p90_ms: self.mean(|sample| sample.p90_ms),
            outcome: self,
        }
    }

    pub(super) const fn new(rule: Rule) -> Self {
        Self {
            rule: rule.word(),
            samples: Vec::new(),
            drivers_replaced: 0,
            liars: 0,
            liars_found: 0,
            honest_distrusted: 0,
            violations: Vec::new(),
        }
    }

    /// Host-windows above 90 %.
    pub fn overloaded(&self) -> usize {
        self.samples.iter().map(|sample| sample.overloaded).sum()
    }

    /// Their part of all host-windows.
    pub fn overloaded_part(&self) -> f64 {
        let all: usize = self.samples.iter().map(|sample| sample.hosts).sum();
        real(self.overloaded() as u64) / real(all as u64).max(1.0)
    }

    /// Moves that were done.
    pub fn moves(&self) -> usize {
        self.samples.iter().map(|sample| sample.done).sum()
    }

    /// Moves that were rolled back, and those that failed.
    pub fn not_done(&self) -> (usize, usize) {
        let samples = self.samples.iter();
        samples.fold((0, 0), |(back, failed), sample| {
            (back + sample.rolled_back, failed + sample.failed)
        })
    }

    /// Bytes of caches that were moved.
    pub fn moved_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.moved_bytes).sum()
    }

    /// The mean of something over the windows that have it.
    pub fn mean(&self, of: impl Fn(&Sample) -> Option<f64>) -> f64 {
        let there: Vec<f64> = self.samples.iter().filter_map(of).collect();
        there.iter().sum::<f64>() / real(there.len() as u64).max(1.0)
    }
}

/// A row of the design's probe: 500 hosts with 20 VMs, 148 windows, all hosts planned at once, moves that take no time
/// and do not fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// The rule, in the probe's words.
    pub rule: &'static str,
    /// Moves.
    pub moves: usize,
    /// Part of host-windows above 90 %.
    pub overloaded_part: f64,
    /// The loads' standard deviation.
    pub load_stddev: f64,
}

/// The probe's table, to stand beside ours.
pub const PROBE: [Probe; 3] = [
    Probe {
        rule: "none",
        moves: 0,
        overloaded_part: 0.159,
        load_stddev: 0.180,
    },
    Probe {
        rule: "90 %, 3 windows",
        moves: 295,
        overloaded_part: 0.017,
        load_stddev: 0.079,
    },
    Probe {
        rule: "90 %, 1 window, no rest",
        moves: 379,
        overloaded_part: 0.005,
        load_stddev: 0.068,
    },
];
