//! How a step ended, and what it says of that on the console.

use std::io::Write as _;

/// Whether everything that a step looked at was as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// All as expected.
    Pass,
    /// At least one difference, already printed.
    Fail,
}

impl Verdict {
    /// Passes if nothing was bad.
    pub(crate) fn from_bad(bad: u64) -> Self {
        if bad == 0 { Self::Pass } else { Self::Fail }
    }
}

/// Why a step could not be carried out at all.
#[derive(Debug)]
pub(crate) enum ProbeError {
    /// The step is not written as it must be.
    Usage(String),
    /// The guest's kernel refused; what was being done, and its answer.
    Io(String, std::io::Error),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(text) => f.write_str(text),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

/// Says what was being done when an I/O call failed.
pub(crate) trait Doing<T> {
    /// Attaches `what` to the error.
    fn doing(self, what: impl std::fmt::Display) -> Result<T, ProbeError>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl std::fmt::Display) -> Result<T, ProbeError> {
        self.map_err(|error| ProbeError::Io(what.to_string(), error))
    }
}

/// Prints one line for the host.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A console that is gone is no reason to stop: the disk is what is under test.
    let _ = writeln!(out, "PROBE {line}").and_then(|()| out.flush());
}
