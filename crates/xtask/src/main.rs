//! The workspace's own checks, run as `cargo xtask <command>`.
//!
//! - `tidy`: what no compiler checks: which crate may depend on which, file lengths, the structure of
//!   crates, words that must not stay in the tree, links of the book, subjects of commits. `tidy --record`
//!   rewrites the tables of `lints/` after a file was split or a type became smaller.
//! - `structure`: methods, open fields and files of the largest types, arrows and circles among the
//!   modules of each crate. `structure --json` prints everything.
//! - `instructions`: what a read hit costs, counted; fails if it grew. `instructions --record` keeps
//!   the new number.
//! - `check`: what the changes since `main` can have broken: packages that changed, and those that depend on
//!   them. `--since REVISION` compares with another commit, `--e2e FILTER` runs end-to-end tests, too.
//! - `ci`: everything that must pass before a change is kept, in the order that fails soonest.
//!
//! Nothing here is part of the product, and nothing here needs the network.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod book;
mod changes;
mod check;
mod ci;
mod commits;
mod findings;
mod git;
mod instructions;
mod layers;
mod lengths;
mod scenarios;
mod steps;
mod structure;
mod table;
mod tidy;
mod tree;
mod words;

use std::process::ExitCode;

use anyhow::bail;

const USAGE: &str = "usage: cargo xtask tidy [--record] | structure [--json] | \
    check [--since REVISION] [--e2e FILTER] | instructions [--record] | ci [--no-tests]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = tree::workspace_root()?;
    match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["tidy", "--record"] => tidy::record(&root),
        ["structure"] => structure::run(&root, structure::Format::Table),
        ["structure", "--json"] => structure::run(&root, structure::Format::Json),
        ["instructions"] => instructions::run(&root, false),
        ["instructions", "--record"] => instructions::run(&root, true),
        ["check", options @ ..] => check::run(&root, &check::Options::parse(options)?),
        ["ci"] => ci::run(&root, ci::Scope::Everything),
        ["ci", "--no-tests"] => ci::run(&root, ci::Scope::ChecksOnly),
        _ => bail!("{USAGE}"),
    }
}
