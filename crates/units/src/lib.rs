//! Ids and quantities as types, so that a block number is never taken for a byte offset,
//! nor one disk's id for another's.
//!
//! Every type here is a plain value with a private field. Conversions are named methods that
//! say how they round; arithmetic that could overflow is checked. Nothing here reads a clock
//! or rolls dice: [`Instant`] is handed in by whoever drives a state machine, and [`Prng`]
//! is seeded by its user.

#![forbid(unsafe_code)]

mod bytes;
mod collections;
mod disk;
pub mod errors;
mod flash;
pub mod number;
mod offset;
mod prng;
mod tenant;
mod time;

pub use bytes::{Bytes, ParseBytesError};
pub use collections::{Map, Set, Table, hash_of};
pub use disk::{BlockIndex, DiskId, DiskSlot, ParseDiskIdError};
pub use flash::FlashSlot;
pub use offset::Offset;
pub use prng::Prng;
pub use tenant::TenantSlot;
pub use time::{Duration, Instant, ParseDurationError};

/// Bytes in a block, the unit of caching.
pub const BLOCK_BYTES: u64 = 4096;

/// Bytes in a sector, the smallest unit that a guest may address and the unit of atomicity.
pub const SECTOR_BYTES: u64 = 512;
