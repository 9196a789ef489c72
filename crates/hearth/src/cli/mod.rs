//! The command line: what a user types, and what a user sees.
//!
//! ```text
//!   args ──► run ──► client ──admin socket──► daemon
//!                └─► offline: cache format, cache check
//!   answer ──► render (text) or as it came (--json) ──► standard output
//!   error ───► message and remedy on standard error, exit code by kind
//! ```

pub mod adopt;
pub mod args;
pub mod caches;
pub mod disks;
mod front_ends;
pub mod health;
pub mod hook;
mod limits;
pub mod migrate;
mod offline;
mod overview;
pub mod recover;
mod reload;
mod render;
mod run;
mod scrub;
mod serve;
pub mod vms;

pub use run::main;
