//! The policies as their users see them. All are one program: each alone would be linked with all policies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocation;
mod conformance;
mod demand;
mod models;
mod twins;
mod worked;
