//! A planned move from its approval to its end: events in, effects out.
//!
//! ```text
//!   planned ─approved─► approved ─► prepared ─warm─► migrating ─granted─► granted ─► draining ─► done
//!      │ cancelled         │            │ refused, silent │ failed, late      ▲            │ late
//!      ▼                   ▼            ▼                 ▼                   │            ▼
//!   rolled-back       rolled-back    withdrawing ──────────────already granted┘          failed
//!                                       │ withdrawn: rolled-back        │ no answer: failed
//! ```
//!
//! A [`Move`] is a record in the cluster's store. A stage is committed, by comparison with the revision that it was
//! decided on, *before* its action is carried out, and every action can be repeated; so whoever reads the record knows
//! what may have been done, and any host goes on with a dead driver's move. `granted` is no action of ours: the two
//! hosts hand the disks over by themselves (`handoff`), and the driver only notes it.
//!
//! The driver's lease is the store's. A driver that was only slow may still have an action on its way, so each action
//! carries the record's *step*, which every commit raises, and a host refuses what is older than what it has seen
//! ([`Fence`]). `tests/moving.rs` walks all orders of events with crashes of drivers.

mod driver;
mod fence;
mod next;
mod record;

pub use driver::{Driver, Effect, Event};
pub use fence::Fence;
pub use next::{Answer, Migration, Status, Timeouts, WARM_PERCENT};
pub use record::{Action, Cause, Move, Stage};
