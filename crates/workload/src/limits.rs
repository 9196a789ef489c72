//! Limits of a load, each with its reason.

/// Smallest unit of address and length, in bytes: a sector.
pub const UNIT_BYTES_MIN: u64 = 512;

/// Largest request, in bytes: the payload that NBD clients may assume of a server, and the most
/// that our own front ends take.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// Entries of a split of block sizes. A workload that was described has a handful.
pub const SIZES_MAX: usize = 64;

/// Zones of a distribution: one for each percent of the accesses.
pub const ZONES_MAX: usize = 100;

/// Verified blocks that a job keeps count of, four bytes each: 1 GiB of memory at most, and a
/// disk of 1 TiB in blocks of 4 KiB.
pub const VERIFIED_BLOCKS_MAX: u64 = 1 << 28;
