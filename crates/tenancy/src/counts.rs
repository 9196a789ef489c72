//! What was decided for a tenant, counted.

use policy::admission::Refusals;
use std::ops::AddAssign;

/// Bytes written to flash, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Blocks that were let in, and blocks that were rewritten.
    pub admitted: u64,
    /// Blocks that reclaim wrote again.
    pub reclaim: u64,
    /// Chunk headers, footers, journal, checkpoints.
    pub metadata: u64,
}

impl Wrote {
    /// All of it.
    pub const fn total(self) -> u64 {
        self.admitted + self.reclaim + self.metadata
    }
}

impl From<segment_log::FlashWritten> for Wrote {
    fn from(written: segment_log::FlashWritten) -> Self {
        Self {
            admitted: written.fill + written.update,
            reclaim: written.reclaim,
            metadata: written.descriptors + written.journal + written.checkpoint,
        }
    }
}

impl AddAssign for Wrote {
    fn add_assign(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.reclaim += other.reclaim;
        self.metadata += other.metadata;
    }
}

/// What became of a tenant's blocks since it was attached. Of a base image the accesses of all VMs count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written.
    pub writes: u64,
    /// Blocks read that were on flash.
    pub read_hits: u64,
    /// Blocks written whose old copy was on flash.
    pub write_hits: u64,
    /// Blocks read whose bytes were staged in memory.
    pub staged_hits: u64,
    /// Of a VM: blocks that it read of base images.
    pub image_reads: u64,
    /// Of those, the ones that were on flash or staged.
    pub image_hits: u64,
    /// Blocks that were let in, staged ones that went to flash later included.
    pub admitted: u64,
    /// Of these, blocks that no policy was asked about, since the flash had never been full.
    pub filled: u64,
    /// Blocks whose bytes were staged.
    pub staged: u64,
    /// Staged blocks that left without having been on flash.
    pub unstaged: u64,
    /// Rewritten blocks whose new copies went to flash.
    pub rewritten: u64,
    /// Blocks that reclaim dropped.
    pub evicted: u64,
    /// Blocks that were let in and found no room.
    pub withheld: u64,
    /// Blocks that were not let in, by reason.
    pub refused: Refusals,
    /// Bytes written to flash for it.
    pub wrote: Wrote,
}
