//! What the store counts. Plain numbers.

use segment_log::FlashWritten;

/// Counters of a store since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes written to flash, by cause.
    pub flash_written: FlashWritten,
    /// Bytes read from flash by reclaim.
    pub reclaim_read_bytes: u64,
    /// Blocks read from flash whose checksum was wrong.
    pub checksum_mismatches: u64,
    /// Flash operations that failed.
    pub flash_errors: u64,
    /// Blocks that were taken in to be written to flash, those that reclaim keeps included.
    pub blocks_appended: u64,
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
    /// Blocks that reclaim wrote again.
    pub blocks_kept: u64,
    /// Blocks that reclaim dropped.
    pub blocks_evicted: u64,
    /// Blocks that were not taken in, by reason.
    pub not_taken: NotTaken,
    /// Journal commits.
    pub journal_commits: u64,
    /// Complete checkpoints.
    pub checkpoints: u64,
    /// Blocks at rest that could not be trusted before there were too many: they will be cold
    /// after a crash.
    pub never_trusted: u64,
    /// Rewritten blocks that came to rest and are trusted again.
    pub retrusted_blocks: u64,
}

/// Blocks that were not taken in, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotTaken {
    /// No segment was free: reclaim is behind.
    pub no_segment: u64,
    /// Too much waits to be written to flash.
    pub write_buffer: u64,
    /// The index had no place.
    pub index_full: u64,
}
