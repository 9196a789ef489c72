//! How a world is run, and how that ends.

use crate::marks::Marks;
use crate::violation::Violation;

/// How a world is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Keep every line of the trace.
    pub trace: bool,
    /// End the first life by a power cut at this operation instead of when the seed says.
    pub crash_at: Option<u64>,
}

impl Options {
    /// The world of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            trace: false,
            crash_at: None,
        }
    }
}

/// How a run ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// One number for everything that happened.
    pub digest: u64,
    /// Rare branches that were reached.
    pub marks: Marks,
    /// Operations of the first life: where a crash can be put.
    pub operations: u64,
    /// The trace, if it was asked for.
    pub trace: Vec<String>,
}

/// How a run ended badly.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was found.
    pub violation: Violation,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}
