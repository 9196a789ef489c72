//! What the world finds wrong.

use std::fmt;

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which invariant of the design, such as `I1`.
    pub invariant: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    /// A violation of this invariant.
    pub fn new(invariant: &'static str, what: String) -> Self {
        Self { invariant, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated: {}", self.invariant, self.what)
    }
}

impl std::error::Error for Violation {}
