//! Limits of the origins, each with its reason.

/// Bytes of zeroes written at a time where the file system cannot zero a range by itself:
/// large enough to be fast, small enough that one buffer is no burden.
pub(crate) const ZERO_PIECE_BYTES: usize = 1 << 20;

/// The finest alignment that guests address: direct I/O that cannot do it is not used.
pub(crate) const SECTOR: u64 = units::SECTOR_BYTES;

/// Ranges in a set of a file's bytes: 256 MiB in pieces of 4 KiB, and 3 MiB of memory at worst. What
/// has been changed between two syncs is more only by a guest that does not flush.
pub(crate) const RANGES_MAX: usize = 1 << 16;
