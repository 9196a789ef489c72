//! What the cache counts. Plain numbers; the program turns them into metrics.

pub use block_store::FlashWritten;
use policy::admission::Refusals;

/// Counters of a cache since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes written to flash, by cause.
    pub flash_written: FlashWritten,
    /// Bytes read from flash for guests.
    pub flash_read_bytes: u64,
    /// Bytes of those that went directly to where the guests wanted them, and were right.
    pub in_place_bytes: u64,
    /// Reads from flash that were done again, since what lay in a guest's memory was not what was
    /// written, or could not be put there.
    pub reads_repeated: u64,
    /// Bytes read from flash by reclaim.
    pub reclaim_read_bytes: u64,
    /// Blocks read from flash whose checksum was wrong; each was fetched from the origin.
    pub checksum_mismatches: u64,
    /// Flash operations that failed.
    pub flash_errors: u64,
    /// Flash reads that took too long; the origin was asked instead.
    pub flash_timeouts: u64,
    /// How often the flash was taken back after writes of it had been late.
    pub flash_taken_back: u64,
    /// Blocks that were taken in to be written to flash, those that reclaim keeps included.
    pub blocks_appended: u64,
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
    /// Blocks that reclaim wrote again.
    pub blocks_kept: u64,
    /// Blocks that reclaim dropped.
    pub blocks_evicted: u64,
    /// Blocks that were read from the origin but not admitted, by reason.
    pub not_admitted: NotAdmitted,
    /// Blocks that were not cached, were written whole and let in.
    pub writes_allocated: u64,
    /// Blocks that were cached and rewritten, and left the cache because the write budget did not
    /// allow for their new copies, or because nobody reads them.
    pub not_rewritten: u64,
    /// Journal commits.
    pub journal_commits: u64,
    /// Guest writes that waited for a journal commit first.
    pub writes_waited: u64,
    /// Complete checkpoints.
    pub checkpoints: u64,
    /// Writes that found another write to the same block in flight.
    pub contended_writes: u64,
    /// Reads that found the block being fetched already and shared the fetch.
    pub shared_fills: u64,
    /// Fetches whose blocks were written meanwhile and therefore not admitted.
    pub killed_fills: u64,
    /// Blocks at rest that could not be trusted before there were too many: they will be cold
    /// after a crash.
    pub never_trusted: u64,
    /// Rewritten blocks that came to rest and are trusted again.
    pub retrusted_blocks: u64,
    /// Bytes of dirty logs read from flash on their way to an origin.
    pub destage_read_bytes: u64,
    /// Reads and writes of parts of blocks that failed because a block that the origin lacks could
    /// not be read.
    pub dirty_unreadable: u64,
}

impl Stats {
    /// These, with what the store has counted.
    pub(crate) fn with_store(&self, store: &block_store::Stats) -> Self {
        Self {
            flash_written: store.flash_written,
            reclaim_read_bytes: store.reclaim_read_bytes,
            checksum_mismatches: store.checksum_mismatches,
            flash_errors: store.flash_errors,
            blocks_appended: store.blocks_appended,
            segments_reclaimed: store.segments_reclaimed,
            blocks_kept: store.blocks_kept,
            blocks_evicted: store.blocks_evicted,
            not_admitted: NotAdmitted {
                no_segment: store.not_taken.no_segment,
                write_buffer: store.not_taken.write_buffer,
                index_full: store.not_taken.index_full,
                ..self.not_admitted
            },
            journal_commits: store.journal_commits,
            checkpoints: store.checkpoints,
            never_trusted: store.never_trusted,
            retrusted_blocks: store.retrusted_blocks,
            ..self.clone()
        }
    }
}

/// Blocks that were not admitted, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotAdmitted {
    /// No segment was free: reclaim is behind.
    pub no_segment: u64,
    /// Too much waits to be written to flash.
    pub write_buffer: u64,
    /// The index had no place.
    pub index_full: u64,
    /// The settings of the cache or of its tenant contradict others.
    pub settings: u64,
    /// The admission policy or a write budget refused them, by why.
    pub refused: Refusals,
}

/// Counters of a disk since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Read requests.
    pub read_requests: u64,
    /// Write requests.
    pub write_requests: u64,
    /// Flush requests.
    pub flush_requests: u64,
    /// Discard and write-zeroes requests.
    pub erase_requests: u64,
    /// Bytes that guests read.
    pub read_bytes: u64,
    /// Bytes that guests wrote.
    pub written_bytes: u64,
    /// Blocks (or parts) read from the cache's flash, or on their way there.
    pub read_block_hits: u64,
    /// Blocks (or parts) read whose bytes were staged in memory.
    pub read_block_staged_hits: u64,
    /// Blocks (or parts) read whose bytes came from a copy in memory because they are hot, whether on flash or not.
    pub read_block_hot_hits: u64,
    /// Blocks (or parts) read whose bytes were in memory because they were prefetched.
    pub read_block_ahead_hits: u64,
    /// Blocks (or parts) read that were nowhere here.
    pub read_block_misses: u64,
    /// Blocks that were not let in because the guest wants them kept out.
    pub kept_out_blocks: u64,
    /// Bytes of its blocks written to flash, for whatever cause.
    pub flash_written_bytes: u64,
    /// Bytes read from the origin.
    pub origin_read_bytes: u64,
    /// Bytes written to the origin.
    pub origin_written_bytes: u64,
    /// Origin operations that failed.
    pub origin_errors: u64,
    /// Bytes that reached the origin after they had waited on flash.
    pub destaged_bytes: u64,
    /// Writes that waited for room in the dirty log.
    pub stalled_writes: u64,
    /// Blocks of the disk in the cache now.
    pub cached_blocks: u64,
}
