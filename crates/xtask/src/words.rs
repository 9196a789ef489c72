//! Words and shapes that must not stay in the tree: promises to finish later, leftovers of
//! debugging, paths of somebody's machine, former names, source files that do not say what they
//! are for.

use std::path::{Path, PathBuf};

use crate::findings::Findings;
use crate::tree;

/// What may stand nowhere, with what to do instead. Cut in two so that this file passes itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or file an issue"),
    (concat!("FIX", "ME"), "fix it, or file an issue"),
    (concat!("XX", "X:"), "say what is meant"),
    (concat!("to", "do!("), "finish it"),
    (
        concat!("unimpl", "emented!("),
        "finish it, or make it an error",
    ),
    (concat!("db", "g!("), "use tracing"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    // Former names, for which the field has a word.
    (concat!("Last", "ing"), "say retained"),
    (concat!("LAST", "ING"), "say retained"),
    (concat!("lasting", "_places"), "say retained"),
    (concat!("lasting", " memory"), "say retained memory"),
    (concat!("Land", "ing"), "say guest buffer"),
    (concat!("Effect::Land", "ed"), "say ReplyInPlace"),
    (concat!("sti", "r("), "say schedule"),
    (concat!("stir", "red"), "say scheduled"),
    (concat!("turn", "_back"), "say advance"),
];

/// Files whose words are not ours.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE", "fuzz/corpus/", "fixtures/"];

/// Looks at every text file of the tree.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> anyhow::Result<()> {
    for file in files {
        let name = file.display().to_string();
        if FOREIGN.iter().any(|foreign| name.starts_with(foreign)) {
            continue;
        }
        let Some(text) = tree::text(root, file)? else {
            continue;
        };
        check_words(&name, &text, findings);
        if tree::is_rust(file) && !is_module_of_tests(file) && !opens_with_purpose(&text) {
            findings.add(name, "does not open with what it is for (//! ...)");
        }
    }
    Ok(())
}

fn check_words(name: &str, text: &str, findings: &mut Findings) {
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in BANNED {
            if line.contains(word) {
                findings.add(
                    format!("{name}:{}", number + 1),
                    format!("{word}: {instead}"),
                );
            }
        }
    }
}

/// `tests.rs` beside a module: the module says what it is for.
fn is_module_of_tests(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs")
}

fn opens_with_purpose(text: &str) -> bool {
    // Inner attributes and a script's first line may stand before the header.
    text.lines()
        .find(|line| !line.is_empty() && !line.starts_with("#!") && !line.starts_with("// "))
        .is_none_or(|line| line.starts_with("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_word_is_found_with_its_line() {
        let mut findings = Findings::default();
        check_words("a.rs", concat!("fine\n// TO", "DO later\n"), &mut findings);
        assert_eq!(
            findings.lines(),
            [concat!("a.rs:2: TO", "DO: finish it, or file an issue")]
        );
    }

    #[test]
    fn a_source_file_must_open_with_a_module_comment() {
        assert!(opens_with_purpose(
            "#![forbid(unsafe_code)]\n\n//! What it is for.\n"
        ));
        assert!(!opens_with_purpose("use std::fmt;\n"));
    }
}
