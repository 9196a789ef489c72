//! What travels over the daemon's admin socket, HTTP and JSON, and the client that asks.
//!
//! The daemon makes these, the command line reads them, and its `OpenAPI` document is derived from them.

#![forbid(unsafe_code)]

pub mod advice;
pub mod client;
pub mod cluster;
mod counters;
pub mod drives;
pub mod events;
pub mod following;
pub mod front_ends;
pub mod guests;
pub mod history;
pub mod limits;
pub mod operator;
pub mod overview;
pub mod problem;
pub mod reload;
pub mod resources;
pub mod roaming;
pub mod rows;
#[cfg(feature = "samples")]
pub mod samples;
pub mod scrub;
pub mod types;
pub mod vms;
pub mod write_back;
