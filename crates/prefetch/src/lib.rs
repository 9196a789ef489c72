//! What a guest will read next, and whether a guess of it is worth a read of the origin.
//!
//! ```text
//!   a read of a disk ─► Miner::read ─► guesses ─► Price::offer ─┬─ fetch ─► memory ─┬─ used   ─► Price
//!                           ▲                                  │                   └─ wasted ─► Price
//!                           └──────────── Miner::refused ◄─────┴─ refused ─► kept as an address:
//!                                                                  would the guest have read it?
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`miner`] | the miners, one file each, and the registry of their names |
//! | [`price`] | the bucket of a VM: which guess may be fetched, so that at most a tenth of demand is wasted |
//!
//! Pure: no clock, no dice, no bytes. A miner takes its memory when it is built and no more. Units: blocks of
//! 4 KiB of one disk. The design follows VIP (a dissertation's chapter on virtual I/O prefetching) in what it
//! measures: prefetched blocks that a guest reads before they leave memory, out of those that were fetched.

#![forbid(unsafe_code)]

pub mod miner;
pub mod price;

mod rows;
mod run;
mod specs;

pub use miner::{Guess, Miner, Setup, Spec};
pub use price::{Answer, Key, Label, Price};
pub use run::Run;
pub use specs::{Specs, SpecsError};
