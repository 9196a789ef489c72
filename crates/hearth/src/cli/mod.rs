//! The command line: what a user types, and what a user sees.
//!
//! ```text
//!   args ──► run ──► client ──admin socket──► daemon
//!                └─► offline: cache format, cache check
//!   answer ──► render (text) or as it came (--json) ──► standard output
//!   error ───► message and remedy on standard error, exit code by kind
//! ```

pub mod args;
pub mod caches;
pub mod disks;
pub mod exit;
mod front_ends;
mod offline;
pub(crate) mod output;
mod progress;
pub mod quantity;
pub mod recover;
pub(crate) mod render;
mod run;
mod serve;
mod table;
pub mod traces;
pub mod vms;

pub(crate) use progress::Progress;
pub use run::main;
pub(crate) use run::{print, to_json};
pub(crate) use table::{Side, Table};
