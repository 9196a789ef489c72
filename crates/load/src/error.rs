//! Why there was no load.

use std::io;

/// Why a load could not be begun, split by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target is not there, or cannot be reached.
    #[error("{target} cannot be opened")]
    Unreachable {
        /// Its name.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody listens there, and closed the connection before anything was asked.
    #[error("{target} closed the connection")]
    HungUp {
        /// Its name.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// The target is there and will not serve this.
    #[error("{target} refuses: {reason}")]
    Refused {
        /// Its name.
        target: String,
        /// Its reason.
        reason: String,
    },
    /// The settings contradict each other or do not fit the target.
    #[error("{what}")]
    Unfit {
        /// What does not fit.
        what: String,
        /// What would.
        remedy: Remedy,
    },
    /// The machine has no thread, ring or memory for it.
    #[error("no {what}")]
    Machine {
        /// What is missing.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What to do about an error, in words for a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy(pub String);

impl LoadError {
    pub(crate) fn unfit(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unfit {
            what: what.into(),
            remedy: Remedy(remedy.into()),
        }
    }
}
