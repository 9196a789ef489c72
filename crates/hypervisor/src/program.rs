//! Programs that are run to their end.

use crate::error::HypervisorError;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// How long a program may take that asks or orders something.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Bytes of what a program says that are told on.
const SAID_BYTES_MAX: usize = 500;

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) printed: String,
    /// What it complained of, on one line.
    pub(crate) said: String,
}

/// Runs a program to its end.
pub(crate) async fn run(mut command: Command, called: &str) -> Result<Ended, HypervisorError> {
    command.kill_on_drop(true);
    let ended = tokio::time::timeout(ENDS_WITHIN, to_its_end(command, called)).await;
    ended.map_err(|_| HypervisorError::Late(called.to_owned()))?
}

/// Runs a program to its end, whenever that is.
pub(crate) async fn to_its_end(
    mut command: Command,
    called: &str,
) -> Result<Ended, HypervisorError> {
    // What it says is looked for words.
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().await;
    let output = output.map_err(|source| HypervisorError::Start {
        program: called.to_owned(),
        source,
    })?;
    Ok(Ended {
        status: output.status,
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        said: on_one_line(&output.stderr),
    })
}

fn on_one_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let words: Vec<&str> = said.split_whitespace().collect();
    words.join(" ").chars().take(SAID_BYTES_MAX).collect()
}

impl Ended {
    /// What it printed, if it ended well.
    pub(crate) fn well(self, called: &str) -> Result<String, HypervisorError> {
        if self.status.success() {
            return Ok(self.printed);
        }
        Err(HypervisorError::Refused {
            program: called.to_owned(),
            said: if self.said.is_empty() {
                self.status.to_string()
            } else {
                self.said
            },
        })
    }
}
