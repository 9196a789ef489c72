//! The admin API: HTTP and JSON over a unix socket.

mod cache_server;
mod counters;
pub mod front_ends;
pub(crate) mod http;
pub mod problem;
#[cfg(test)]
pub(crate) mod samples;
pub mod server;
pub mod types;
mod vm_server;
pub mod vms;
pub mod write_back;
mod write_back_server;
