//! Limits of the origins, each with its reason.

/// Bytes of zeroes written at a time where the file system cannot zero a range by itself:
/// large enough to be fast, small enough that one buffer is no burden.
pub(crate) const ZERO_PIECE_BYTES: usize = 1 << 20;

/// The finest alignment that guests address: direct I/O that cannot do it is not used.
pub(crate) const SECTOR: u64 = units::SECTOR_BYTES;
