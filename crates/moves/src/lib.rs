//! A VM moves between two modelled hosts, and its cache with it.
//!
//! ```text
//!   guests ─► caches: the daemon's store, or sets in place ─► flash, way to the origin, origin, link: modelled
//!               ▲
//!   move ── a row of `strategies` ─► lists, Changes, Borrower: the daemon's machines ─► copies, loans, notices
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`setup`] | what is simulated |
//! | `world`, `part`, `vm` | guests and their requests under one clock |
//! | `mover`, `moving`, `draining`, `puller` | the move: its state, its steps, what is dirty, its pace |
//! | `copies`, `sets`, `versions` | what is cached where, and that no guest gets older bytes than it wrote |
//! | `devices`, `timeline` | how long everything takes |
//! | [`outcome`] | what a run answers |
//! | [`papers`] | the set-ups of three papers, with the figures that they report |
//!
//! A seed decides all that is random: a run is the same on every machine.

#![forbid(unsafe_code)]

mod copies;
mod devices;
mod mover;
pub mod outcome;
pub mod papers;
mod part;
mod puller;
mod sets;
pub mod setup;
mod timeline;
mod versions;
mod vm;
mod world;

pub use flash_format::FormatError;
pub use world::run;
