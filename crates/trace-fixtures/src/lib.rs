//! Where tests find the real traces and the figures they must reproduce.
//!
//! The traces are too large for the repository. They lie in `$HEARTH_TRACES`, else in `../shared/traces`
//! beside the project. Continuous integration (`CI` in the environment) has them, so there a test that
//! misses one fails; elsewhere it says so and is over.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The real trace of that name below the traces' folder, such as `arc/P6.lis.zst`; `None` after a word on
/// stderr if it is not on this machine.
///
/// # Panics
/// If it is missing in continuous integration.
pub fn real_trace(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("HEARTH_TRACES")
        .map_or_else(|| root().join("../shared/traces"), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} is missing: set HEARTH_TRACES to the traces' folder",
        path.display()
    );
    eprintln!(
        "not tested: {} is missing; set HEARTH_TRACES to the traces' folder",
        path.display()
    );
    None
}

/// A table of `fixtures/golden`, such as `streams.csv`: its rows without the header, fields split at commas.
///
/// # Panics
/// If there is no such file.
pub fn golden(name: &str) -> Vec<Vec<String>> {
    let path = root().join("fixtures/golden").join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .skip(1)
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}
