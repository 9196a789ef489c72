//! The daemon and its command line, as a library so that tests can reach the parts.
//!
//! ```text
//!   config   what the operator wrote
//!   daemon   shards, exports and listeners, wired together
//!   api      HTTP and JSON over the admin socket        metrics   the same for Prometheus
//!   cli      what a user types                          top       the live view
//!   offline  caches that no daemon is using: format, check
//!   sim      traces through simulated caches        mrc, advise   their curves, and what follows
//!   bench    a load on the front ends
//!   docs     book pages, manual pages, completions: made of the definitions above
//! ```

#![forbid(unsafe_code)]

pub mod advise;
pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod docs;
pub mod metrics;
pub mod mrc;
pub mod offline;
pub mod sim;
mod system;
pub mod top;
pub mod xml;
