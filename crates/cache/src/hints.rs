//! What guests say of their disks, for as long as these are attached.
//!
//! Asked only about a block that is neither on flash nor in memory, and whose bytes are at hand: the path of a hit knows
//! nothing of hints.

use admission::{Hint, Hints};
use units::{BlockIndex, Bytes, DiskSlot, Map};

/// Ranges that are known of all disks of a tenant: 1.25 MiB.
pub(crate) const RANGES_MAX: usize = 32_768;

/// What is known by the word of guests.
#[derive(Default)]
pub(crate) struct HintsOfDisks(Map<DiskSlot, Hints>);

/// What a guest has said of a disk, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hinted {
    /// Ranges that are known.
    pub ranges: u64,
    /// Blocks that are to be kept out.
    pub kept_out_blocks: u64,
    /// Blocks that will be wanted again.
    pub wanted_blocks: u64,
}

impl HintsOfDisks {
    /// The guest of a disk says this of blocks; other disks of its tenant have so many ranges. False if those are too many.
    pub(crate) fn say(
        &mut self,
        disk: DiskSlot,
        (first, end): (BlockIndex, BlockIndex),
        hint: Hint,
        others: usize,
    ) -> bool {
        let most = RANGES_MAX.saturating_sub(others);
        self.0.entry(disk).or_default().say(first, end, hint, most)
    }

    /// Nothing is known of a disk any more.
    pub(crate) fn forget(&mut self, disk: DiskSlot) {
        self.0.remove(&disk);
    }

    /// What is said of a block.
    pub(crate) fn of(&self, disk: DiskSlot, block: BlockIndex) -> Option<Hint> {
        self.0.get(&disk)?.of(block)
    }

    /// Ranges that are known of a disk.
    pub(crate) fn ranges(&self, disk: DiskSlot) -> usize {
        self.0.get(&disk).map_or(0, Hints::len)
    }

    /// What is known of a disk.
    pub(crate) fn hinted(&self, disk: DiskSlot) -> Hinted {
        let known = self.0.get(&disk);
        known.map_or_else(Hinted::default, |hints| Hinted {
            ranges: hints.len() as u64,
            kept_out_blocks: hints.blocks(Hint::KeepOut),
            wanted_blocks: hints.blocks(Hint::Wanted),
        })
    }

    /// Main memory of all of it, about.
    pub(crate) fn memory(&self) -> Bytes {
        self.0.values().map(Hints::memory).sum()
    }
}
