//! What is counted of a disk.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Counters of a disk since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskCounters {
    /// Read requests.
    pub read_requests: u64,
    /// Write requests.
    pub write_requests: u64,
    /// Flush requests.
    pub flush_requests: u64,
    /// Discard and write-zeroes requests.
    pub erase_requests: u64,
    /// Requests that ended with an error.
    pub failed_requests: u64,
    /// Bytes that guests read.
    pub read_bytes: u64,
    /// Bytes that guests wrote.
    pub written_bytes: u64,
    /// Blocks, or parts of one, that were read and were on flash.
    pub read_block_hits: u64,
    /// Blocks, or parts of one, that were read and were in memory: staged.
    pub read_block_staged_hits: u64,
    /// Blocks, or parts of one, that were read from a copy in memory because they are hot, whether on flash or not.
    pub read_block_hot_hits: u64,
    /// Blocks, or parts of one, that were read and were in memory because they were prefetched.
    pub read_block_ahead_hits: u64,
    /// Blocks, or parts of one, that were read and were in neither.
    pub read_block_misses: u64,
    /// Bytes written to flash for this disk: fills and updates.
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
}

impl DiskCounters {
    /// Blocks, or parts of one, that were read and were here: on flash or in memory.
    pub const fn found_blocks(&self) -> u64 {
        let in_memory = self.read_block_staged_hits + self.read_block_hot_hits;
        self.read_block_hits + in_memory + self.read_block_ahead_hits
    }

    /// Blocks, or parts of one, that were read.
    pub const fn read_blocks(&self) -> u64 {
        self.found_blocks() + self.read_block_misses
    }
}
