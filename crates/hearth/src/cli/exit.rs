//! How commands end.

use crate::api::types::Problem;
use std::fmt;
use std::process::ExitCode;

/// Exit codes. They are part of the interface: scripts branch on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It failed.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The daemon cannot be reached.
    Unreachable = 3,
    /// Refused in the present state.
    Refused = 4,
    /// A check found damage.
    Damaged = 5,
    /// There is no such disk, VM or cache.
    NotFound = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked to, and what to do about it.
#[derive(Debug)]
pub struct CliError {
    /// How the process ends.
    pub exit: Exit,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl CliError {
    /// An error that ends with this code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            remedy: None,
        }
    }

    /// The same, with what to do about it.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// An error with the causes below it on the same line.
    pub fn of(exit: Exit, error: &dyn std::error::Error) -> Self {
        Self::new(exit, chain(error))
    }
}

/// An error and its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let exit = match problem.status {
            400 => Exit::Usage,
            404 => Exit::NotFound,
            409 | 503 => Exit::Refused,
            _ => Exit::Failed,
        };
        Self {
            exit,
            message: problem.detail,
            remedy: problem.remedy,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  try: {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::problem::ProblemKind;

    #[test]
    fn every_problem_has_an_exit_code_of_its_kind() {
        let exits = ProblemKind::ALL.map(|kind| CliError::from(Problem::new(kind, "x")).exit);
        assert_eq!(
            exits,
            [
                Exit::Usage,
                Exit::NotFound,
                Exit::NotFound,
                Exit::NotFound,
                Exit::NotFound,
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Failed,
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Failed,
            ]
        );
    }
}
