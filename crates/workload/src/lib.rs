//! Synthetic load on a disk, without a disk: which request comes next, and what its bytes must be.
//!
//! ```text
//!   Shape, BlockSizes, Spread (parsed) ──► Script ── next() ──► Step: read, write, trim, sync
//!                                            │ mix of directions, sizes
//!                                            └ Places: in order · each once · by a law (Zipf, ..)
//!
//!   Ledger: what this run wrote where ── stamps writes, judges reads (Flaw)
//!   Pace:   when the next one may go
//! ```
//!
//! Names and meanings of the options are fio's. Invariants:
//! - A seed decides every step; nothing here reads a clock or touches a disk.
//! - Every place lies within the region and begins and ends at a multiple of the smallest size.
//! - A pass (as many bytes as the region has) visits each byte exactly once: in order, or at
//!   random with the map on.
//! - Offsets, lengths and sizes are in bytes.

#![forbid(unsafe_code)]

mod ledger;
pub mod limits;
mod pace;
mod parse;
mod pattern;
mod places;
mod script;
mod shape;
mod sizes;
mod spread;
mod unit;
mod untouched;
mod zipf;

pub use ledger::{Finding, Ledger, Verdict};
pub use pace::Pace;
pub use parse::{ParseError, bytes, span};
pub use pattern::{Flaw, Stamp};
pub use places::{Place, Region};
pub use script::{Plan, Script, Step, SyncEvery};
pub use shape::{Direction, Shape};
pub use sizes::BlockSizes;
pub use spread::{Spread, Zone};
pub use zipf::{Scatter, Zipf};
