//! Where everything is on a flash device of a given size.

use crate::FormatError;
use crate::checkpoint::{DISK_PAGES, segment_entry_bytes};
use crate::page::{BODY_BYTES, PAGE_BYTES};
use crate::segment::DESCRIPTORS_PER_PAGE;
use std::fmt;
use units::{BLOCK_BYTES, BlockIndex, Bytes, FlashSlot, Offset};

/// Smallest segment.
pub const SEGMENT_BYTES_MIN: Bytes = Bytes::kib(64);
/// Largest segment: its entry in the segment table fits in a page.
pub const SEGMENT_BYTES_MAX: Bytes = Bytes::mib(16);
/// A segment of a flash of 1.75 GiB and more, unless the operator says otherwise: large against an erase
/// block's stripe, small against a VM's share. [`segment_bytes_for`](crate::segment_bytes_for) has a smaller flash's.
pub const SEGMENT_BYTES_DEFAULT: Bytes = Bytes::mib(4);
/// Largest disk: block numbers have [`BlockIndex::BITS`] bits.
pub const DISK_BYTES_MAX: Bytes = Bytes::new(BLOCK_BYTES << BlockIndex::BITS);

/// Fewest segments with which reclaim can work: one open for each of the two streams of a
/// disk, some free, some to choose victims from.
const SEGMENTS_MIN: u64 = 8;
/// Most segments: slots are 32-bit page numbers.
const SLOTS_MAX: u64 = 1 << 32;
/// Where the journal starts: behind both superblocks.
const JOURNAL_OFFSET: u64 = 128 << 10;
/// Fewest pages of journal.
const JOURNAL_PAGES_MIN: u64 = 64;
/// The ring is so many times as long as a checkpoint, which is written each time that the ring fills up:
/// then checkpoints cost a sixth of what the journal costs. With a ring as long as a checkpoint, as
/// formats before 3 have it, they cost twice as much as the journal.
const JOURNAL_CHECKPOINTS: u64 = 8;
/// But it never takes more than one page in so many of all segments' ...
const JOURNAL_SHARE: u64 = 64;
/// ... nor more than this, unless a checkpoint alone is longer: a recovery reads all of it. 64 MiB.
const JOURNAL_PAGES_MAX: u64 = 16_384;

/// How long the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// As long as a checkpoint: caches that were formatted before version 3.
    Short,
    /// Eight times as long, where there is room.
    Long,
}

impl Ring {
    fn pages(self, checkpoint: u64, slots: u64) -> u64 {
        let least = checkpoint.max(JOURNAL_PAGES_MIN);
        match self {
            Self::Short => least,
            Self::Long => (checkpoint * JOURNAL_CHECKPOINTS)
                .min(slots / JOURNAL_SHARE)
                .min(JOURNAL_PAGES_MAX)
                .max(least),
        }
    }
}

/// A segment's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(u32);

impl SegmentIndex {
    /// The segment with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as a table index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for SegmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seg{}", self.0)
    }
}

/// The layout of one cache: a function of the device's size and the segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    capacity: Bytes,
    segment_bytes: u64,
    segment_count: u32,
    journal_pages: u64,
    ring: Ring,
    segment_table_pages: u64,
    /// Where the first segment is: asked at each read.
    segments_offset: u64,
}

impl Geometry {
    /// The layout for a device of `capacity` bytes.
    ///
    /// # Errors
    /// [`FormatError::SegmentSize`] and [`FormatError::TooSmall`].
    pub fn new(capacity: Bytes, segment_bytes: Bytes) -> Result<Self, FormatError> {
        Self::with_ring(capacity, segment_bytes, Ring::Long)
    }

