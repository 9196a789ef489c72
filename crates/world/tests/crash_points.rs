//! The power goes at each operation of a scenario in turn: opening, attaching, traffic, stopping.

#![allow(clippy::panic, reason = "a failure prints its whole trace")]

use world::{Options, run};

/// Scenarios too short to be worth the cuts, in operations.
const SHORT: u64 = 50;

fn world(seed: u64, crash_at: u64) -> Options {
    Options {
        crash_at: Some(crash_at),
        ..Options::new(seed)
    }
}

/// Operations of the first life of a seed's world when nothing cuts it short.
fn operations(seed: u64) -> u64 {
    let whole = run(world(seed, u64::MAX)).expect("it runs to its end");
    whole.operations
}

fn cut_everywhere(seed: u64) {
    let operations = operations(seed);
    for crash_at in 1..=operations {
        if let Err(failure) = run(world(seed, crash_at)) {
            panic!(
                "{}\n{}\nagain: cargo run -p world -- --seed {seed} --crash-at {crash_at} --trace",
                failure.violation,
                failure.trace.join("\n")
            );
        }
    }
}

fn cut_some_everywhere(seeds: impl Iterator<Item = u64>) {
    let long = seeds.filter(|seed| operations(*seed) > SHORT).take(6);
    let seeds: Vec<u64> = long.collect();
    assert_eq!(seeds.len(), 6, "six scenarios that do something");
    for seed in seeds {
        cut_everywhere(seed);
    }
}

#[test]
fn a_power_cut_at_any_operation_of_some_scenarios_is_survived() {
    cut_some_everywhere((100..200).step_by(2));
}

#[test]
fn a_power_cut_at_any_operation_under_write_back_is_survived() {
    cut_some_everywhere((101..200).step_by(2));
}
