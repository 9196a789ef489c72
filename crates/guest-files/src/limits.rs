//! Bounds of what the agent keeps, each with its reason.

/// Files of the history: at about 150 bytes each they take 2.5 MiB.
pub const FILES_MAX: usize = 16_384;
/// Bytes of a handle at most: the kernel's own limit (`MAX_HANDLE_SZ`).
pub const HANDLE_BYTES_MAX: usize = 128;
/// Extents of a plan at most: at 32 bytes each they take 2 MiB.
pub const EXTENTS_MAX: usize = 65_536;
/// Bytes that are read ahead with one call. The kernel reads no more than its window at a call
/// (`read_ahead_kb`, 128 unless told), and forgets the rest.
pub const READ_BYTES: u64 = 128 << 10;
