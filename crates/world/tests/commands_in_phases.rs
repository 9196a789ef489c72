//! Every command about a disk is tried in every phase of the disk in which it can come.

#![allow(clippy::panic, reason = "a failure names its seed")]

use world::{COMMANDS, Marks, Options, PESTERED_FIRST, PHASES, YOUNGER_EVERY, run};

const WORLDS: u64 = 200;

/// A disk that is not served has no slot, and every command but an attachment names one. The shard lets
/// none through to a disk that it is about to detach: a second detachment waits for the first one, others
/// are refused there (`serving` in `crates/shard/src/jobs.rs`).
const WITHOUT_A_SLOT: [&str; 4] = [
    "detached",
    "detached with what waits",
    "attaching",
    "detaching",
];

fn can_occur(command: &str, phase: &str) -> bool {
    command == "attach" || !WITHOUT_A_SLOT.contains(&phase)
}

#[test]
fn every_command_is_tried_in_every_phase_in_which_it_can_come() {
    let mut marks = Marks::default();
    for number in 0..WORLDS {
        let seed = PESTERED_FIRST + number * YOUNGER_EVERY;
        match run(Options::new(seed)) {
            Ok(outcome) => marks.merge(&outcome.marks),
            Err(failure) => panic!("seed {seed}: {}", failure.violation),
        }
    }
    let pairs = COMMANDS
        .iter()
        .flat_map(|command| PHASES.iter().map(move |phase| (*command, *phase)));
    let wrong = pairs.filter_map(|(command, phase)| {
        let tries = marks.tries(command, phase);
        let is_wrong = (tries > 0) != can_occur(command, phase);
        is_wrong.then(|| format!("{command} while {phase}: tried {tries} times"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}
