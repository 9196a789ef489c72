//! The daemon and its command line, as a library so that tests can reach the parts.

#![forbid(unsafe_code)]

pub mod config;
pub mod system;
