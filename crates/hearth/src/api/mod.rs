//! The admin API: HTTP and JSON over a unix socket.

pub mod advice;
pub mod client;
mod counters;
pub mod front_ends;
pub mod problem;
#[cfg(test)]
pub(crate) mod samples;
pub mod types;
pub mod vms;
pub mod write_back;
