//! A load generator: fio's parameters and figures for vhost-user-blk, NBD, files and devices.
//!
//! ```text
//!   Settings ─► run ─┬─ opens the target: connects, negotiates, checks that the load fits it
//!                    └─ a thread for each job:
//!                         workload::Script ─► Job ─► Target (file | nbd | vhost-user) ─► kernel
//!                                              │ ▲     slots: a request in flight each
//!                                              │ └──── done
//!                                              └ Tally, Ledger ─► Outcome ─► Report (fio's keys)
//! ```
//!
//! A recorded load goes by `replay` instead: at its own times, whether the target keeps up or not.
//!
//! One clock and one histogram serve every target, and every target waits in the same way (on
//! `ring`, asleep), so that figures of different front ends compare. Invariants:
//! - At most `iodepth` requests of a job are in flight; a slot names one of them.
//! - A request's time runs from its submission to the moment its completion was taken in.
//! - With verification no request overlaps a write in flight, so that what a read must find is
//!   known.
//! - An error of a request ends all jobs; everything in flight is waited for.
//!
//! The servers are trusted to keep to their protocols where memory is shared: this is a tool for
//! those who run them.

mod error;
mod histogram;
mod job;
mod limits;
mod outcome;
mod replay;
mod report;
mod run;
mod settings;
mod target;
mod usage;

pub use error::{LoadError, Remedy};
pub use histogram::{Histogram, PERCENTILES};
pub use outcome::{JobError, JobOutcome, Outcome, Tally, Verified};
pub use replay::{
    Answered, Asked, Kind, KindReport, ParseSpeedError, ReplayOutcome, ReplayReport,
    ReplaySettings, Requests, Speed, Survey, replay, replay_report,
};
pub use report::{Report, Times, report};
pub use run::{Progress, run};
pub use settings::{Rates, Settings, Verify};
pub use target::{Address, NbdAddress};
pub use usage::Usage;
