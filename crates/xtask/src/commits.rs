//! What a commit's subject looks like: `crate: imperative summary`, of at most 100 characters.
//!
//! Before the colon stand crates, folders or files of the top of the tree, parted by commas. The summary begins
//! with a verb of `lints/verbs.txt`: nothing else tells `test` from `tests`, or `mend` from `mended`, for sure.
//! Commits before [`START`] are left alone, and all of them where the history does not go back to it, as
//! in a shallow clone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::findings::Findings;
use crate::git;

/// The last commit whose subject was not checked.
const START: &str = "39faa8f5d93cf9f35700387da7b27e8672a1197b";

const VERBS: &str = "lints/verbs.txt";

/// The longest subject, in characters.
const LENGTH_MAX: usize = 100;

/// Behind these the first word is a noun, however often it is a verb: `test is`, `name of`.
const AFTER_NOUNS: &[&str] = &[
    "is", "are", "was", "were", "has", "have", "had", "may", "must", "can", "cannot", "will",
    "does", "of", "that", "which", "who",
];

/// Checks the subjects of the commits since [`START`].
///
/// # Errors
///
/// When git or the list of verbs cannot be read.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> anyhow::Result<()> {
    let verbs = std::fs::read_to_string(root.join(VERBS)).context(VERBS)?;
    let rules = Rules {
        places: places(files),
        verbs: verbs.lines().collect(),
    };
    for line in subjects(root, START)?.lines() {
        if let Some((commit, subject)) = line.split_once(' ')
            && let Some(fault) = rules.fault(subject)
        {
            findings.add(format!("commit {commit}"), format!("`{subject}`: {fault}"));
        }
    }
    Ok(())
}

/// A line for each commit since `start`, merges left out; empty if the history has no `start`.
fn subjects(root: &Path, start: &str) -> anyhow::Result<String> {
    let goes_back = git::output(root, &["merge-base", "--is-ancestor", start, "HEAD"])?;
    if !goes_back.status.success() {
        return Ok(String::new());
    }
    let range = format!("{start}..HEAD");
    git::text(root, &["log", "--no-merges", "--format=%h %s", &range])
}

/// What may stand before the colon: crates, and what lies at the top of the tree without dot and extension.
fn places(files: &[PathBuf]) -> BTreeSet<String> {
    // The package in `tests/`.
    let mut places = BTreeSet::from(["e2e".to_owned()]);
    for file in files {
        let mut parts = file.iter().map(|part| part.to_string_lossy());
        let Some(top) = parts.next() else { continue };
        let name = top.trim_start_matches('.').split('.').next();
        places.extend(name.map(str::to_owned));
        if top == "crates" {
            places.extend(parts.next().map(std::borrow::Cow::into_owned));
        }
    }
    places
}

struct Rules<'a> {
    places: BTreeSet<String>,
    verbs: BTreeSet<&'a str>,
}

impl Rules<'_> {
    /// What is wrong with a subject.
    fn fault(&self, subject: &str) -> Option<String> {
        let length = subject.chars().count();
        if length > LENGTH_MAX {
            return Some(format!("has {length} characters, {LENGTH_MAX} are allowed"));
        }
        let Some((prefix, summary)) = subject.split_once(": ") else {
            return Some("write `crate: imperative summary`".to_owned());
        };
        let unknown = prefix
            .split(", ")
            .find(|place| !self.places.contains(*place));
        if let Some(place) = unknown {
            return Some(format!(
                "`{place}` is no crate, nor a folder or file of the top of the tree"
            ));
        }
        let mut words = summary
            .split(' ')
            .map(|word| word.trim_end_matches([',', ';']));
        let (first, second) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        if !self.verbs.contains(first) {
            return Some(format!(
                "begin the summary with a verb in the imperative, in small letters; `{first}` is not in {VERBS}"
            ));
        }
        if AFTER_NOUNS.contains(&second) {
            return Some(format!(
                "`{first} {second}` is no imperative: name what to do"
            ));
        }
        summary.ends_with('.').then(|| "has a full stop".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(subject: &str) -> Option<String> {
        let files = [
            "crates/cache/src/lib.rs",
            "crates/shard/src/lib.rs",
            "README.md",
            ".ci/run",
            "tests/a.rs",
        ];
        let rules = Rules {
            places: places(&files.map(PathBuf::from)),
            verbs: include_str!("../../../lints/verbs.txt").lines().collect(),
        };
        rules.fault(subject)
    }

    #[test]
    fn good_subjects_are_taken() {
        for subject in [
            "cache: drop what a failed flush of the origin may have lost, and tell the guest",
            "cache, shard: notice an older copy of the flash of the same attachment",
            "README, ci: run, then test",
            "e2e: embed a guest's kernel",
        ] {
            assert_eq!(fault(subject), None, "{subject}");
        }
    }

    #[test]
    fn what_is_no_imperative_is_refused() {
        for subject in [
            "cache: the journal is durable before a record is closed",
            "cache: it keeps what was written",
            "cache: mended the journal",
            "cache: mending the journal",
            "cache: keeps the journal",
            "cache: Keep the journal",
            "cache: test of a failed sync",
            "cache: record is closed",
            "cache: ",
        ] {
            assert!(fault(subject).is_some(), "{subject}");
        }
    }

    #[test]
    fn the_shape_is_checked() {
        for (subject, said) in [
            ("mend the journal", "crate: imperative summary"),
            ("kache: mend the journal", "`kache` is no crate"),
            ("cache, kache: mend the journal", "`kache` is no crate"),
            ("cache: mend the journal.", "full stop"),
        ] {
            let fault = fault(subject).unwrap();
            assert!(fault.contains(said), "{subject}: {fault}");
        }
        let longest = format!("cache: mend {}", "x".repeat(LENGTH_MAX - 12));
        assert_eq!(fault(&longest), None);
        assert!(fault(&format!("{longest}x")).unwrap().contains("101"));
    }

    #[test]
    fn only_what_is_new_is_listed_and_a_history_without_the_start_is_no_fault() {
        let root = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| git::as_somebody(root.path(), arguments);
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "old"]);
        let start = git(&["rev-parse", "HEAD"]);
        git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "new: a subject",
        ]);

        let listed = subjects(root.path(), &start).unwrap();

        assert!(
            listed.ends_with(" new: a subject\n") && listed.lines().count() == 1,
            "{listed}"
        );
        assert_eq!(subjects(root.path(), &"0".repeat(40)).unwrap(), "");
    }

    #[test]
    fn the_list_of_verbs_is_sorted() {
        let list = include_str!("../../../lints/verbs.txt");
        let verbs: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(verbs.is_sorted());
    }
}
