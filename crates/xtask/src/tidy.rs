//! `cargo xtask tidy`: runs every check that needs no compiler and lists what it found.

use std::path::Path;

use anyhow::bail;

use crate::findings::Findings;
use crate::{book, commits, layers, lengths, scenarios, structure, tree, words};

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
    scenarios::check(root, &files, &mut findings)?;
    words::check(root, &files, &mut findings)?;
    book::check(root, &files, &mut findings)?;
    structure::ratchet::check(root, &mut findings)?;
    commits::check(root, &files, &mut findings)?;
    for line in findings.lines() {
        println!("{line}");
    }
    match findings.lines().len() {
        0 => Ok(()),
        1 => bail!("tidy: one finding"),
        count => bail!("tidy: {count} findings"),
    }
}

/// Writes the tables of `lints/` anew: file lengths and structure.
///
/// # Errors
///
/// When something is in the tree that no table takes.
pub(crate) fn record(root: &Path) -> anyhow::Result<()> {
    lengths::record(root)?;
    structure::ratchet::record(root)
}
