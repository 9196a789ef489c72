//! Worlds with an NBD origin: none finds a violation, and together they reach every branch. `world --nbd --seeds` runs more.

#![allow(clippy::panic, reason = "a failure prints its whole trace")]

use world::{Marks, Options, nbd};

const SEEDS: u64 = 4_000;

/// What the seeds above must reach.
const RARE: [&str; 15] = [
    "came back shorter",
    "cannot send",
    "connected again",
    "connection broke",
    "crash",
    "disconnected",
    "errors",
    "failed",
    "half-closed",
    "lost",
    "nonsense",
    "shutdown",
    "standstill",
    "timed out",
    "failed",
];

#[test]
fn worlds_hold_and_reach_every_branch() {
    let mut marks = Marks::default();
    for seed in 0..SEEDS {
        match nbd::run(Options::new(seed)) {
            Ok(outcome) => marks.merge(&outcome.marks),
            Err(failure) => panic!(
                "seed {seed}: {}\n{}\nagain: cargo run -p world -- --nbd --seed {seed} --trace",
                failure.violation,
                failure.trace.join("\n")
            ),
        }
    }
    let missed: Vec<_> = RARE.iter().filter(|name| marks.count(name) == 0).collect();
    assert!(missed.is_empty(), "no seed reached: {missed:?}");
}

/// Worlds beyond those above that have found something.
const FOUND: [u64; 5] = [158_282, 181_540, 184_488, 219_492, 241_099];

#[test]
fn worlds_that_once_found_something_find_nothing() {
    for seed in FOUND {
        if let Err(failure) = nbd::run(Options::new(seed)) {
            panic!("seed {seed}: {}", failure.violation);
        }
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..50 {
        let run = || nbd::run(Options::new(seed)).map_or(0, |outcome| outcome.digest);
        assert_eq!(run(), run());
    }
}
