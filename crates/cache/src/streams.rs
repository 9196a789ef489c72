//! Open segments: two streams for each disk, so that blocks that have proved themselves do not
//! share segments with blocks that have not.

use crate::durability::WriteCount;
use block_io::Buf;
use flash_format::{Descriptor, SegmentIndex};
use units::{BlockIndex, DiskSlot, Instant, Map, Set};

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Read from the origin.
    Fill,
    /// Rewritten by the guest.
    Update,
    /// Kept by reclaim.
    Survivor,
}

/// Which of a disk's open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamKey {
    pub(crate) disk: DiskSlot,
    /// Survivors of reclaim, not new blocks.
    pub(crate) survivors: bool,
}

/// A block in a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) block: BlockIndex,
    pub(crate) source: Source,
    /// What had been written to the origin when these bytes were taken.
    pub(crate) count: WriteCount,
}

/// Blocks that wait to be written behind one header.
pub(crate) struct OpenChunk {
    pub(crate) buf: Buf,
    /// The header's page in the segment.
    pub(crate) page: u32,
    pub(crate) entries: Vec<Entry>,
    pub(crate) since: Instant,
}

/// An open segment.
pub(crate) struct OpenSegment {
    pub(crate) segment: SegmentIndex,
    /// The first page that is not taken.
    pub(crate) next_page: u32,
    /// What the footer will say.
    pub(crate) descriptors: Vec<Descriptor>,
    pub(crate) chunk: Option<OpenChunk>,
    pub(crate) appended: Instant,
}

/// All open segments.
#[derive(Default)]
pub(crate) struct Streams {
    open: Map<StreamKey, OpenSegment>,
    /// Segments with an open chunk: their last pages are in memory only.
    with_chunk: Set<SegmentIndex>,
}

impl Streams {
    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut OpenSegment> {
        self.open.get_mut(&key)
    }

    pub(crate) fn insert(&mut self, key: StreamKey, open: OpenSegment) {
        let previous = self.open.insert(key, open);
        assert!(previous.is_none(), "a stream has one open segment");
    }

    pub(crate) fn remove(&mut self, key: StreamKey) -> Option<OpenSegment> {
        self.open.remove(&key)
    }

    pub(crate) fn chunk_opened(&mut self, segment: SegmentIndex) {
        self.with_chunk.insert(segment);
    }

    /// Takes the open chunk of a stream.
    pub(crate) fn take_chunk(&mut self, key: StreamKey) -> Option<(SegmentIndex, OpenChunk)> {
        let open = self.open.get_mut(&key)?;
        let chunk = open.chunk.take()?;
        self.with_chunk.remove(&open.segment);
        Some((open.segment, chunk))
    }

    /// Whether some of a segment's blocks are in an open chunk.
    pub(crate) fn holds(&self, segment: SegmentIndex) -> bool {
        !self.with_chunk.is_empty() && self.with_chunk.contains(&segment)
    }

    /// The open segment with this number.
    pub(crate) fn of_segment(&self, key: StreamKey, segment: SegmentIndex) -> Option<&OpenSegment> {
        self.open.get(&key).filter(|open| open.segment == segment)
    }

    /// Every stream's key, in a fixed order.
    pub(crate) fn keys(&self) -> Vec<StreamKey> {
        let mut keys: Vec<StreamKey> = self.open.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// The stream to which nothing was appended for longest.
    pub(crate) fn coldest(&self) -> Option<StreamKey> {
        self.keys()
            .into_iter()
            .min_by_key(|key| self.open[key].appended)
    }
}
