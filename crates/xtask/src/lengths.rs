//! The ratchet on file lengths: 500 lines without tests is the aim, 800 the wall.
//!
//! A file between the two stands in `lints/file-lengths.txt` with the lines it had when it was
//! accepted. It may shrink, not grow; `cargo xtask tidy --record` lowers the table and drops the
//! files that came below the aim, but never lets a file above the wall in.
//!
//! Tests at the end of a module (`#[cfg(test)] mod ...`) and files of tests do not count towards the
//! aim: a longer list of facts is no harder to read. They have the wall all the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::findings::Findings;
use crate::{table, tree};

const AIM: usize = 500;
const WALL: usize = 800;
const TABLE: &str = "lints/file-lengths.txt";
const TABLE_HEADER: &str = "\
# Files of more than 500 lines without their tests, each with the lines it may not exceed.
# Written by `cargo xtask tidy --record`; the way out of this table is to split the file.
";

/// Compares every Rust file with the aim, the wall and the table.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> anyhow::Result<()> {
    let accepted = table::read(root, TABLE)?.unwrap_or_default();
    for (file, lines) in measure(root, files)? {
        let aim = if tree::is_tests(Path::new(&file)) {
            WALL
        } else {
            AIM
        };
        let allowed = accepted.get(&file).copied().unwrap_or(aim);
        if lines > WALL {
            findings.add(
                file,
                format!("has {lines} lines without tests; split it (the wall is {WALL})"),
            );
        } else if lines > allowed {
            findings.add(
                file,
                format!("has {lines} lines without tests; it may have {allowed}"),
            );
        }
    }
    Ok(())
}

/// Rewrites the table from the tree as it is.
pub(crate) fn record(root: &Path) -> anyhow::Result<()> {
    let mut long = BTreeMap::new();
    for (file, lines) in measure(root, &tree::files(root)?)? {
        ensure!(
            lines <= WALL,
            "{file} has {lines} lines without tests: split it, it cannot be recorded"
        );
        if lines > AIM && !tree::is_tests(Path::new(&file)) {
            long.insert(file, lines);
        }
    }
    table::write(root, TABLE, TABLE_HEADER, &long)
}

fn measure(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<(String, usize)>> {
    let mut measured = Vec::new();
    for file in files.iter().filter(|file| tree::is_rust(file)) {
        if let Some(text) = tree::text(root, file)? {
            measured.push((file.display().to_string(), lines_without_tests(&text)));
        }
    }
    Ok(measured)
}

/// Lines before the test module that closes a file; all of them if there is none.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines
        .windows(2)
        .position(opens_tests)
        .unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_test_module_does_not_count() {
        assert_eq!(
            lines_without_tests("one\ntwo\n#[cfg(test)]\nmod tests {\n}\n"),
            2
        );
    }

    #[test]
    fn a_test_module_in_its_own_file_takes_nothing_off() {
        assert_eq!(
            lines_without_tests("one\n#[cfg(test)]\nmod tests;\ntwo\n"),
            4
        );
    }
}
