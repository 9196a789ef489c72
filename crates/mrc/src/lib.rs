//! Miss-ratio curves: how many accesses a cache of each size would miss, without running it at each.
//!
//! ```text
//!   block keys ─► Exact (Olken) ─────────────────┐
//!   runs of blocks ─► Spatial ─► FixedRate ──────┼─► Curve ─► hull, knee, error
//!                          ├───► FixedSize ──────┤
//!                          ├───► Live ───────────┤
//!                          └───► Miniature ──────┘
//! ```
//!
//! Pure: accesses come in one by one, curves go out; no files, no clock, no dice. [`Exact`] takes keys
//! that are dense small numbers; the sampled ones take blocks as the trace names them, since most of
//! them are never looked at twice. [`Live`] is for those who watch for months. Units: sizes and depths
//! in blocks, ratios 0 to 1.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "ratios of small counts are exact")
)]

mod access;
pub mod advice;
mod buckets;
mod curve;
mod exact;
mod fixed_rate;
mod fixed_size;
mod hull;
mod knee;
mod live;
mod miniature;
mod olken;
mod sampled;
mod stamps;
#[cfg(test)]
mod testkit;

pub use access::{Counted, Kind, Writes};
pub use curve::{Between, Curve, Point, even_sizes, plot_sizes};
pub use exact::Exact;
pub use fixed_rate::FixedRate;
pub use fixed_size::FixedSize;
pub use live::Live;
pub use miniature::{MINIATURE_BLOCKS_MIN, Miniature, MiniatureError};
pub use olken::Stack;
pub use policy::demand::{HEIGHT_MIN, Knee, knee};
pub use policy::sampling::{Run, Spatial};
