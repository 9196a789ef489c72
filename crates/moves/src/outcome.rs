//! What a run answers.

use hdrhistogram::Histogram;
use serde::Serialize;
use units::number::{count_near, real};
use units::{Duration, Instant};

/// What one VM got in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Blocks read.
    pub reads: u64,
    /// Of them those that flash had.
    pub read_hits: u64,
    /// Blocks written.
    pub writes: u64,
}

/// What one VM got in a part of a run.
#[derive(Clone, Debug)]
pub struct Span {
    /// All of it.
    pub total: Sample,
    /// In order of time.
    pub samples: Vec<Sample>,
    reads: Histogram<u64>,
    all: Histogram<u64>,
    began: Instant,
    interval: Duration,
}

impl Span {
    pub(crate) fn new(interval: Duration) -> Self {
        // Three digits: a thousandth is less than any device model is worth.
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self {
            total: Sample::default(),
            samples: Vec::new(),
            reads: histogram(),
            all: histogram(),
            began: Instant::ZERO,
            interval,
        }
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        let interval = self.interval;
        *self = Self::new(interval);
        self.began = now;
    }

    pub(crate) fn add(&mut self, now: Instant, sample: Sample) {
        let at = now.since(self.began).as_nanos() / self.interval.as_nanos().max(1);
        let at = usize::try_from(at).unwrap_or(0);
        if self.samples.len() <= at {
            self.samples.resize(at + 1, Sample::default());
        }
        for into in [&mut self.total, &mut self.samples[at]] {
            into.reads += sample.reads;
            into.read_hits += sample.read_hits;
            into.writes += sample.writes;
        }
    }

    pub(crate) fn answered(&mut self, is_read: bool, took: Duration) {
        let nanos = took.as_nanos().max(1);
        let of_read = if is_read {
            self.reads.record(nanos)
        } else {
            Ok(())
        };
        let recorded = of_read.and(self.all.record(nanos));
        assert!(recorded.is_ok(), "a histogram that grows takes every time");
    }

    /// Whether the VM read anything.
    pub fn has_reads(&self) -> bool {
        self.total.reads > 0
    }

    /// Part of the reads that flash had.
    pub fn hit_ratio(&self) -> f64 {
        real(self.total.read_hits) / real(self.total.reads.max(1))
    }

    /// What a part of all requests took at most.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.all.value_at_quantile(part))
    }

    /// What reads took in the mean.
    pub fn read_mean(&self) -> Duration {
        Duration::from_nanos(count_near(self.reads.mean()))
    }
}

/// What one VM got.
#[derive(Clone, Debug)]
pub struct VmOutcome {
    /// Until the move began.
    pub before: Span,
    /// From when the moving VM stopped.
    pub after: Span,
}

/// What a run answers.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Each VM, in the order of the setup.
    pub vms: Vec<VmOutcome>,
    /// How long the moving VM was stopped.
    pub paused: Duration,
    /// From when it stopped until what is copied without being asked for was there. None: that did not end in time.
    pub copied: Option<Duration>,
    /// Blocks that came from the other host's flash.
    pub from_lender: u64,
    /// Blocks that were read at the origin without being asked for.
    pub from_origin: u64,
    /// Blocks that the other host had to discard because they were changed after it had copied them.
    pub discarded: u64,
    /// Blocks that the origin lacked when the VM stopped.
    pub dirty_at_stop: u64,
    /// Blocks that a VM was given with older bytes than it had written. Always none, or a rule is broken.
    pub stale: u64,
}
