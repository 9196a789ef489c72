//! The daemon and its command line, as a library so that tests can reach the parts.

#![forbid(unsafe_code)]

pub mod api;
pub mod cli;
pub mod config;
pub mod metrics;
pub mod system;
pub mod top;
