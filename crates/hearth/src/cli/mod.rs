//! The command line.

pub mod args;
pub mod client;
pub mod exit;
pub mod progress;
pub mod quantity;
pub mod render;
pub mod table;
