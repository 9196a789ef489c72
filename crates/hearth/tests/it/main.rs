//! The program from outside: its command line, its admin API over a real socket, its life.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod check;
mod cli;
mod curves;
mod groups;
mod life;
mod plan;
mod report;
mod rig;
mod simulate;
