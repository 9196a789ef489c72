//! Who gets how much of a cache, and what may enter it.
//!
//! A cache (a shard of the daemon, or a run of the simulator) has tenants: VMs, and base images that VMs
//! share. For each tenant [`Tenancy`] measures demand and a miss-ratio curve, runs an admission
//! policy, and keeps a write budget; for all of them together it divides flash and staging memory anew at
//! the end of each window. The algorithms are in `policy` and `mrc`; this crate composes them, counts
//! what they decide, and says why.
//!
//! ```text
//!   request ──► arrives ─────────► sequential runs, sampled demand, sampled curve
//!   each block:
//!     on flash ───────────► hit ────────────────────────────► admission may learn
//!     staged in RAM ──────► staged_hit ─► stays | to flash ┐
//!     neither, its bytes                                   ├─► write budget ─► verdict
//!     at hand ────────────► missed ─► admit | stage | refuse ┘
//!   reclaim dropped it ───► evicted          discarded, or written while staged ─► removed
//!   bytes went to flash ──► charge ────────► write budgets
//!
//!   window ends ──────────► tick: demand ─► filter ─► prediction ─► allocation ─► hysteresis ─► shares
//! ```
//!
//! **Pure.** Time comes in with each call, hashes are seeded by the settings, so the same calls give the
//! same decisions: `hearth serve` and `hearth sim` run this code alike.
//!
//! **Who drives it.** The crate `admission`, which has what is staged, for the owner of a segment log: that
//! asks for verdicts when the bytes of a block are at hand, tells each share to the log, and reports what
//! was written.
//!
//! Invariants:
//!
//! - Shares add up to the cache's segments, or to less where spare flash stays idle; each is within its
//!   tenant's floor and ceiling.
//! - What admission lets in, with the reclaim that it causes, stays within the budget over any span of
//!   time, restarts included: a budget's rate times the span, and one burst ([`Tenancy::begin_empty`]).
//! - All memory is bounded ([`limits`]), counted, and within the settings' limit.
//!
//! Units: blocks of 4 KiB, segments of the log, bytes, real time.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "ratios of small counts are exact")
)]

mod budgets;
mod check;
mod clock;
mod counts;
pub mod daemon;
mod division;
mod error;
mod filling;
mod gauge;
pub mod limits;
mod report;
mod request;
mod sequence;
mod settings;
mod shares;
mod sharing;
mod tenancy;
mod tenant;
mod tenants;

pub use counts::{Counts, Wrote};
pub use error::SettingsError;
pub use gauge::{Wanted, Wants};
pub use report::{BudgetLeft, HostReport, LiveCurve, Report};
pub use request::{Arrival, Request};
pub use settings::{Capacity, Measure, Settings, Spare, TenantSettings, Window};
pub use shares::{Share, Shares};
pub use sharing::{Sharing, Use};
pub use tenancy::Tenancy;
