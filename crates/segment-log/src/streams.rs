//! Open segments: two streams for each disk, so that blocks that have proved themselves do not
//! share segments with blocks that have not, and a third for what its origin does not have yet.

use flash_format::SegmentIndex;
use units::{DiskSlot, Instant};

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Read from the origin.
    Fill,
    /// Rewritten by the guest.
    Update,
    /// Kept by reclaim.
    Survivor,
    /// Written by the guest, and not to the origin yet.
    Dirty,
}

impl Source {
    pub(crate) const COUNT: usize = 4;

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Fill => 0,
            Self::Update => 1,
            Self::Survivor => 2,
            Self::Dirty => 3,
        }
    }
}

/// What a stream's segments hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// New blocks.
    New,
    /// Survivors of reclaim.
    Survivors,
    /// The disk's dirty log.
    Dirty,
}

impl StreamKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::New, Self::Survivors, Self::Dirty];

    const fn index(self) -> usize {
        match self {
            Self::New => 0,
            Self::Survivors => 1,
            Self::Dirty => 2,
        }
    }
}

/// Which of a disk's open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// Whose.
    pub disk: DiskSlot,
    /// What its segments hold.
    pub kind: StreamKind,
}

impl StreamKey {
    /// The stream that takes a disk's blocks of this source.
    pub const fn of(disk: DiskSlot, source: Source) -> Self {
        Self {
            disk,
            kind: match source {
                Source::Fill | Source::Update => StreamKind::New,
                Source::Survivor => StreamKind::Survivors,
                Source::Dirty => StreamKind::Dirty,
            },
        }
    }

    fn index(self) -> usize {
        self.disk.index() * StreamKind::ALL.len() + self.kind.index()
    }
}

/// Blocks that wait to be written behind one header.
#[derive(Clone, Copy, Debug)]
pub struct OpenChunk {
    /// The header's page in the segment.
    pub page: u32,
    /// When the chunk was opened.
    pub since: Instant,
    /// Blocks in it, by source.
    pub(crate) blocks: [u32; Source::COUNT],
    /// Erasures in it, which take no page.
    pub(crate) erasures: u32,
}

impl OpenChunk {
    pub(crate) fn len(&self) -> u32 {
        self.blocks.iter().sum()
    }

    /// Blocks and erasures.
    pub(crate) fn records(&self) -> u32 {
        self.len() + self.erasures
    }
}

/// An open segment, with what its driver keeps of it.
#[derive(Debug)]
pub struct OpenSegment<C> {
    /// Which segment.
    pub segment: SegmentIndex,
    /// Its open chunk.
    pub chunk: Option<OpenChunk>,
    /// What the driver keeps of it.
    pub content: C,
    /// The first page that is not taken.
    pub(crate) next_page: u32,
    /// Blocks in it.
    pub(crate) blocks: u32,
    pub(crate) appended: Instant,
    /// What the log's clock said then.
    pub(crate) appended_at: u64,
}

/// All open segments, by stream.
pub(crate) struct Streams<C> {
    open: Vec<Option<OpenSegment<C>>>,
    count: usize,
}

impl<C> Streams<C> {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            count: 0,
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: StreamKey) -> Option<&OpenSegment<C>> {
        self.open.get(key.index())?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut OpenSegment<C>> {
        self.open.get_mut(key.index())?.as_mut()
    }

    pub(crate) fn insert(&mut self, key: StreamKey, open: OpenSegment<C>) {
        if self.open.len() <= key.index() {
            self.open.resize_with(key.index() + 1, || None);
        }
        let previous = self.open[key.index()].replace(open);
        assert!(previous.is_none(), "a stream has one open segment");
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, key: StreamKey) -> Option<OpenSegment<C>> {
        let removed = self.open.get_mut(key.index())?.take();
        self.count -= usize::from(removed.is_some());
        removed
    }

    /// How many segments are open.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Every open segment with its stream, in a fixed order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamKey, &OpenSegment<C>)> {
        let streams = (0..)
            .map(DiskSlot::new)
            .flat_map(|disk| StreamKind::ALL.map(|kind| StreamKey { disk, kind }));
        let open = self.open.iter().zip(streams);
        open.filter_map(|(open, key)| Some((key, open.as_ref()?)))
    }

    /// The stream to which nothing was appended for longest, among those of such disks. Not a
    /// dirty one: closing it makes nothing that could be reclaimed.
    pub(crate) fn coldest(&self, of: impl Fn(DiskSlot) -> bool) -> Option<StreamKey> {
        let gives = |key: &StreamKey| of(key.disk) && key.kind != StreamKind::Dirty;
        let its = self.iter().filter(|(key, _)| gives(key));
        let coldest = its.min_by_key(|(_, open)| open.appended);
        coldest.map(|(key, _)| key)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.open.capacity() * size_of::<Option<OpenSegment<C>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(segment: u32, appended: u64) -> OpenSegment<()> {
        OpenSegment {
            segment: SegmentIndex::new(segment),
            chunk: None,
            content: (),
            next_page: 0,
            blocks: 0,
            appended: Instant::from_nanos(appended),
            appended_at: appended,
        }
    }

    #[test]
    fn the_stream_that_was_idle_longest_is_the_coldest_and_the_first_of_equals() {
        let mut streams = Streams::new();
        assert_eq!(streams.coldest(|_| true), None);
        let key = |disk, source| StreamKey::of(DiskSlot::new(disk), source);
        streams.insert(key(1023, Source::Survivor), open(0, 5));
        streams.insert(key(7, Source::Fill), open(1, 5));
        streams.insert(key(2, Source::Update), open(2, 9));
        streams.insert(key(7, Source::Dirty), open(3, 1));
        assert_eq!(streams.coldest(|_| true), Some(key(7, Source::Fill)));
        let second = DiskSlot::new(2);
        let its = streams.coldest(|disk| disk == second);
        assert_eq!(its, Some(key(2, Source::Update)));
        let order: Vec<u32> = streams.iter().map(|(_, open)| open.segment.get()).collect();
        assert_eq!(order, [2, 1, 3, 0]);
        assert!(
            streams.remove(key(7, Source::Update)).is_some(),
            "new blocks share a stream"
        );
        assert_eq!(streams.coldest(|_| true), Some(key(1023, Source::Survivor)));
    }
}
