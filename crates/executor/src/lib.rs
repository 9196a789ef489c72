//! Moves of VMs between the hosts of a cluster, carried out by whichever host is there.
//!
//! ```text
//!   planner (one: leader/balance) ──► moves/VM, planned ──approve──► moves/VM, approved
//!                                                                        │
//!   drivers (any host; the record names one) ◄──── moves/VM, hosts/HOST ─┘
//!      │ orders/VM                    ▲ answers/VM/HOST
//!      ▼                              │
//!   part (the move's two hosts) ──────┴──► HostPart: the daemon and its hypervisor
//! ```
//!
//! What a move needs next is decided by `placement::moving`, which is pure; this crate reads and commits its record,
//! and lets the two hosts act. Driver and hosts speak through the store alone, so a driver needs to reach no host, any
//! host can drive, and a host that was restarted finds what it was asked. Nothing that a VM waits for passes here.
//!
//! Three rules keep a move whole, whatever dies:
//! - A stage is committed before its action, by comparison with the revision that it was decided on.
//! - An order is put only while the record is as its driver knows it, and carries the record's step. A host carries
//!   out orders of a VM one after the other, and none of an older step than the record's.
//! - A VM has one record. Its next move replaces the last one, and its steps go on.

#![forbid(unsafe_code)]

mod answers;
mod clock;
mod drivers;
mod driving;
mod error;
mod hosts;
mod limits;
mod loads;
mod mailbox;
mod pace;
mod part;
mod planned;
mod planner;
mod records;
mod says;
mod settings;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;

pub use answers::{AtSource, AtTarget, HostAnswer, Left};
pub use drivers::{Drivers, EVERY};
pub use error::MoveError;
pub use limits::Limits;
pub use mailbox::{Answers, Said};
pub use pace::set_pace;
pub use part::{HostPart, Side, Task, keep_part};
pub use planned::{Planned, all_planned, plan_of, planned_of};
pub use planner::{Planner, PlannerSays, loads_of_cluster};
pub use records::{Recorded, all, approve, begin, cancel, clear, forget, read};
pub use says::FleetSays;
pub use settings::{Settings, SettingsChange, change_settings, read_settings};
