//! Open segments: two streams for each disk, so that blocks that have proved themselves do not
//! share segments with blocks that have not.

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
}

impl Source {
    pub(crate) const COUNT: usize = 3;

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Fill => 0,
            Self::Update => 1,
            Self::Survivor => 2,
        }
    }
}

/// Which of a disk's open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// Whose.
    pub disk: DiskSlot,
    /// Survivors of reclaim, not new blocks.
    pub survivors: bool,
}

impl StreamKey {
    /// The stream that takes a disk's blocks of this source.
    pub const fn of(disk: DiskSlot, source: Source) -> Self {
        Self {
            disk,
            survivors: matches!(source, Source::Survivor),
        }
    }

    fn index(self) -> usize {
        self.disk.index() * 2 + usize::from(self.survivors)
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
}

impl OpenChunk {
    pub(crate) fn len(&self) -> u32 {
        self.blocks.iter().sum()
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
            .flat_map(|disk| [false, true].map(|survivors| StreamKey { disk, survivors }));
        let open = self.open.iter().zip(streams);
        open.filter_map(|(open, key)| Some((key, open.as_ref()?)))
    }

    /// The stream to which nothing was appended for longest, among those of such disks.
    pub(crate) fn coldest(&self, of: impl Fn(DiskSlot) -> bool) -> Option<StreamKey> {
        let its = self.iter().filter(|(key, _)| of(key.disk));
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
        assert_eq!(streams.coldest(|_| true), Some(key(7, Source::Fill)));
        let second = DiskSlot::new(2);
        let its = streams.coldest(|disk| disk == second);
        assert_eq!(its, Some(key(2, Source::Update)));
        let order: Vec<u32> = streams.iter().map(|(_, open)| open.segment.get()).collect();
        assert_eq!(order, [2, 1, 0]);
        assert!(
            streams.remove(key(7, Source::Update)).is_some(),
            "new blocks share a stream"
        );
        assert_eq!(streams.coldest(|_| true), Some(key(1023, Source::Survivor)));
    }
}
