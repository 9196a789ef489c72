//! The book's list of end-to-end tests: a row for each file of `tests/tests`, in the words of the file's
//! own heading. Each is a module of the one program that has them all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::findings::Findings;
use crate::tree;

const FOLDER: &str = "tests/tests";
/// The program of all tests.
pub(crate) const PROGRAM: &str = "tests/tests/main.rs";
const PAGE: &str = "book/src/end-to-end-tests.md";
/// The head of the list, which ends with the first line that is no row.
const HEAD: &str = "| file | what it shows |\n|---|---|\n";

/// Compares the list with the files.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> anyhow::Result<()> {
    let program = tree::text(root, Path::new(PROGRAM))?.context(PROGRAM)?;
    let mut wanted = BTreeSet::new();
    for file in files.iter().filter(|file| tree::is_rust(file)) {
        if file.parent() == Some(Path::new(FOLDER))
            && file != Path::new(PROGRAM)
            && let Some(text) = tree::text(root, file)?
        {
            let name = file.file_stem().context("a file has a name")?;
            let name = name.to_string_lossy();
            check_module(&name, &program, findings);
            wanted.insert(row(&name, &text));
        }
    }
    let page = tree::text(root, Path::new(PAGE))?.context(PAGE)?;
    compare(&page, &wanted, findings);
    Ok(())
}

/// A file that is no module of the program is not compiled, and its tests never run.
fn check_module(name: &str, program: &str, findings: &mut Findings) {
    let module = format!("mod {name};");
    if !program.lines().any(|line| line == module) {
        findings.add(PROGRAM, format!("lacks the module: {module}"));
    }
}

fn compare(page: &str, wanted: &BTreeSet<String>, findings: &mut Findings) {
    let list = page.split_once(HEAD).map_or("", |(_, list)| list);
    let rows = list.lines().take_while(|line| line.starts_with('|'));
    let written: BTreeSet<String> = rows.map(str::to_owned).collect();
    for row in wanted.difference(&written) {
        findings.add(PAGE, format!("lacks the row: {row}"));
    }
    for row in written.difference(wanted) {
        findings.add(PAGE, format!("no file of {FOLDER} has the row: {row}"));
    }
}

/// The row of a file: its name, and the first paragraph of its documentation.
fn row(name: &str, text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//! "));
    let words: Vec<&str> = lines.collect();
    format!("| `{name}` | {} |", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_first_paragraph_of_its_file() {
        let text = "//! It starts\n//! again.\n//!\n//! More of it.\n\nuse x;\n";
        assert_eq!(row("restart", text), "| `restart` | It starts again. |");
    }

    #[test]
    fn a_file_that_is_no_module_is_found() {
        let mut findings = Findings::default();
        let program = "//! All.\n\nmod restart;\n";
        check_module("restart", program, &mut findings);
        check_module("start", program, &mut findings);
        assert_eq!(
            findings.lines(),
            ["tests/tests/main.rs: lacks the module: mod start;"]
        );
    }

    #[test]
    fn a_file_without_row_and_a_row_without_file_are_found() {
        let wanted: BTreeSet<String> = [row("a", "//! A.\n"), row("b", "//! B.\n")].into();
        let mut findings = Findings::default();
        let page = format!("# Tests\n\n{HEAD}| `a` | A. |\n| `c` | C. |\n\nMore.\n");
        compare(&page, &wanted, &mut findings);
        assert_eq!(
            findings.lines(),
            [
                "book/src/end-to-end-tests.md: lacks the row: | `b` | B. |",
                "book/src/end-to-end-tests.md: no file of tests/tests has the row: | `c` | C. |",
            ]
        );
    }
}
