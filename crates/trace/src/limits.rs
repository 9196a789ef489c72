//! Limits of a trace, each with its reason.

use units::Bytes;

/// The longest read or write. No kernel passes one of more than some MiB; ten times that is a mangled
/// length, and one of 2^60 bytes would be split into blocks for years.
/// Discards and write-zeroes may be of any length: only blocks that were seen before count there.
pub const REQUEST_BYTES_MAX: Bytes = Bytes::mib(256);

/// Records that a reader hands out at a time: enough to make the call for each batch free,
/// few enough to stay in the second-level cache.
pub const BATCH_RECORDS: usize = 1024;

/// Distinct blocks that a splitter numbers: a key is 32 bits, and the last one is left to the policies
/// as 'none'.
pub const DISTINCT_BLOCKS_MAX: u32 = u32::MAX - 1;