    /// The layout that a cache of this size has with such a journal.
    pub(crate) fn with_ring(
        capacity: Bytes,
        segment_bytes: Bytes,
        ring: Ring,
    ) -> Result<Self, FormatError> {
        if !segment_bytes.get().is_power_of_two()
            || segment_bytes < SEGMENT_BYTES_MIN
            || segment_bytes > SEGMENT_BYTES_MAX
        {
            return Err(FormatError::SegmentSize(segment_bytes));
        }
        let size = segment_bytes.get();
        let slots_limit = SLOTS_MAX / (size / BLOCK_BYTES);
        let mut count = (capacity.get() / size).min(slots_limit);
        // The tables shrink with the number of segments, so a few steps down always fit.
        while count >= SEGMENTS_MIN {
            let geometry = Self::with_segments(capacity, size, count, ring);
            if geometry.end() <= capacity.get() {
                return Ok(geometry);
            }
            let excess = geometry.end() - capacity.get();
            count = count.saturating_sub(excess.div_ceil(size).max(1));
        }
        let needed = Self::with_segments(capacity, size, SEGMENTS_MIN, ring).end();
        Err(FormatError::TooSmall {
            needed: Bytes::new(needed),
            present: capacity,
        })
    }

    /// The layout of a device that has room for as many segments as fit in `slots` pages, and for
    /// nothing more than these and the tables.
    ///
    /// # Errors
    /// [`FormatError::SegmentSize`] and [`FormatError::TooSmall`].
    pub fn of_slots(slots: u32, segment_bytes: Bytes) -> Result<Self, FormatError> {
        // The size is checked, and the device is large enough in any case.
        Self::new(Bytes::gib(1), segment_bytes)?;
        let size = segment_bytes.get();
        let count = u64::from(slots / pages_of(size));
        let needed =
            Self::with_segments(Bytes::ZERO, size, count.max(SEGMENTS_MIN), Ring::Long).end();
        if count < SEGMENTS_MIN {
            return Err(FormatError::TooSmall {
                needed: Bytes::new(SEGMENTS_MIN * size),
                present: Bytes::new(u64::from(slots) * BLOCK_BYTES),
            });
        }
        Ok(Self::with_segments(
            Bytes::new(needed),
            size,
            count,
            Ring::Long,
        ))
    }

    fn with_segments(capacity: Bytes, segment_bytes: u64, count: u64, ring: Ring) -> Self {
        let per_page = (BODY_BYTES / segment_entry_bytes(pages_of(segment_bytes))) as u64;
        let segment_table_pages = count.div_ceil(per_page);
        let mut layout = Self {
            capacity,
            segment_bytes,
            segment_count: u32::try_from(count)
                .expect("at most 2^28 segments of at least 16 pages"),
            journal_pages: ring.pages(
                segment_table_pages + DISK_PAGES as u64,
                count * u64::from(pages_of(segment_bytes)),
            ),
            ring,
            segment_table_pages,
            segments_offset: 0,
        };
        layout.segments_offset = layout.tables_end();
        layout
    }

    /// Size of the device when it was formatted.
    pub const fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Bytes in a segment.
    pub const fn segment_bytes(&self) -> Bytes {
        Bytes::new(self.segment_bytes)
    }

    /// Pages in a segment, headers and footer included.
    pub const fn segment_pages(&self) -> u32 {
        pages_of(self.segment_bytes)
    }

    /// Number of segments.
    pub const fn segment_count(&self) -> u32 {
        self.segment_count
    }

    /// Pages at a segment's end that its footer takes.
    pub const fn footer_pages(&self) -> u32 {
        self.segment_pages().div_ceil(256)
    }

    /// Most blocks that a segment can hold: what its footer can describe.
    pub const fn segment_blocks_max(&self) -> u32 {
        let described = self.footer_pages() * narrow(DESCRIPTORS_PER_PAGE as u64);
        let room = self.segment_pages() - self.footer_pages() - 1;
        if described < room { described } else { room }
    }

    /// Slots in all segments, whatever they hold.
    pub const fn slots(&self) -> u64 {
        self.segment_count as u64 * self.segment_pages() as u64
    }

    /// Pages of the journal's ring.
    pub const fn journal_pages(&self) -> u64 {
        self.journal_pages
    }

    /// Which journal it has: the version of the format says so.
    pub(crate) const fn ring(&self) -> Ring {
        self.ring
    }

