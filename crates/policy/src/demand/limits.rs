//! Limits of demand, each with its reason.

use units::Duration;

/// The greatest `N` of a reuse working set: beyond 2 nobody has found a use, and each further one costs
/// four bytes a sampled block.
pub const REUSES_MAX: u8 = 3;

/// Times kept of each block: `N` of them and the access before.
pub const TIMES: usize = REUSES_MAX as usize + 1;

/// Windows measured at a time: a geometric ladder from a minute to a week has 14 rungs of a factor 2.
pub const WINDOWS_MAX: usize = 16;

/// The shortest window. Times are kept to a millisecond; below a second that would show.
pub const WINDOW_MIN: Duration = Duration::from_secs(1);

/// The longest window: a week. Sampled times wrap after 52 days, and what is older than the longest
/// window must have been swept by then.
pub const WINDOW_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Blocks in a sample at least: with fewer an estimate says nothing.
pub const SAMPLE_BLOCKS_MIN: u32 = 64;

/// Blocks in a sample at most: places are 32 bits with room to spare, and 100 MiB is more than a
/// tenant's estimate is worth.
pub const SAMPLE_BLOCKS_MAX: u32 = 1 << 22;

/// Blocks in a sample unless said otherwise: seven eighths of 8,192, so that the table of places is
/// full when the sample is.
pub const SAMPLE_BLOCKS_DEFAULT: u32 = 7_168;
