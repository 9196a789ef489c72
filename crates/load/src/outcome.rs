//! What came of a load.

use crate::{Histogram, Usage};
use std::io;
use workload::Finding;

/// Requests of one direction.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bytes of those that were answered.
    pub bytes: u64,
    /// Their times, in nanoseconds.
    pub times: Histogram,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.times.add(&other.times);
    }
}

/// What verification found.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Blocks that were right.
    pub right: u64,
    /// Blocks that were wrong.
    pub wrong: u64,
    /// Blocks of which nothing was known.
    pub unknown: u64,
    /// The first wrong ones.
    pub findings: Vec<Finding>,
}

/// Why a job ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A request failed.
    #[error("{what} of {length} bytes at offset {offset} failed")]
    Request {
        /// What it was.
        what: &'static str,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// Why.
        source: io::Error,
    },
    /// The trace that is replayed cannot be read on.
    #[error("the trace cannot be read on")]
    Trace {
        /// Why.
        source: io::Error,
    },
    /// The connection, queue or ring is no longer there.
    #[error("the target is gone")]
    Gone {
        /// Why.
        source: io::Error,
    },
}

impl JobError {
    /// The error number that a report shows.
    pub fn number(&self) -> i32 {
        match self {
            Self::Request { source, .. } | Self::Gone { source } | Self::Trace { source } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
        }
    }
}

/// What came of one job, or of several together.
#[derive(Debug, Default)]
pub struct JobOutcome {
    /// Reads, writes and trims.
    pub directions: [Tally; 3],
    /// Syncs.
    pub syncs: Tally,
    /// What was counted, from the end of the warm-up to the last answer, in nanoseconds.
    pub elapsed_ns: u64,
    /// What its thread used meanwhile.
    pub usage: Usage,
    /// What verification found, if there was one.
    pub verified: Option<Verified>,
    /// Why it ended before its time, if it did.
    pub error: Option<JobError>,
}

impl JobOutcome {
    /// Adds another job that ran at the same time.
    pub(crate) fn add(&mut self, other: Self) {
        for (mine, other) in self.directions.iter_mut().zip(&other.directions) {
            mine.add(other);
        }
        self.syncs.add(&other.syncs);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.usage = self.usage.plus(other.usage);
        if let Some(other) = other.verified {
            let mine = self.verified.get_or_insert_default();
            mine.right += other.right;
            mine.wrong += other.wrong;
            mine.unknown += other.unknown;
            mine.findings.extend(other.findings);
            mine.findings.truncate(crate::limits::FINDINGS_MAX);
        }
        self.error = self.error.take().or(other.error);
    }
}

/// What came of a load.
#[derive(Debug)]
pub struct Outcome {
    /// Each job's.
    pub jobs: Vec<JobOutcome>,
}

impl Outcome {
    /// All jobs as one. Their processor time adds up; their time is the longest one's.
    pub fn together(self) -> JobOutcome {
        let mut all = JobOutcome::default();
        for job in self.jobs {
            all.add(job);
        }
        all
    }
}
