//! Worlds of two hosts: none finds a violation, and together they reach every branch. `world --sites --seeds` runs more.

#![allow(clippy::panic, reason = "a failure prints its whole trace")]

use world::{Marks, Options, sites};

const SEEDS: u64 = 1_000;

/// What the seeds above must reach.
const RARE: [&str; 41] = [
    "asked the lender",
    "attach refused",
    "boot",
    "borrowed",
    "chunk left in retained memory",
    "connection ended",
    "copied ahead",
    "copy failed",
    "daemon killed",
    "detach refused",
    "error reached the guest",
    "given away",
    "hand-over ended by a request",
    "kept records",
    "late change landed",
    "leftovers dropped",
    "lender was late",
    "link cut",
    "loan lost",
    "loan refused",
    "move given up",
    "moved",
    "nobody waits for a claim",
    "not held",
    "not settled",
    "not shipped in time",
    "patience ended",
    "power cut",
    "pulled everything",
    "read by the owner",
    "records refused",
    "records were late",
    "second start",
    "shipped",
    "source goes on",
    "stale discarded",
    "standby dropped leftovers",
    "tail lost",
    "the copy counts",
    "waited for what was given up",
    "went on at the source",
];

#[test]
fn worlds_hold_and_reach_every_branch() {
    let mut marks = Marks::default();
    for seed in 0..SEEDS {
        match sites::run(Options::new(seed)) {
            Ok(outcome) => marks.merge(&outcome.marks),
            Err(failure) => panic!(
                "seed {seed}: {}\n{}\nagain: cargo run -p world -- --sites --seed {seed} --trace",
                failure.violation,
                failure.trace.join("\n")
            ),
        }
    }
    let missed: Vec<_> = RARE.iter().filter(|name| marks.count(name) == 0).collect();
    assert!(missed.is_empty(), "no seed reached: {missed:?}");
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..50 {
        let run = || sites::run(Options::new(seed)).map_or(0, |outcome| outcome.digest);
        assert_eq!(run(), run());
    }
}
