//! The deterministic world: the real cache between simulated guests, flash and origins.
//!
//! ```text
//!   guests ──requests──► cache::Cache ──effects──► flash   (volatile and durable image)
//!     ▲                     ▲    │                 origins (one a disk)
//!     │                     │    └───────────────► state directory (retirements)
//!   checker ◄──replies──────┘
//!        kills, power cuts, dead flash, errors, stalls, lies, strangers, clean stops
//! ```
//!
//! One seed decides everything: the disks, the traffic, the order of completions, each fault and
//! each crash. The same seed is the same run, bit by bit; [`Outcome::digest`] proves it.
//!
//! What is checked: every sector of every read against the history of its writes (I1, I2, I4;
//! [`checker`]); when nothing is in flight, every block read through the cache against the origin
//! (I3); one answer for each request, and none lost (I8); no error that only the flash is to blame
//! for (never hostage); bytes written to flash as the cache counts them against as the device
//! does, write budgets over every span of time, and memory against its limits (I7); the cache's
//! own invariants.
//!
//! Worlds of odd seeds have write-back. There: what is recovered is everything up to one point in the
//! order of acceptance, with everything that was flushed; the origin of an `ordered` disk, alone and
//! whatever it loses, is a disk that its guest could have left behind; the owner's record says
//! `closed` only when the origin has everything, and decides who may serve the disk; what ends well
//! (a destage, a detach, a policy) has brought to the origin what it says; nothing waits on flash
//! after a start that had not waited there before.

#![forbid(unsafe_code)]

mod attachment;
pub mod checker;
mod context;
mod device;
mod disk;
mod disks;
mod flash_bay;
mod guests;
mod host;
mod marks;
mod meter;
pub mod nbd;
mod operator;
mod origin;
mod origin_traffic;
mod outcome;
mod owner_records;
mod phases;
mod process;
#[cfg(feature = "mutants")]
mod rule;
mod run;
mod settings;
pub mod sites;
mod state_directory;
mod storage;
mod trace;
mod verbs;
mod violation;
mod world;
mod write_back;

pub use marks::Marks;
pub use outcome::{Failure, Options, Outcome};
pub use phases::{COMMANDS, PHASES};
#[cfg(feature = "mutants")]
pub use rule::Rule;
pub use settings::Settings;
pub use settings::{
    COMMANDED_FIRST, HASTY_FIRST, LATE_FIRST, LYING_FIRST, PESTERED_FIRST, ROTTEN_FIRST,
    SCRUBBED_FIRST, SPECIAL_EVERY, Special, YOUNGER_EVERY,
};
pub use violation::Violation;

use std::panic::AssertUnwindSafe;
use world::World;

/// Runs the world of a seed. On a failure runs it again to record its trace.
///
/// # Errors
/// The first violation, or a panic of the cache, with the trace that led to it.
pub fn run(options: Options) -> Result<Outcome, Box<Failure>> {
    match attempt(options, options.trace) {
        Ok(outcome) => Ok(outcome),
        Err(first) if options.trace => Err(first),
        Err(_) => match attempt(options, true) {
            Err(failure) => Err(failure),
            Ok(_) => Err(Box::new(Failure {
                violation: Violation::new(
                    "determinism",
                    "the run failed, and did not when it was repeated".to_owned(),
                ),
                trace: Vec::new(),
            })),
        },
    }
}

fn attempt(options: Options, keep_lines: bool) -> Result<Outcome, Box<Failure>> {
    let mut world = World::new(options, keep_lines);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(Ok(())) => return Ok(world.into_outcome()),
        Ok(Err(violation)) => violation,
        Err(panic) => Violation::new("assert", message_of(&*panic)),
    };
    Err(Box::new(Failure {
        violation,
        trace: world.into_outcome().trace,
    }))
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