    /// Pages of the ring in use beyond which a checkpoint is due: three quarters, so that commits go on
    /// while it is written.
    pub const fn checkpoint_due(&self) -> u64 {
        self.journal_pages * 3 / 4
    }

    /// Where the journal page with this sequence number goes.
    pub const fn journal_page_offset(&self, sequence: u64) -> Offset {
        Offset::new(JOURNAL_OFFSET + sequence % self.journal_pages * PAGE_BYTES as u64)
    }

    /// Pages of a checkpoint: the disk table and the segment table.
    pub const fn checkpoint_pages(&self) -> u64 {
        DISK_PAGES as u64 + self.segment_table_pages
    }

    /// Where page `page` of checkpoint area `area` (0 or 1) is.
    pub const fn checkpoint_page_offset(&self, area: u8, page: u64) -> Offset {
        let base = JOURNAL_OFFSET + self.journal_pages * PAGE_BYTES as u64;
        Offset::new(base + (area as u64 * self.checkpoint_pages() + page) * PAGE_BYTES as u64)
    }

    /// Segments whose entries share a page of the segment table.
    pub const fn segments_per_page(&self) -> u32 {
        narrow((BODY_BYTES / segment_entry_bytes(self.segment_pages())) as u64)
    }

    /// Where a segment starts.
    ///
    /// # Panics
    /// If the cache has no such segment.
    pub fn segment_offset(&self, segment: SegmentIndex) -> Offset {
        assert!(
            segment.get() < self.segment_count,
            "a segment of this cache"
        );
        Offset::new(self.segments_offset + u64::from(segment.get()) * self.segment_bytes)
    }

    /// Where a segment's footer starts.
    ///
    /// # Panics
    /// If the cache has no such segment.
    pub fn footer_offset(&self, segment: SegmentIndex) -> Offset {
        let first = self.segment_pages() - self.footer_pages();
        self.segment_offset(segment) + Bytes::new(u64::from(first) * PAGE_BYTES as u64)
    }

    /// Where a slot's page is.
    ///
    /// # Panics
    /// If the cache has no such slot.
    pub fn slot_offset(&self, slot: FlashSlot) -> Offset {
        let offset = self.segments_offset + u64::from(slot.get()) * BLOCK_BYTES;
        assert!(u64::from(slot.get()) < self.slots(), "a slot of this cache");
        Offset::new(offset)
    }

    /// The slot of a page of a segment that holds a block.
    ///
    /// # Panics
    /// For the first page of segment 0: every segment starts with a chunk header.
    pub const fn slot(&self, segment: SegmentIndex, page: u32) -> FlashSlot {
        FlashSlot::new(segment.get() * self.segment_pages() + page)
    }

    /// The segment in which a slot lies.
    pub const fn segment_of(&self, slot: FlashSlot) -> SegmentIndex {
        // A segment's pages are a power of two.
        SegmentIndex::new(slot.get() >> self.segment_pages().trailing_zeros())
    }

    /// A slot's page within its segment.
    pub const fn page_of(&self, slot: FlashSlot) -> u32 {
        slot.get() & (self.segment_pages() - 1)
    }

    /// The end of the tables, where the first segment begins.
    fn tables_end(&self) -> u64 {
        // On a boundary of its own size, so that a segment never shares an erase block needlessly.
        let tables_end = self
            .checkpoint_page_offset(1, self.checkpoint_pages())
            .get();
        tables_end.next_multiple_of(self.segment_bytes.min(1 << 20))
    }

    fn end(&self) -> u64 {
        self.segments_offset + u64::from(self.segment_count) * self.segment_bytes
    }
}

const fn pages_of(segment_bytes: u64) -> u32 {
    narrow(segment_bytes / BLOCK_BYTES)
}

