//! The power goes at each operation of a scenario in turn: opening, attaching, traffic, stopping.

#![allow(clippy::panic, reason = "a failure prints its whole trace")]

use world::{Options, run};

fn cut_everywhere(seed: u64) {
    let at = |crash_at| Options {
        crash_at: Some(crash_at),
        ..Options::new(seed)
    };
    let whole = run(at(u64::MAX)).expect("it runs to its end");
    let operations = whole.operations;
    assert!(
        operations > 50,
        "the scenario of seed {seed} does something"
    );
    for crash_at in 1..=operations {
        if let Err(failure) = run(at(crash_at)) {
            panic!(
                "{}\n{}\nagain: cargo run -p world -- --seed {seed} --crash-at {crash_at} --trace",
                failure.violation,
                failure.trace.join("\n")
            );
        }
    }
}

#[test]
fn a_power_cut_at_any_operation_of_some_scenarios_is_survived() {
    for seed in 100..106 {
        cut_everywhere(seed);
    }
}
