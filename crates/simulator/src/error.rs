//! Why a simulation cannot be done, split by what the caller does next.

use crate::policy::PolicyError;
use crate::size::SizeError;
use trace::{OpenError, ReadError, SplitError};
use units::Bytes;

/// Why a simulation ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The trace cannot be opened: give its path, or its format.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The trace cannot be read: mend or replace it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its requests cannot be split: choose another block size, or mend it.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A size cannot be used with this trace.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A policy cannot be had at a size.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What was asked needs times, and the trace has none.
    #[error("the trace has no times, and {0} needs them")]
    NoTime(&'static str),
    /// Everything is warm-up.
    #[error("the trace ends within the warm-up of {0}")]
    AllWarmup(String),
    /// A policy that knows the future numbers accesses with 32 bits.
    #[error(
        "the trace has more than {} accesses, too many for a policy that knows the future",
        u32::MAX
    )]
    TooLongForTheFuture,
    /// A run does not fit in the memory.
    #[error("it takes about {needs} of memory, and {limit} are allowed")]
    Memory {
        /// What the program would take with it.
        needs: Bytes,
        /// What it may take.
        limit: Bytes,
    },
    /// The code of a policy panicked; the run has no result, others have theirs.
    #[error("the policy's code panicked: {0}")]
    Panicked(String),
    /// The trace has no reads and writes.
    #[error("the trace has no reads and no writes")]
    Empty,
}