/// A count of pages or entries, all of which are far below 2^32.
const fn narrow(count: u64) -> u32 {
    assert!(count <= 1 << 16, "few pages or entries");
    #[allow(
        clippy::cast_possible_truncation,
        reason = "it was checked; try_from is not const"
    )]
    {
        count as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_fit() {
        for (capacity, segment) in [
            (Bytes::mib(2), SEGMENT_BYTES_MIN),
            (Bytes::gib(10), SEGMENT_BYTES_DEFAULT),
            (Bytes::gib(1024), SEGMENT_BYTES_DEFAULT),
            (Bytes::gib(100), SEGMENT_BYTES_MAX),
        ] {
            let g = Geometry::new(capacity, segment).unwrap();
            assert!(g.journal_page_offset(g.journal_pages() - 1) < g.checkpoint_page_offset(0, 0));
            assert_eq!(
                g.checkpoint_page_offset(0, g.checkpoint_pages()),
                g.checkpoint_page_offset(1, 0)
            );
            assert!(
                g.checkpoint_page_offset(1, g.checkpoint_pages())
                    <= g.segment_offset(SegmentIndex::new(0))
            );
            let last = SegmentIndex::new(g.segment_count() - 1);
            let end = (g.segment_offset(last) + g.segment_bytes()).from_start();
            assert!(end <= capacity);
            // No room for one segment more is wasted.
            assert!(end + g.segment_bytes() + g.segment_bytes() > capacity);
            assert!(g.segment_blocks_max() * 100 > g.segment_pages() * 85);
        }
    }

    #[test]
    fn the_journal_is_eight_checkpoints_long_where_there_is_room() {
        let pages = |capacity, ring| {
            let g = Geometry::with_ring(capacity, SEGMENT_BYTES_DEFAULT, ring).unwrap();
            (g.checkpoint_pages(), g.journal_pages())
        };
        // 64 MiB: 15 segments of 1024 pages, of which a 64th are 240.
        assert_eq!(pages(Bytes::mib(64), Ring::Long), (35, 240));
        assert_eq!(pages(Bytes::mib(64), Ring::Short), (35, 64));
        let (checkpoint, journal) = pages(Bytes::gib(10), Ring::Long);
        assert_eq!(journal, 8 * checkpoint);
        let (checkpoint, journal) = pages(Bytes::gib(1024), Ring::Long);
        assert!(checkpoint < JOURNAL_PAGES_MAX);
        assert_eq!(journal, JOURNAL_PAGES_MAX);
        let (checkpoint, journal) = pages(Bytes::gib(8192), Ring::Long);
        assert_eq!(journal, checkpoint, "never shorter than a checkpoint");
    }

    #[test]
    fn a_layout_for_slots_has_all_the_segments_that_fit_in_them() {
        let g = Geometry::of_slots(1000, SEGMENT_BYTES_MIN).unwrap();
        assert_eq!((g.segment_count(), g.slots()), (62, 992));
        assert_eq!(Geometry::new(g.capacity(), SEGMENT_BYTES_MIN), Ok(g));
        let small = Geometry::of_slots(127, SEGMENT_BYTES_MIN);
        let Err(FormatError::TooSmall { needed, present }) = small else {
            panic!("eight segments need 128 slots");
        };
        assert_eq!((needed, present), (Bytes::kib(512), Bytes::kib(508)));
        let odd = Geometry::of_slots(1000, Bytes::kib(100));
        assert_eq!(odd, Err(FormatError::SegmentSize(Bytes::kib(100))));
    }

    #[test]
    fn a_device_that_is_too_small_says_what_it_needs() {
        let Err(FormatError::TooSmall { needed, .. }) =
            Geometry::new(Bytes::mib(1), SEGMENT_BYTES_DEFAULT)
        else {
            panic!("1 MiB is too small");
        };
        assert!(Geometry::new(needed, SEGMENT_BYTES_DEFAULT).is_ok());
    }

    #[test]
    fn slots_and_segments_agree() {
        let g = Geometry::new(Bytes::mib(64), Bytes::mib(1)).unwrap();
        let slot = g.slot(SegmentIndex::new(3), 17);
        assert_eq!(
            (g.segment_of(slot), g.page_of(slot)),
            (SegmentIndex::new(3), 17)
        );
        assert_eq!(
            g.slot_offset(slot),
            g.segment_offset(SegmentIndex::new(3)) + Bytes::new(17 * 4096)
        );
    }
}
