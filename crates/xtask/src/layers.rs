//! Which crate may depend on which: the drawing of `ARCHITECTURE.md` as a table (`crates.rs`).
//!
//! ```text
//!  proof     world   hostile   e2e           xtask, guest-probe (on their own)
//!  program   hearth -> daemon -> api -> configuration    study   simulator -> trace -> units
//!  shell     shard -> device origin frontend -> ring      nbd-server vhost-user -> frontend
//!  pure      cache -> destage -> dirty-log, admission -> tenancy -> segment-log -> policy flash-format    medium    nbd-client -> nbd-protocol vhost-protocol -> block-io -> units
//! ```
//!
//! A pure crate depends on pure ones only, and of other people's crates only on those in
//! [`PURE_MAY_USE`]. A crate that is not in the table is an error: adding one is a decision.

mod crates;

use std::path::Path;

use anyhow::Context;
use toml::{Table, Value};

use crate::findings::Findings;
use crates::{Crate, Layer, TABLE};

/// What a pure crate may use of other people's work; each line's reason is in `book/src/dependencies.md`.
const PURE_MAY_USE: &[&str] = &[
    "crc-fast",
    "foldhash",
    "hashbrown",
    "libm",
    "postcard",
    "rand_xoshiro",
    "serde",
    "slab",
    "smallvec",
    "thiserror",
    "xxhash-rust",
    "zerocopy",
];

/// Checks every member's `Cargo.toml` against the table.
pub(crate) fn check(root: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    check_members(root, findings)?;
    let dependencies_page =
        std::fs::read_to_string(root.join("book/src/dependencies.md")).unwrap_or_default();
    for entry in TABLE {
        let manifest = format!("{}/Cargo.toml", entry.folder);
        // Crates of the table that no issue needed so far do not exist yet.
        let Ok(text) = std::fs::read_to_string(root.join(&manifest)) else {
            continue;
        };
        let table: Table = text.parse().with_context(|| manifest.clone())?;
        check_dependencies(entry, &table, &manifest, &dependencies_page, findings);
        check_lints(entry, root, &table, &manifest, findings);
    }
    Ok(())
}

fn check_members(root: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    for folder in std::fs::read_dir(root.join("crates")).context("listing crates/")? {
        let name = folder?.file_name().to_string_lossy().into_owned();
        let known = TABLE
            .iter()
            .any(|entry| entry.folder == format!("crates/{name}"));
        if !known && root.join("crates").join(&name).join("Cargo.toml").exists() {
            findings.add(
                format!("crates/{name}"),
                "is not in the table of layers (crates/xtask/src/layers.rs)",
            );
        }
    }
    Ok(())
}

fn check_dependencies(
    entry: &Crate,
    table: &Table,
    manifest: &str,
    page: &str,
    findings: &mut Findings,
) {
    for (section, is_product) in [
        ("dependencies", true),
        ("build-dependencies", true),
        ("dev-dependencies", false),
    ] {
        let Some(Value::Table(dependencies)) = table.get(section) else {
            continue;
        };
        for name in dependencies.keys() {
            match TABLE.iter().find(|other| other.name == name) {
                Some(other) => check_edge(entry, other, is_product, manifest, findings),
                None => check_foreign(entry, name, is_product, manifest, page, findings),
            }
        }
    }
}

fn check_edge(
    entry: &Crate,
    other: &Crate,
    is_product: bool,
    manifest: &str,
    findings: &mut Findings,
) {
    if is_product && !entry.below.contains(&other.name) {
        findings.add(
            manifest,
            format!("{} may not depend on {}", entry.name, other.name),
        );
    }
    // A test may look sideways, but a pure crate's test that needs the shell is in the wrong crate.
    if !is_product && entry.layer == Layer::Pure && other.layer != Layer::Pure {
        findings.add(
            manifest,
            format!(
                "tests of the pure crate {} may not use {}",
                entry.name, other.name
            ),
        );
    }
}

fn check_foreign(
    entry: &Crate,
    name: &str,
    is_product: bool,
    manifest: &str,
    page: &str,
    findings: &mut Findings,
) {
    if is_product && entry.layer == Layer::Pure && !PURE_MAY_USE.contains(&name) {
        findings.add(
            manifest,
            format!("the pure crate {} may not use {name}", entry.name),
        );
    }
    if !page.contains(&format!("`{name}`")) {
        findings.add(
            manifest,
            format!("{name} has no line in book/src/dependencies.md"),
        );
    }
}

fn check_lints(entry: &Crate, root: &Path, table: &Table, manifest: &str, findings: &mut Findings) {
    let inherits = table
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if !inherits {
        findings.add(
            manifest,
            "does not take the workspace's lints ([lints] workspace = true)",
        );
    }
    if entry.layer == Layer::Pure && !root.join(entry.folder).join("clippy.toml").exists() {
        findings.add(
            manifest,
            "a pure crate links lints/pure/clippy.toml as its clippy.toml",
        );
    }
    if entry.may_be_unsafe {
        return;
    }
    for file in ["src/lib.rs", "src/main.rs"] {
        let path = format!("{}/{file}", entry.folder);
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else {
            continue;
        };
        if !text.contains("#![forbid(unsafe_code)]") {
            findings.add(path, "has no #![forbid(unsafe_code)]");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_for(name: &str, manifest: &str) -> Vec<String> {
        let entry = TABLE.iter().find(|entry| entry.name == name).unwrap();
        let mut findings = Findings::default();
        let page = "`thiserror` `tokio` `anyhow`";
        check_dependencies(
            entry,
            &manifest.parse().unwrap(),
            "Cargo.toml",
            page,
            &mut findings,
        );
        findings.lines().to_vec()
    }

    #[test]
    fn a_pure_crate_may_not_depend_on_the_shell() {
        let found = findings_for("cache", "[dependencies]\nring.workspace = true");
        assert_eq!(found, ["Cargo.toml: cache may not depend on ring"]);
    }

    #[test]
    fn a_pure_crate_may_not_use_an_unlisted_crate_of_others() {
        let found = findings_for("cache", "[dependencies]\ntokio = \"1\"");
        assert_eq!(
            found,
            ["Cargo.toml: the pure crate cache may not use tokio"]
        );
    }

    #[test]
    fn tests_of_a_pure_crate_stay_among_pure_crates() {
        assert!(findings_for("cache", "[dev-dependencies]\nnbd-protocol = {}").is_empty());
        assert_eq!(
            findings_for("cache", "[dev-dependencies]\ndevice = {}").len(),
            1
        );
    }

    #[test]
    fn a_dependency_without_its_line_in_the_book_is_found() {
        let found = findings_for("hearth", "[dependencies]\nleft-pad = \"1\"");
        assert_eq!(
            found,
            ["Cargo.toml: left-pad has no line in book/src/dependencies.md"]
        );
    }

    #[test]
    fn the_table_itself_points_downwards() {
        for (place, entry) in TABLE.iter().enumerate() {
            for name in entry.below {
                let below = TABLE.iter().position(|other| other.name == *name).unwrap();
                assert!(below < place, "{} is listed above {name}", entry.name);
                assert!(
                    entry.layer != Layer::Pure || TABLE[below].layer == Layer::Pure,
                    "{}",
                    entry.name
                );
            }
        }
    }
}
