//! Why the daemon did not start, or did not stop cleanly.

use std::fmt;
use units::errors::chain;

/// What kind of error it is: how the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeErrorKind {
    /// Something failed.
    Failed,
    /// The configuration asks for what cannot be.
    Usage,
    /// Another process has what this one needs.
    Refused,
}

/// Why the daemon did not start, or did not stop cleanly, and what to do about it.
#[derive(Debug)]
pub struct ServeError {
    /// What kind of error.
    pub kind: ServeErrorKind,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl ServeError {
    pub(crate) fn new(kind: ServeErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            remedy: None,
        }
    }

    /// An error with the causes below it on the same line.
    pub(crate) fn of(kind: ServeErrorKind, error: &dyn std::error::Error) -> Self {
        Self::new(kind, chain(error))
    }

    pub(crate) fn failed(error: &dyn std::error::Error) -> Self {
        Self::of(ServeErrorKind::Failed, error)
    }

    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServeError {}
