//! What came of a replay.

use super::Kind;
use crate::{Histogram, JobError, Usage};

/// Requests of one kind that were answered.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Their bytes.
    pub bytes: u64,
    /// From the time each was due to its answer, in nanoseconds; at [`super::Speed::Max`] from its submission.
    pub latency: Histogram,
    /// From the submission of each to its answer, in nanoseconds.
    pub service: Histogram,
}

/// What came of a replay.
#[derive(Debug, Default)]
pub struct ReplayOutcome {
    /// By [`Kind::index`].
    pub kinds: [Answered; 5],
    /// Requests of the trace that were begun.
    pub begun_requests: u64,
    /// Those of them that began more than a millisecond after they were due.
    pub late_requests: u64,
    /// How long after they were due those were begun, in nanoseconds.
    pub lateness: Histogram,
    /// Requests that were left out because the target knows none of their kind.
    pub unknown_requests: u64,
    /// From the beginning to the last answer, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the thread used meanwhile.
    pub usage: Usage,
    /// Why it ended before its time, if it did.
    pub error: Option<JobError>,
}

impl ReplayOutcome {
    /// What came of the requests of one kind.
    pub fn of(&self, kind: Kind) -> &Answered {
        &self.kinds[kind.index()]
    }
}
