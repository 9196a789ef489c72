//! What waits in memory to be written to a segment.

use crate::payload::Pages;
use crate::ports::Payload;
use crate::write_count::WriteCount;
use block_io::Slice;
use dirty_log::RecordNumber;
use flash_format::{Descriptor, DirtyRecord, PAGE_BYTES, PageBytes, SegmentIndex};
use segment_log::{Sealed, SegmentLog, Source};
use units::{BlockIndex, DiskSlot};

/// A block in a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) block: BlockIndex,
    pub(crate) source: Source,
    /// What had been written to the origin when these bytes were taken.
    pub(crate) count: WriteCount,
}

/// Blocks that wait to be written behind one header.
pub(crate) struct Gathered<P: Payload> {
    /// Room for the header, and the blocks.
    pub(crate) open: P::Open,
    pub(crate) entries: Vec<Entry>,
    /// Of a dirty log: what its header will say.
    pub(crate) records: Vec<DirtyRecord>,
}

/// What is remembered of an open segment until its footer is written.
pub(crate) struct Content<P: Payload = Pages> {
    /// What the footer will say.
    pub(crate) descriptors: Vec<Descriptor>,
    /// The blocks of its open chunk.
    pub(crate) chunk: Option<Gathered<P>>,
}

impl<P: Payload> Default for Content<P> {
    fn default() -> Self {
        Self {
            descriptors: Vec::new(),
            chunk: None,
        }
    }
}

/// Where blocks and segments are.
pub(crate) type Segments<P = Pages> = SegmentLog<<P as Payload>::Index, Content<P>>;

/// A chunk on its way to flash.
pub(crate) struct Chunk<P: Payload> {
    pub(crate) disk: DiskSlot,
    pub(crate) segment: SegmentIndex,
    /// The header's page in the segment.
    pub(crate) page: u32,
    pub(crate) entries: Vec<Entry>,
    /// Header and blocks.
    pub(crate) sealed: P::Sealed,
    pub(crate) of_log: Option<OfLog>,
}

/// What a chunk is to a dirty log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfLog {
    /// The number behind its last record.
    pub(crate) end: RecordNumber,
    /// Its place in retained memory.
    pub(crate) place: u32,
}

impl<P: Payload> Chunk<P> {
    /// What a stream has sealed, with the header that `encode` makes.
    pub(crate) fn of(
        disk: DiskSlot,
        sealed: &Sealed,
        gathered: Gathered<P>,
        of_log: Option<OfLog>,
        encode: impl FnOnce() -> PageBytes,
    ) -> Self {
        Self {
            disk,
            segment: sealed.segment,
            page: sealed.page,
            sealed: P::seal(gathered.open, gathered.entries.len(), encode),
            entries: gathered.entries,
            of_log,
        }
    }
}

impl Chunk<Pages> {
    /// The block in this page of the segment, and its bytes as they lie on flash, if it is in the
    /// chunk.
    pub(crate) fn block(&self, segment: SegmentIndex, page: u32) -> Option<(BlockIndex, Slice)> {
        if segment != self.segment || page <= self.page {
            return None;
        }
        let at = (page - self.page) as usize;
        let block = self.entries.get(at - 1)?.block;
        let bytes = self.sealed.slice(at * PAGE_BYTES..(at + 1) * PAGE_BYTES);
        Some((block, bytes))
    }
}
