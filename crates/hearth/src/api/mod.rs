//! The admin API: HTTP and JSON over a unix socket.

pub mod problem;
#[cfg(test)]
pub(crate) mod samples;
pub mod server;
pub mod types;
