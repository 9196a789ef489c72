//! Hundreds of hosts in one process: the planner and the drivers of the crate `placement`, with models of what they
//! drive.
//!
//! ```text
//!   demand ─► hosts publish ─► plan ─► moves ─► drivers ─┬─► store::Memory, with faults
//!     ▲ seed                     ▲                       └─► hypervisors and links, which fail by a seed
//!     └──── checks, samples ◄────┴── what moves found ◄──────┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | `settings` | how large, how long, which rule, what fails |
//! | `demand` | what each VM needs in each window, and its curve |
//! | `traced` | the same from traces |
//! | `shape` | a curve by parts of a working set |
//! | `latency` | a VM's 90th percentile by its hit ratio |
//! | `hosts` | who runs where, and what hosts publish |
//! | `hypervisor` | the two hosts of a move, as their daemons and hypervisors behave |
//! | `moves` | records in the store, drivers, leases |
//! | `run` | windows, rounds of planning, faults |
//! | `checks` | what holds after each window |
//! | `records` | the store's answers as events of a driver |
//! | `outcome`, `table` | what is counted, and a file of it |
//! | [`cloudcache`] | the paper's 12 + 3 VMs |
//!
//! One seed decides demand and faults. Demand does not depend on the rule, so rules are compared on the same days.

mod checks;
pub mod cloudcache;
mod demand;
mod hosts;
mod hypervisor;
mod latency;
mod moves;
mod outcome;
mod records;
mod run;
mod settings;
mod shape;
mod table;
mod trace_error;
mod traced;

pub use checks::Violation;
pub use outcome::{Outcome, PROBE, Probe, Sample, Summary};
pub use run::{Run, run};
pub use settings::{Demanded, Faults, Rule, Settings, SettingsError};
pub use table::csv;
pub use trace_error::TraceDemandError;
pub use traced::{TraceDemand, TraceDemands, TraceFacts};
