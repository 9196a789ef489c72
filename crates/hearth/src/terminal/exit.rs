//! How commands end, and how an error is told: as text, or with `--json` as an object.

use api::client::ClientError;
use api::types::Problem;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
pub(crate) use units::errors::chain;

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
    /// There is no such disk, VM, cache or peer.
    NotFound = 6,
}

/// How every command ends, in the words of the help text.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  the daemon cannot be reached
  4  refused in the present state
  5  a check found damage
  6  there is no such disk, VM, cache or peer";

impl Exit {
    /// The kind of error, where nothing more is known of it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Damaged => "damaged",
            Self::NotFound => "not-found",
        }
    }
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
    /// What kind of error it is: a problem's kind of the admin API, or the exit code's.
    kind: String,
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
            kind: exit.kind().to_owned(),
            message: message.into(),
            remedy: None,
        }
    }

    /// The same, with what to do about it.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// What clap says of a command line that it cannot read.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.trim().split("\n\n");
        let said = parts.next().unwrap_or_default();
        let said = said.strip_prefix("error: ").unwrap_or(said);
        // Without a command clap prints the help instead of an error.
        let message = match error.kind() {
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | clap::error::ErrorKind::MissingSubcommand => "no command was given".to_owned(),
            _ => said.lines().map(str::trim).collect::<Vec<_>>().join(" "),
        };
        let tip = parts.find_map(|part| part.trim().strip_prefix("tip: "));
        Self::new(Exit::Usage, message).with_remedy(tip.unwrap_or("hearth --help"))
    }

    /// The error as a JSON object in a line.
    pub(crate) fn to_json(&self) -> String {
        let told = Told {
            kind: &self.kind,
            detail: &self.message,
            remedy: self.remedy.as_deref(),
            exit_code: self.exit as u8,
        };
        serde_json::to_string(&told).unwrap_or_else(|_| self.to_string())
    }

    /// An error with the causes below it on the same line.
    pub fn of(exit: Exit, error: &dyn std::error::Error) -> Self {
        Self::new(exit, chain(error))
    }
}

/// An error under `--json`, on standard error.
#[derive(Serialize)]
struct Told<'a> {
    kind: &'a str,
    detail: &'a str,
    remedy: Option<&'a str>,
    exit_code: u8,
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let exit = match problem.status {
            400 => Exit::Usage,
            404 => Exit::NotFound,
            401 | 403 | 409 | 429 | 503 => Exit::Refused,
            _ => Exit::Failed,
        };
        let kind = problem.kind.rsplit(':').next().unwrap_or_default();
        Self {
            exit,
            kind: kind.to_owned(),
            message: problem.detail,
            remedy: problem.remedy,
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Refused(problem) => return problem.clone().into(),
            ClientError::Unreachable { .. } => Exit::Unreachable,
            ClientError::Path(_) => Exit::Usage,
            ClientError::Body(_) | ClientError::Answer(_) | ClientError::Strange { .. } => {
                Exit::Failed
            }
        };
        let told = Self::new(exit, error.to_string());
        match error.remedy() {
            Some(remedy) => told.with_remedy(remedy),
            None => told,
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
    use crate::cli::args::Cli;
    use api::problem::ProblemKind;
    use clap::Parser;

    fn usage(words: &[&str]) -> serde_json::Value {
        let error = Cli::try_parse_from(words).unwrap_err();
        serde_json::from_str(&CliError::of_usage(&error).to_json()).unwrap()
    }

    #[test]
    fn an_error_as_json_has_kind_detail_remedy_and_exit_code() {
        let error = CliError::from(Problem::no_such_disk("web"));
        let json: serde_json::Value = serde_json::from_str(&error.to_json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "no-such-disk",
                "detail": "there is no disk 'web'",
                "remedy": "hearth disk list",
                "exit_code": 6,
            })
        );
    }

    #[test]
    fn what_clap_refuses_is_an_error_of_the_same_form() {
        let json = usage(&["hearth", "--json", "disk", "shw", "web"]);
        assert_eq!(json["kind"], "usage");
        assert_eq!(json["exit_code"], 2);
        assert_eq!(json["detail"], "unrecognized subcommand 'shw'");
        assert_eq!(json["remedy"], "a similar subcommand exists: 'show'");
        let json = usage(&["hearth", "--json"]);
        assert_eq!(json["detail"], "no command was given");
        assert_eq!(json["remedy"], "hearth --help");
        let json = usage(&["hearth", "disk", "show", "--json"]);
        assert!(
            json["detail"].as_str().unwrap().contains("<NAME>"),
            "{json}"
        );
    }

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
                Exit::Refused,
                Exit::Refused,
                Exit::Refused,
                Exit::Failed,
            ]
        );
    }
}
