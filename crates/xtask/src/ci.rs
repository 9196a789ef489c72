//! `cargo xtask ci`: what must pass before a change is kept.
//!
//! The steps run in the order that fails soonest; the tests come last, so that the run closes with
//! the test runner's own summary. A tool that this machine has not is skipped by its name, except
//! that the end-to-end tests themselves fail for a missing tool when `CI=true` (see `tests/`).

use std::path::Path;

use anyhow::bail;

use crate::steps;

/// How much of it to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The checks and all tests.
    Everything,
    /// The checks only.
    ChecksOnly,
}

struct Step {
    name: &'static str,
    /// Asked with `--version` to see whether the tool is there.
    tool: &'static [&'static str],
    command: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// Lets a test take a guard out, on its own thread. Everything that is tested is built with it, once, so that
/// the tests of the guards, which are minutes of a processor, run beside the end-to-end tests, which mostly
/// wait. What is released is built without it, and so is what `instructions` counts.
const GUARDS: &str = "world/mutants,hearth/etcd";

const TIDY: Step = Step {
    name: "tidy",
    tool: &["cargo"],
    command: &["cargo", "xtask", "tidy"],
    environment: &[],
};

const CHECKS: &[Step] = &[
    Step {
        name: "format",
        tool: &["cargo", "fmt"],
        command: &["cargo", "fmt", "--all", "--check"],
        environment: &[],
    },
    TIDY,
    // The advisory database is asked by `make deny`: what it says changes without a change here.
    Step {
        name: "dependencies (licences, bans, sources)",
        tool: &["cargo", "deny"],
        command: &[
            "cargo",
            "deny",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ],
        environment: &[],
    },
    Step {
        name: "clippy",
        tool: &["cargo", "clippy"],
        command: &[
            "cargo",
            "clippy",
            "--workspace",
            "--features",
            GUARDS,
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
    },
    Step {
        name: "documentation",
        tool: &["rustdoc"],
        command: &[
            "cargo",
            "doc",
            "--workspace",
            "--features",
            GUARDS,
            "--no-deps",
            "--document-private-items",
            "--locked",
        ],
        environment: &[
            ("RUSTDOCFLAGS", "-D warnings"),
            ("RUSTDOC", "scripts/rustdoc"),
        ],
    },
];

const TESTS: &[Step] = &[
    Step {
        name: "examples in the documentation",
        tool: &["cargo"],
        command: &[
            "cargo",
            "test",
            "--workspace",
            "--features",
            GUARDS,
            "--doc",
            "--locked",
            "--quiet",
        ],
        environment: &[],
    },
    // The command says itself whether valgrind is missing, which in continuous integration it may not be.
    Step {
        name: "instructions of a read hit",
        tool: &["cargo"],
        command: &["cargo", "xtask", "instructions"],
        environment: &[],
    },
];

/// Builds the programs that the end-to-end tests run, too: each has tests of its own beside it. A build of the programs
/// alone would be one more: what is only for tests asks some libraries for more than the programs do.
const NEXTEST: Step = Step {
    name: "tests",
    tool: &["cargo", "nextest"],
    command: &[
        "cargo",
        "nextest",
        "run",
        "--workspace",
        "--features",
        GUARDS,
        "--locked",
        "--profile",
        "ci",
    ],
    environment: &[],
};

/// Runs the steps of `scope` and stops at the first that fails.
///
/// # Errors
///
/// When a step fails, or when there is no test runner.
pub(crate) fn run(root: &Path, scope: Scope) -> anyhow::Result<()> {
    let mut skipped = Vec::new();
    let tests: &[Step] = if scope == Scope::Everything {
        TESTS
    } else {
        &[]
    };
    for step in CHECKS.iter().chain(tests) {
        if steps::is_present(step.tool) {
            let took = steps::run(root, step.name, step.command, step.environment)?;
            println!("== {}: fine, {took}", step.name);
        } else {
            skipped.push(format!(
                "{} ({} is not installed)",
                step.name,
                step.tool.join(" ")
            ));
        }
    }
    for line in &skipped {
        println!("skipped: {line}");
    }
    if scope == Scope::Everything {
        if !steps::is_present(NEXTEST.tool) {
            bail!("cargo nextest is not installed; `make setup` installs it");
        }
        steps::run(root, NEXTEST.name, NEXTEST.command, NEXTEST.environment)?;
    }
    Ok(())
}
