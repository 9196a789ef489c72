//! What git says of the tree.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, ensure};

/// Runs git in `root`, whatever comes of it.
///
/// # Errors
///
/// When there is no git to run.
pub(crate) fn output(root: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new("git");
    let command = command.args(arguments).current_dir(root);
    command.output().context("running git")
}

/// What git prints.
///
/// # Errors
///
/// When git fails, with what it says of that.
pub(crate) fn text(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = output(root, arguments)?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// As [`text`], with somebody who commits.
#[cfg(test)]
pub(crate) fn as_somebody(root: &Path, arguments: &[&str]) -> String {
    let who = [
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
    ];
    let text = text(root, &[&who, arguments].concat()).unwrap();
    text.trim().to_owned()
}
