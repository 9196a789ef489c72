//! Commands of the program that need no daemon.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::hearth_program;

/// How a command ended and what it said.
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Answer {
    /// Its standard output as JSON.
    ///
    /// # Errors
    ///
    /// When it failed, or answered something else.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        ensure!(self.code == 0, "exit code {}: {}", self.code, self.stderr);
        serde_json::from_str(&self.stdout).with_context(|| self.stdout.clone())
    }
}

/// Runs the program to its end.
///
/// # Errors
///
/// When it is not built, or ended by a signal.
pub fn hearth(words: &[&str]) -> anyhow::Result<Answer> {
    let output = Command::new(hearth_program()?)
        .args(words)
        .output()
        .context("running hearth")?;
    Ok(Answer {
        code: output.status.code().context("it ended by a signal")?,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Has the program check a configuration.
///
/// # Errors
///
/// When the program cannot be run.
pub fn check_config(path: &Path) -> anyhow::Result<Answer> {
    let path = path.display().to_string();
    hearth(&["serve", "--config", &path, "--check-config"])
}
