//! What a guest will read next.
//!
//! ```text
//!   a read of a disk ─► Miner::read ─► guesses
//! ```
//!
//! [`miner`] has the miners, one file each, and the registry of their names.
//!
//! Pure: no clock, no dice, no bytes. A miner takes its memory when it is built and no more. Units: blocks of
//! 4 KiB of one disk.

#![forbid(unsafe_code)]

pub mod miner;

mod rows;
mod run;

pub use miner::{Guess, Miner, Setup, Spec};
pub use run::Run;
