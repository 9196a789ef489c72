//! `cargo xtask tidy`: runs every check that needs no compiler and lists what it found.

use std::path::Path;

use anyhow::bail;

use crate::{layers, lengths, tree, words};

/// What the checks found: a place and what is wrong there.
#[derive(Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    /// Adds one finding.
    pub(crate) fn add(&mut self, place: impl AsRef<str>, what: impl AsRef<str>) {
        self.0
            .push(format!("{}: {}", place.as_ref(), what.as_ref()));
    }

    /// The findings as lines, in the order they were made.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// Runs all checks.
///
/// # Errors
///
/// When anything was found; the findings themselves go to stdout.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let files = tree::files(root)?;
    let mut findings = Findings::default();
    layers::check(root, &mut findings)?;
    lengths::check(root, &files, &mut findings)?;
    words::check(root, &files, &mut findings)?;
    words::check_book(root, &files, &mut findings);
    for line in &findings.0 {
        println!("{line}");
    }
    match findings.0.len() {
        0 => Ok(()),
        1 => bail!("tidy: one finding"),
        count => bail!("tidy: {count} findings"),
    }
}
