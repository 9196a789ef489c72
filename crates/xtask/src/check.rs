//! `cargo xtask check`: what a change can have broken, in minutes: format, tidy, lints and tests of the
//! packages that changed and of those that depend on them directly. `ci` checks the rest.
//!
//! Of the end-to-end tests those run whose file changed, and those that `--e2e` names.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::changes::{self, Concerned, END_TO_END};
use crate::steps::{self, Took};
use crate::tidy;

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Compare with this revision.
    since: Option<String>,
    /// Run the end-to-end tests whose names have this in them.
    end_to_end: Option<String>,
}

impl Options {
    /// Reads what stands behind `check`.
    ///
    /// # Errors
    ///
    /// When it is not understood.
    pub(crate) fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = match *word {
                "--since" => &mut options.since,
                "--e2e" => &mut options.end_to_end,
                _ => bail!("check does not know `{word}`: check [--since REVISION] [--e2e FILTER]"),
            };
            let value = words
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            *place = Some((*value).to_owned());
        }
        Ok(options)
    }
}

/// A command with the name of its step.
type Step = (&'static str, Vec<String>);

/// Checks what the changes concern, and stops at the first step that fails.
///
/// # Errors
///
/// When a step fails, or when it cannot be found out what changed.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let changes = changes::since(root, options.since.as_deref())?;
    let packages = changes::packages(root)?;
    let concerned = changes::concerned(&packages, &changes.files, |file| {
        changes::readers(root, file)
    });
    println!(
        "{} files changed since {:.12}; packages: {}",
        changes.files.len(),
        changes.base,
        list(concerned.packages.iter())
    );
    for file in &concerned.everywhere {
        println!("note: {file} concerns every package; `cargo xtask ci` checks them all");
    }
    let began = Instant::now();
    let mut took = Vec::new();
    let format = ("format", words(&["cargo", "fmt", "--all", "--check"]));
    took.push((format.0, run_step(root, &format)?));
    println!("== tidy");
    let tidy_began = Instant::now();
    tidy::run(root)?;
    let elapsed = tidy_began.elapsed();
    took.push((
        "tidy",
        Took {
            elapsed,
            processor: elapsed,
        },
    ));
    for step in steps_for(&concerned, options.end_to_end.as_deref()) {
        took.push((step.0, run_step(root, &step)?));
    }
    println!("== fine after {:.0} s:", began.elapsed().as_secs_f64());
    for (name, took) in took {
        println!("   {name}: {took}");
    }
    Ok(())
}

fn run_step(root: &Path, (name, command): &Step) -> anyhow::Result<Took> {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    steps::run(root, name, &command, &[])
}

/// The steps that compile, in their order.
fn steps_for(concerned: &Concerned, end_to_end: Option<&str>) -> Vec<Step> {
    let mut steps = Vec::new();
    let chosen = |packages: &[&String]| -> Vec<String> {
        let named = packages
            .iter()
            .flat_map(|name| ["--package", name.as_str()]);
        named.map(str::to_owned).collect()
    };
    let all: Vec<&String> = concerned.packages.iter().collect();
    if !all.is_empty() {
        let mut clippy = words(&["cargo", "clippy", "--locked", "--all-targets"]);
        clippy.extend(chosen(&all));
        clippy.extend(words(&["--", "--deny", "warnings"]));
        steps.push(("clippy", clippy));
    }
    let nextest = words(&["cargo", "nextest", "run", "--locked", "--no-tests", "pass"]);
    let quick: Vec<&String> = all.into_iter().filter(|name| *name != END_TO_END).collect();
    if !quick.is_empty() {
        steps.push(("tests", [nextest.clone(), chosen(&quick)].concat()));
    }
    let nextest = [nextest, words(&["--package", END_TO_END])].concat();
    if !concerned.end_to_end.is_empty() || end_to_end.is_some() {
        let build = words(&["cargo", "build", "--locked", "--workspace", "--bins"]);
        steps.push(("programs", build));
    }
    if !concerned.end_to_end.is_empty() {
        let files = concerned.end_to_end.iter();
        let files = files.map(|name| format!("{name}::")).collect();
        steps.push((
            "end-to-end tests that changed",
            [nextest.clone(), files].concat(),
        ));
    }
    if let Some(filter) = end_to_end {
        let named = [nextest, words(&[filter])].concat();
        steps.push(("end-to-end tests that were named", named));
    }
    steps
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(packages: &[&str], end_to_end: &[&str], filter: Option<&str>) -> Vec<String> {
        let concerned = Concerned {
            packages: words(packages).into_iter().collect(),
            end_to_end: words(end_to_end).into_iter().collect(),
            everywhere: Vec::new(),
        };
        let steps = steps_for(&concerned, filter);
        steps
            .into_iter()
            .map(|(_, command)| command.join(" "))
            .collect()
    }

    #[test]
    fn what_changed_is_linted_and_tested() {
        assert_eq!(
            lines(&["cache", "shard"], &[], None),
            [
                "cargo clippy --locked --all-targets --package cache --package shard -- --deny warnings",
                "cargo nextest run --locked --no-tests pass --package cache --package shard",
            ]
        );
        assert!(lines(&[], &[], None).is_empty());
    }

    #[test]
    fn end_to_end_tests_run_by_file_and_by_name_only() {
        assert_eq!(
            lines(&["e2e"], &[], None).len(),
            1,
            "the kit alone is linted"
        );
        assert_eq!(
            lines(&["e2e"], &["kill_amid"], Some("vhost"))[1..],
            [
                "cargo build --locked --workspace --bins",
                "cargo nextest run --locked --no-tests pass --package e2e kill_amid::",
                "cargo nextest run --locked --no-tests pass --package e2e vhost",
            ]
        );
    }

    #[test]
    fn the_command_line_is_read() {
        let options = Options::parse(&["--since", "HEAD~2", "--e2e", "kill"]).unwrap();
        assert_eq!(options.since.as_deref(), Some("HEAD~2"));
        assert_eq!(options.end_to_end.as_deref(), Some("kill"));
        assert!(Options::parse(&["--since"]).is_err());
        assert!(Options::parse(&["cache"]).is_err());
    }
}
