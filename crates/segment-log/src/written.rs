//! What is written to flash, by cause.

use crate::append::Sealed;
use crate::streams::Source;
use flash_format::PAGE_BYTES;

/// Bytes written to flash, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWritten {
    /// Blocks that were read from the origin.
    pub fill: u64,
    /// Blocks that a guest rewrote.
    pub update: u64,
    /// Blocks that reclaim kept.
    pub reclaim: u64,
    /// Blocks that a guest wrote and that the origin did not have yet.
    pub dirty: u64,
    /// Descriptors: chunk headers and footers.
    pub descriptors: u64,
    /// Journal pages.
    pub journal: u64,
    /// Checkpoints and superblocks.
    pub checkpoint: u64,
}

impl FlashWritten {
    /// All of it.
    pub fn total(&self) -> u64 {
        let blocks = self.fill + self.update + self.reclaim + self.dirty;
        blocks + self.descriptors + self.journal + self.checkpoint
    }

    /// Counts a chunk: its blocks and its header.
    pub fn count_chunk(&mut self, chunk: &Sealed) {
        let bytes = |source: Source| u64::from(chunk.blocks_of(source)) * PAGE_BYTES as u64;
        self.fill += bytes(Source::Fill);
        self.update += bytes(Source::Update);
        self.reclaim += bytes(Source::Survivor);
        self.dirty += bytes(Source::Dirty);
        self.descriptors += PAGE_BYTES as u64;
    }

    /// Counts a footer of so many pages.
    pub fn count_footer(&mut self, pages: u32) {
        self.descriptors += u64::from(pages) * PAGE_BYTES as u64;
    }
}
