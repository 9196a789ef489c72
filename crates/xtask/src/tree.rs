//! Finds the workspace and lists the files that belong to it: those that git tracks or would track.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::git;

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .nth(2)
        .context("xtask lies two folders below the root")?;
    ensure!(
        root.join("Cargo.toml").is_file(),
        "no Cargo.toml in {}",
        root.display()
    );
    Ok(root.to_path_buf())
}

/// Every file of the tree, relative to `root`, sorted. What `.gitignore` names is left out.
///
/// # Errors
///
/// When git cannot list the files: a tree without git has no list of what belongs to it.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = git::text(
        root,
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let mut files: Vec<PathBuf> = listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        // A file that is deleted but not yet committed is still in git's list.
        .filter(|path| root.join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// The text of a file, or `None` if it is not text.
pub(crate) fn text(root: &Path, file: &Path) -> anyhow::Result<Option<String>> {
    let bytes =
        std::fs::read(root.join(file)).with_context(|| format!("reading {}", file.display()))?;
    Ok(String::from_utf8(bytes).ok())
}

/// Whether the file is Rust source.
pub(crate) fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

/// Whether the file holds nothing but tests: a program of tests, a module of one that is a folder, or a module `tests`.
pub(crate) fn is_tests(file: &Path) -> bool {
    let mut folders = file.ancestors().skip(1);
    let is_program = folders
        .next()
        .is_some_and(|folder| folder.ends_with("tests"));
    // What is in `tests/src` helps the tests, and has none.
    let is_module = file.starts_with("crates")
        && folders
            .next()
            .is_some_and(|folder| folder.ends_with("tests"));
    is_program || is_module || file.file_name().is_some_and(|name| name == "tests.rs")
}
