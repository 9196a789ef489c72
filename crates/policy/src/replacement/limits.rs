//! Limits of replacement in place, each with its reason.

/// Blocks that a cache may hold: 2 TiB of 4 KiB blocks. Policies keep a place in a queue and a few bits
/// of state in 32 bits, and some remember as many ghosts again.
pub const CAPACITY_BLOCKS_MAX: u32 = 1 << 29;

/// Segments of [`super::slru`]: more than any study has used, few enough to be searched one by one.
pub const SLRU_SEGMENTS_MAX: u32 = 16;

/// Bits of [`super::clock`]'s counter: at eight the hand may pass a block 255 times.
pub const CLOCK_BITS_MAX: u32 = 8;
