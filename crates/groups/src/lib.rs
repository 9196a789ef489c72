//! Which VMs of a group cross a slow link together, and in which order, so that little of their traffic crosses the
//! link meanwhile.
//!
//! ```text
//!   csv · standin · Smoothing ──► TrafficMatrix ─┐
//!   Load of each VM, Rate of the link, Split ────┴─► Problem ──► Method::plan ──► Plan: waves, each with its time
//!                                          Sizes ──────────────────▲                cost::volume judges every plan
//!   study: the paper's experiments, on stand-ins and on one's own matrix
//! ```
//! A *wave* is a subgroup that crosses in parallel; waves cross one after another. While some VMs are across and others
//! are not, their traffic crosses the link. The *volume* is that traffic in bytes, and the number to minimise:
//!
//! ```text
//!   volume = sum over waves after the first of (rate between those across and the others) x (time of the wave)
//!          = sum over pairs of VMs of rate(u, v) x |C(u) - C(v)|        C: when a VM's wave is across, in seconds
//! ```
//! The second form is the *minimum linear arrangement* of a graph, with blocks. The problem is NP-hard, so all methods but
//! `exact` are heuristics.
//!
//! Sources: Lu et al., "Clique Migration" (NAS 2014), and the dissertation that contains it, chapter 2; Petit, "Experiments
//! on the Minimum Linear Arrangement Problem" (2003). Each method's file names its own.
//!
//! Invariants:
//! - A plan holds every VM exactly once, and no empty wave.
//! - Rates are finite, not negative, and at most [`limits::RATE_BYTES_MAX`]; so volumes are finite.
//! - A seed decides every plan. Times come in as values.
//!
//! Rates are in bytes a second, sizes in bytes, times in seconds unless a name says otherwise.

#![forbid(unsafe_code)]

pub mod cost;
pub mod csv;
mod dice;
mod error;
pub mod latency;
pub mod limits;
pub mod methods;
mod names;
mod plan;
mod problem;
mod rate;
mod sizes;
pub mod smoothing;
pub mod standin;
pub mod study;
mod traffic;

pub use error::{PlanError, TrafficError};
pub use latency::{Load, Split};
pub use methods::Method;
pub use plan::{Plan, Wave};
pub use problem::Problem;
pub use rate::{ParseRateError, Rate};
pub use sizes::{ParseSizesError, Sizes};
pub use smoothing::Smoothing;
pub use traffic::TrafficMatrix;
