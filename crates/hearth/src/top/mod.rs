//! `hearth top`: what each disk did in the last interval, live.
//!
//! ```text
//!   admin API ──Look──► Interval::between(before, now) ──rows──► terminal | text | JSON
//! ```
//!
//! Everything shown is a difference of counters, so nothing is lost between two looks and
//! several viewers do not disturb each other.

pub mod args;
mod interval;
mod screen;
mod vms;
mod watch;
mod words;

pub use interval::{CacheRow, DiskRow, Interval, Look};
pub(crate) use watch::run;
pub(crate) use words::dirty_cells;
