//! Which VM should run on which host, by the load on their flash; and a planned move from its approval to its end.
//!
//! ```text
//!   reports of hosts ─► HostLoad ─┐
//!   moves under way ──────────────┼─► Fleet ─► plan ─► Plan: moves, why, expected; refused; missing flash
//!   what earlier moves found ─────┘                      │ approved
//!                                                        ▼
//!   events: answers, commits, time ─────────────► Driver of a Move ─► effects: commit, prepare, migrate, withdraw
//! ```
//!
//! Pure: loads and events come in, plans and effects go out. The balance is `CloudCache`'s (Arteaga et al., FAST 2016,
//! section 6), with rules of ours around it, each in a file of its own under `balance/`. A plan is advice; [`Mode`]
//! says what may become of it. Units: sizes in bytes, loads as parts of a host's flash, latencies in seconds.

#![forbid(unsafe_code)]

pub mod balance;
mod collected;
mod curve;
mod fleet;
mod found;
mod guard;
pub mod limits;
mod load;
mod mode;
pub mod moving;
mod name;
mod plan;
mod rules;
mod rules_file;
pub mod shares;
#[cfg(test)]
mod testkit;

pub use balance::plan;
pub use collected::{FindingReport, FleetReport, FleetReportError, UnderWayReport};
pub use curve::{Curve, CurveError};
pub use fleet::{Fleet, FleetError, UnderWay};
pub use found::{Compared, Finding};
#[cfg(feature = "mutants")]
pub use guard::{Guard, remove};
pub use load::{
    Costs, HostLoad, HostReport, ReportError, Resources, VmLoad, VmReport, instant_of_seconds,
};
pub use mode::Mode;
pub use name::{Name, NameError};
pub use plan::{Change, Expected, Outlook, Plan, Proposed, Reason, Rejected, Short, Why};
pub use rules::{Objective, Rules, RulesError, WINDOW};
pub use rules_file::{Base, RulesFile, RulesFileError};
