//! The folder of one test, and how a test begins and ends.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{limits, tools};

/// A folder that goes away when the test passes and stays when it fails.
pub struct Lab {
    folder: PathBuf,
}

impl Lab {
    fn new() -> anyhow::Result<Self> {
        // Short: a unix socket's path has at most 107 bytes.
        let folder = tempfile::Builder::new()
            .prefix("hearth-e2e-")
            .tempdir()
            .context("a folder for the test")?;
        Ok(Self {
            folder: folder.keep(),
        })
    }

    /// Another host of the same test: a folder inside this one.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn host(&self, name: &str) -> anyhow::Result<Self> {
        let folder = self.path(name);
        std::fs::create_dir(&folder).context("a folder for a host")?;
        Ok(Self { folder })
    }

    /// A path inside the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file and gives its path.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, content).with_context(|| name.to_owned())?;
        Ok(path)
    }

    fn show_logs(&self) {
        println!("kept: {}", self.folder.display());
        let mut logs = entries(&self.folder);
        // Each host of several has a folder of its own.
        let hosts: Vec<_> = logs.iter().filter(|path| path.is_dir()).collect();
        let of_hosts: Vec<_> = hosts.into_iter().flat_map(|host| entries(host)).collect();
        logs.extend(of_hosts);
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        for log in logs {
            let bytes = std::fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(limits::LOG_LINES_SHOWN);
            println!(
                "---- {} (last {} of {} lines)",
                log.display(),
                lines.len() - from,
                lines.len()
            );
            println!("{}", lines[from..].join("\n"));
        }
    }
}

/// The files and folders in a folder; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Runs a test in a folder of its own, if the tools that it names are installed.
///
/// # Panics
///
/// When the test fails, after showing where its folder is and how its logs end; or when a tool is
/// missing and `CI=true`.
pub fn scenario(tools: &[&str], body: impl FnOnce(&Lab) -> anyhow::Result<()>) {
    if !tools::all_present(tools) {
        return;
    }
    let lab = Lab::new().unwrap_or_else(|error| panic!("{error:#}"));
    let shown = ShowLogsOnPanic(&lab);
    if let Err(error) = body(&lab) {
        panic!("{error:#}");
    }
    drop(shown);
    // A folder that cannot be removed is no reason to fail a test that passed.
    let _ = std::fs::remove_dir_all(lab.folder());
}

struct ShowLogsOnPanic<'a>(&'a Lab);

impl Drop for ShowLogsOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.show_logs();
        }
    }
}
