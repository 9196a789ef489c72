//! What a cache keeps and what it lets go. One algorithm a file.
//!
//! A policy sees ids and sizes, never bytes, files or clocks; the cache asks it at the moments
//! that its trait names and does what it says. Each family of decisions is a module with a
//! trait, its algorithms and the registry of their names:
//!
//! | module | decides |
//! |---|---|
//! | [`demand`] | how much flash a tenant has use for |
//! | [`prediction`] | how much it will have use for in the next window |
//! | [`allocation`] | how the flash is divided among tenants |
//! | [`admission`] | which missed block may enter flash |
//! | [`reclaim`] | in a log: which segment is reclaimed, and which of its blocks are kept |
//! | [`memory`] | in memory in front of flash: which block that is read is worth a frame |
//! | [`replacement`] | in place: which block leaves when another one comes in |
//!
//! [`rows`] is a table of blocks by name, in bounded memory, for those who have to remember some.

#![forbid(unsafe_code)]

pub mod admission;
pub mod allocation;
pub mod demand;
pub mod memory;
pub mod prediction;
pub mod reclaim;
pub mod registry;
pub mod replacement;
pub mod rows;
pub mod sampling;
