//! Running other people's tools, and knowing which of them are here.

use std::process::Command;

use anyhow::{Context, ensure};

/// What a tool said.
pub struct Output {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Whether all `tools` are installed. Says which one is not.
///
/// # Panics
///
/// When one is missing and `CI=true`: there a skipped test would pass for a test that passed.
pub(crate) fn all_present(tools: &[&str]) -> bool {
    for tool in tools {
        let found = SYSTEM_FOLDERS
            .iter()
            .any(|folder| std::path::Path::new(folder).join(tool).exists());
        if !found {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "{tool} is not installed; run `make setup`"
            );
            println!("skipped: {tool} is not installed (`make setup` installs it)");
            return false;
        }
    }
    true
}

/// Whether this user may mount. Says so if not; that is a matter of the machine and not of what is
/// installed, so a test that needs it is skipped in CI too.
pub fn is_root(what_for: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: {what_for} needs root");
    }
    is_root
}

const SYSTEM_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Debian's tools are scripts for Debian's interpreters (`nbdsh` for its Python), so they run with
/// the system's folders first.
pub(crate) fn with_system_path(command: &mut Command) -> &mut Command {
    let own = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{own}", SYSTEM_FOLDERS.join(":")))
        .env("LC_ALL", "C.UTF-8")
}

/// Runs a tool that must succeed.
///
/// # Errors
///
/// When it cannot be run or fails; what it said is part of the error.
pub fn run(command: &mut Command) -> anyhow::Result<Output> {
    let (succeeded, output) = finish(command)?;
    ensure!(
        succeeded,
        "{command:?} failed:\n{}\n{}",
        output.stdout.trim_end(),
        output.stderr.trim_end()
    );
    Ok(output)
}

/// Runs a tool that must fail.
///
/// # Errors
///
/// When it cannot be run or succeeds.
pub fn run_expecting_failure(command: &mut Command) -> anyhow::Result<Output> {
    let (succeeded, output) = finish(command)?;
    ensure!(
        !succeeded,
        "{command:?} should have failed and said:\n{}",
        output.stdout
    );
    Ok(output)
}

fn finish(command: &mut Command) -> anyhow::Result<(bool, Output)> {
    let (code, output) = exit_code(command)?;
    Ok((code == 0, output))
}

/// Runs a tool whose exit code tells more than success and failure.
pub(crate) fn exit_code(command: &mut Command) -> anyhow::Result<(i32, Output)> {
    let output = with_system_path(command)
        .output()
        .with_context(|| format!("running {command:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code();
    Ok((
        code.with_context(|| format!("{command:?} ended by a signal"))?,
        Output {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        },
    ))
}

/// Runs a Python script with `h`, a libnbd handle, connected to `uri`; without a URI it is not
/// connected. The script fails the test by raising.
///
/// # Errors
///
/// When the script raises.
pub fn nbdsh(uri: Option<&str>, script: &str) -> anyhow::Result<Output> {
    let mut command = Command::new("nbdsh");
    if let Some(uri) = uri {
        // Asked for before connecting, so that scripts can look at block status.
        command.args(["--base-allocation", "--uri", uri]);
    }
    run(command.arg("-c").arg(script))
}
