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

/// Bytes of a trace in memory at a time: the second-level cache holds them and what is decoded from them.
pub const INPUT_BUFFER_BYTES: usize = 256 << 10;

/// The longest line of a text, and the longest header of a binary format. Must leave room in the buffer.
pub const LINE_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(LINE_BYTES_MAX < INPUT_BUFFER_BYTES);

/// Bytes from a trace's beginning that its format is recognised by.
pub const SAMPLE_BYTES: usize = 64 << 10;

/// Unpacked bytes that are read after a fault to find out whether the trace is damaged: a few seconds. The
/// checksum of a larger archive or file may lie beyond; the fault is then blamed on its line.
pub const CHECKED_BYTES_MAX: u64 = 1 << 30;
