//! Appending blocks: to the open chunk of a stream, chunks to their segment, full segments to
//! their footer.
//!
//! The driver asks [`SegmentLog::prepare`] until it says [`Step::Ready`], doing what each step
//! says, then [`SegmentLog::place`] for the slot, then does what [`After`] says.

use crate::index::Index;
use crate::limits::{SEGMENTS_OPEN_QUARTERS, SEGMENTS_RESERVED};
use crate::log::SegmentLog;
use crate::segment::Phase;
use crate::streams::{OpenChunk, OpenSegment, Source, StreamKey, StreamKind};
use flash_format::{CHUNK_BLOCKS_MAX, Geometry, RECORDS_PER_CHUNK_MAX, SegmentIndex};
use units::{FlashSlot, Instant};

/// What has to be done before a block can be placed in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: there is an open chunk with room.
    Ready,
    /// Nothing can be done: no segment is free for this stream.
    NoSegment,
    /// Close the stream ([`SegmentLog::close`]) and ask again: its segment has no room for
    /// another chunk.
    Close,
    /// A segment was opened: record it, and ask again.
    Opened {
        /// Which segment.
        segment: SegmentIndex,
        /// Under which generation.
        generation: u64,
    },
    /// A chunk was opened: make room for so many pages, its header's included, and ask again.
    ChunkOpened {
        /// Pages that it can have.
        pages: u32,
    },
}

/// Where a block was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its slot.
    pub slot: FlashSlot,
    /// Its page in the segment.
    pub page: u32,
    /// Its page in the chunk: 1 for the first, since a header lies before it.
    pub page_in_chunk: u32,
    /// What has to be done now.
    pub after: After,
}

/// What has to be done after a block was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: the chunk has room.
    Nothing,
    /// Seal the chunk ([`SegmentLog::seal`]): it is full.
    Seal,
    /// Seal the chunk and close the segment ([`SegmentLog::close`]): both are full.
    Close,
}

/// A chunk that is to be written; [`Table::write_ended`](crate::Table::write_ended) when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// In which segment.
    pub segment: SegmentIndex,
    /// Of which generation.
    pub generation: u64,
    /// Its header's page in the segment.
    pub page: u32,
    blocks: [u32; Source::COUNT],
}

impl Sealed {
    /// How many blocks of a source it has.
    pub const fn blocks_of(&self, source: Source) -> u32 {
        self.blocks[source.index()]
    }

    /// How many blocks it has.
    pub fn len(&self) -> u32 {
        self.blocks.iter().sum()
    }

    /// Whether it has nothing but erasures.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A segment whose footer is to be written; [`Table::write_ended`](crate::Table::write_ended) when it is.
#[derive(Debug)]
pub struct Closed<C> {
    /// Which segment.
    pub segment: SegmentIndex,
    /// Of which generation.
    pub generation: u64,
    /// Blocks in it.
    pub blocks: u32,
    /// What the driver kept of it.
    pub content: C,
}

/// Gives so many pages of a stream's open chunk to blocks of one source. Returns the first of them, and what
/// comes after the last.
#[inline]
pub(crate) fn take_pages<I, C>(
    log: &mut SegmentLog<I, C>,
    key: StreamKey,
    source: Source,
    count: u32,
    now: Instant,
) -> Placed {
    let open = log.streams.get_mut(key).expect("the stream is open");
    let chunk = open.chunk.as_mut().expect("the chunk is open");
    // Counted before the array is written: reading all of it at once right behind a write of one of its
    // numbers waits for that write.
    let before = chunk.len();
    chunk.blocks[source.index()] += count;
    let (page, blocks) = (open.next_page, before + count);
    let chunk_is_full = blocks == CHUNK_BLOCKS_MAX || has_all_records(blocks + chunk.erasures);
    open.next_page += count;
    open.blocks += count;
    open.appended = now;
    if source == Source::Survivor {
        open.appended_at = log.appended;
    } else {
        log.appended += u64::from(count);
        open.appended_at = log.appended - 1;
        let budget = log.table.tenants.budget_of_disk_mut(key.disk);
        budget.earn(count);
    }
    let geometry = log.table.geometry();
    let full = open.next_page == room(geometry) || open.blocks == geometry.segment_blocks_max();
    Placed {
        slot: geometry.slot(open.segment, page),
        page,
        page_in_chunk: before + 1,
        after: if full {
            After::Close
        } else if chunk_is_full {
            After::Seal
        } else {
            After::Nothing
        },
    }
}

/// Whether a chunk's header has no room beside so many records for another one.
const fn has_all_records(records: u32) -> bool {
    records as usize == RECORDS_PER_CHUNK_MAX
}

/// Pages of a segment before its footer.
pub(crate) const fn room(geometry: &Geometry) -> u32 {
    geometry.segment_pages() - geometry.footer_pages()
}

impl<I: Index, C: Default> SegmentLog<I, C> {
    /// The next thing to do before a block can be placed in a stream.
    #[inline]
    pub fn prepare(&mut self, key: StreamKey, now: Instant) -> Step {
        let room = room(self.table.geometry());
        let Some(open) = self.streams.get_mut(key) else {
            return self.open(key, now);
        };
        if open.chunk.is_some() {
            return Step::Ready;
        }
        // A header at the very end of the room would have no block behind it.
        if open.next_page + 2 > room {
            return Step::Close;
        }
        let pages = (room - open.next_page).min(1 + CHUNK_BLOCKS_MAX);
        open.chunk = Some(OpenChunk {
            page: open.next_page,
            since: now,
            blocks: [0; Source::COUNT],
            erasures: 0,
        });
        open.next_page += 1;
        self.table.get_mut(open.segment).has_open_chunk = true;
        Step::ChunkOpened { pages }
    }

    fn open(&mut self, key: StreamKey, now: Instant) -> Step {
        // What reclaim keeps always has room, so that a reclaim that has begun ends.
        let short = self.table.free_count() <= SEGMENTS_RESERVED;
        let refused = match key.kind {
            StreamKind::Survivors => false,
            StreamKind::New => {
                short || self.is_crowded_out() || !self.table.tenants.may_open(key.disk)
            }
            // A guest waits for it, and its driver bounds it: it only counts for its tenant.
            StreamKind::Dirty => short,
        };
        if refused {
            return Step::NoSegment;
        }
        let opened = self.table.open(key.disk, key.kind, self.appended);
        let Some((segment, generation)) = opened else {
            return Step::NoSegment;
        };
        let open = OpenSegment {
            segment,
            chunk: None,
            content: C::default(),
            next_page: 0,
            blocks: 0,
            appended: now,
            appended_at: self.appended,
        };
        self.streams.insert(key, open);
        Step::Opened {
            segment,
            generation,
        }
    }

    /// Whether so many segments are open that new blocks must not open one more. Who is turned away is
    /// remembered: a stream that has been idle for long is closed for its sake.
    fn is_crowded_out(&mut self) -> bool {
        let segments = self.table.geometry().segment_count() as usize;
        let crowded = self.streams.len() * 4 >= segments * SEGMENTS_OPEN_QUARTERS;
        self.turned_away |= crowded;
        crowded
    }

    /// Places a block in a stream's open chunk. The caller enters it into the index.
    ///
    /// # Panics
    /// If [`SegmentLog::prepare`] has not said [`Step::Ready`].
    #[inline]
    pub fn place(&mut self, key: StreamKey, source: Source, now: Instant) -> Placed {
        take_pages(self, key, source, 1, now)
    }

    /// Places an erasure in a dirty stream's open chunk: a record that takes no page.
    ///
    /// # Panics
    /// If [`SegmentLog::prepare`] has not said [`Step::Ready`], or the stream is not dirty.
    pub fn place_erasure(&mut self, key: StreamKey, now: Instant) -> After {
        assert!(
            key.kind == StreamKind::Dirty,
            "only dirty logs have erasures"
        );
        let open = self.streams.get_mut(key).expect("the stream is open");
        let chunk = open.chunk.as_mut().expect("the chunk is open");
        chunk.erasures += 1;
        open.appended = now;
        open.appended_at = self.appended;
        if has_all_records(chunk.records()) {
            After::Seal
        } else {
            After::Nothing
        }
    }

    /// Ends a stream's open chunk, if there is one. It is to be written.
    ///
    /// # Panics
    /// If it is empty.
    pub fn seal(&mut self, key: StreamKey) -> Option<Sealed> {
        let open = self.streams.get_mut(key)?;
        let chunk = open.chunk.take()?;
        assert!(chunk.records() > 0, "a chunk is opened for a record");
        let segment = open.segment;
        let entry = self.table.get_mut(segment);
        entry.has_open_chunk = false;
        entry.writes += 1;
        Some(Sealed {
            segment,
            generation: entry.generation,
            page: chunk.page,
            blocks: chunk.blocks,
        })
    }

    /// Ends a stream's open segment, if there is one. Its footer is to be written.
    ///
    /// # Panics
    /// If a chunk of it is open: that is sealed first.
    pub fn close(&mut self, key: StreamKey) -> Option<Closed<C>> {
        let open = self.streams.remove(key)?;
        assert!(open.chunk.is_none(), "the last chunk was sealed");
        let segment = open.segment;
        self.table.set_phase(segment, Phase::Closing);
        let entry = self.table.get_mut(segment);
        entry.writes += 1;
        Some(Closed {
            segment,
            generation: entry.generation,
            blocks: open.blocks,
            content: open.content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dense, Index, Phase};
    use flash_format::SegmentKind;
    use policy::reclaim::Kind;
    use units::{Bytes, DiskSlot};

    const NEW: StreamKey = StreamKey::of(DiskSlot::new(3), Source::Fill);

    /// Segments of 16 pages, one of them the footer's.
    fn log(segments: u32) -> SegmentLog<Dense, ()> {
        let geometry = Geometry::of_slots(segments * 16, Bytes::kib(64)).unwrap();
        SegmentLog::new(geometry, Dense::new(), Kind::Fifo.build())
    }

    fn place(log: &mut SegmentLog<Dense, ()>, key: StreamKey) -> Placed {
        while log.prepare(key, Instant::ZERO) != Step::Ready {}
        log.place(key, Source::Fill, Instant::ZERO)
    }

    #[test]
    fn a_segment_is_a_header_blocks_and_a_footer() {
        let mut log = log(8);
        let opened = log.prepare(NEW, Instant::ZERO);
        assert!(matches!(opened, Step::Opened { generation: 1, .. }));
        assert_eq!(
            log.prepare(NEW, Instant::ZERO),
            Step::ChunkOpened { pages: 15 }
        );
        for page in 1..=14 {
            let placed = place(&mut log, NEW);
            assert_eq!((placed.page, placed.page_in_chunk), (page, page));
            let last = page == 14;
            assert_eq!(
                placed.after,
                if last { After::Close } else { After::Nothing }
            );
        }
        let sealed = log.seal(NEW).unwrap();
        assert_eq!((sealed.page, sealed.len()), (0, 14));
        let closed = log.close(NEW).unwrap();
        assert_eq!((closed.segment, closed.blocks), (sealed.segment, 14));
        assert!(
            !log.table_mut().write_ended(closed.segment),
            "the footer is on its way"
        );
        assert!(log.table_mut().write_ended(closed.segment));
        assert_eq!(log.table().get(closed.segment).phase, Phase::Closed);
    }

    #[test]
    fn a_header_is_never_the_last_page_before_the_footer() {
        let mut log = log(8);
        for _ in 0..13 {
            place(&mut log, NEW);
        }
        // Pages 0 to 13 are taken, and page 14 is the last that is not the footer's.
        log.seal(NEW).unwrap();
        assert_eq!(log.prepare(NEW, Instant::ZERO), Step::Close);
    }

    #[test]
    fn a_chunk_of_127_blocks_is_full() {
        let geometry = Geometry::of_slots(8 * 1024, Bytes::mib(4)).unwrap();
        let mut log: SegmentLog<Dense, ()> =
            SegmentLog::new(geometry, Dense::new(), Kind::Fifo.build());
        for _ in 0..126 {
            assert_eq!(place(&mut log, NEW).after, After::Nothing);
        }
        assert_eq!(place(&mut log, NEW).after, After::Seal);
    }

    #[test]
    fn the_last_free_segment_is_for_survivors() {
        let mut log = log(8);
        for _ in 0..7 * 14 {
            if place(&mut log, NEW).after == After::Close {
                log.seal(NEW);
                log.close(NEW);
            }
        }
        assert_eq!(log.table().free_count(), SEGMENTS_RESERVED);
        assert_eq!(log.prepare(NEW, Instant::ZERO), Step::NoSegment);
        let survivors = StreamKey::of(NEW.disk, Source::Survivor);
        assert!(matches!(
            log.prepare(survivors, Instant::ZERO),
            Step::Opened { .. }
        ));
    }

    #[test]
    fn a_dirty_segment_is_held_until_it_is_destaged() {
        let mut log = log(8);
        let key = StreamKey::of(NEW.disk, Source::Dirty);
        let close = |log: &mut SegmentLog<Dense, ()>| {
            while log.prepare(key, Instant::ZERO) != Step::Ready {}
            log.place(key, Source::Dirty, Instant::ZERO);
            log.seal(key);
            let segment = log.close(key).unwrap().segment;
            assert!(
                !log.table_mut().write_ended(segment),
                "the footer is on its way"
            );
            segment
        };
        let first = close(&mut log);
        assert!(log.table_mut().write_ended(first));
        assert_eq!(log.table().get(first).phase, Phase::Dirty);
        assert_eq!(
            (log.table().closed_count(), log.table().held_by_nobody()),
            (0, 1)
        );
        log.self_check();
        // One whose footer is still on its way is ordinary when it has come.
        let second = close(&mut log);
        log.table_mut().destaged(second);
        assert_eq!(log.table().get(second).phase, Phase::Closing);
        assert!(log.table_mut().write_ended(second));
        assert_eq!(log.table().get(second).phase, Phase::Closed);
        assert_eq!(log.table().closed_count(), 1);
        log.table_mut().destaged(first);
        assert_eq!(log.table().closed().collect::<Vec<_>>(), [first, second]);
        log.self_check();
    }

    #[test]
    fn a_dirty_segment_that_was_found_is_held_too() {
        let geometry = Geometry::of_slots(8 * 16, Bytes::kib(64)).unwrap();
        let found = (0..8).map(|n| match n {
            1 => (Some((NEW.disk, SegmentKind::Dirty)), 5),
            2 => (Some((NEW.disk, SegmentKind::Clean)), 6),
            _ => (None, 0),
        });
        let mut log: SegmentLog<Dense, ()> =
            SegmentLog::recovered(geometry, Dense::new(), Kind::Fifo.build(), found);
        let phases: Vec<Phase> = log.table().iter().map(|(_, s)| s.phase).take(3).collect();
        assert_eq!(phases, [Phase::Free, Phase::Dirty, Phase::Closed]);
        log.self_check();
        log.table_mut().destaged(SegmentIndex::new(1));
        let order: Vec<u32> = log.table().closed().map(SegmentIndex::get).collect();
        assert_eq!(order, [1, 2]);
        log.self_check();
    }

    #[test]
    fn erasures_fill_a_header_and_no_pages() {
        let mut log = log(8);
        let key = StreamKey::of(NEW.disk, Source::Dirty);
        while log.prepare(key, Instant::ZERO) != Step::Ready {}
        log.place(key, Source::Dirty, Instant::ZERO);
        for _ in 0..RECORDS_PER_CHUNK_MAX - 2 {
            assert_eq!(log.place_erasure(key, Instant::ZERO), After::Nothing);
        }
        assert_eq!(log.place_erasure(key, Instant::ZERO), After::Seal);
        assert_eq!(log.seal(key).unwrap().len(), 1);
        assert_eq!(
            log.prepare(key, Instant::ZERO),
            Step::ChunkOpened { pages: 13 }
        );
        log.place_erasure(key, Instant::ZERO);
        assert!(log.seal(key).unwrap().is_empty());
    }

    #[test]
    fn dirty_blocks_leave_the_last_free_segment_to_survivors() {
        let mut log = log(8);
        let dirty = |disk| StreamKey::of(DiskSlot::new(disk), Source::Dirty);
        // More streams than new blocks could open.
        for disk in 0..7 {
            place(&mut log, dirty(disk));
        }
        assert_eq!(log.prepare(dirty(9), Instant::ZERO), Step::NoSegment);
        assert_eq!(log.table().free_count(), SEGMENTS_RESERVED);
    }

    #[test]
    fn new_blocks_open_no_segment_while_three_quarters_are_open() {
        let mut log = log(8);
        for disk in 0..6 {
            place(&mut log, StreamKey::of(DiskSlot::new(disk), Source::Fill));
        }
        let late = StreamKey::of(DiskSlot::new(9), Source::Fill);
        assert_eq!(log.prepare(late, Instant::ZERO), Step::NoSegment);
        assert_eq!(log.table().free_count(), 2);
    }

    #[test]
    fn a_released_segment_is_free_when_nobody_reads_it() {
        let mut log = log(8);
        let slot = place(&mut log, NEW).slot;
        let block = units::BlockIndex::new(5);
        log.enter(NEW.disk, block, slot).unwrap();
        assert_eq!(log.index().len(), 1);
        log.seal(NEW);
        let segment = log.close(NEW).unwrap().segment;
        log.table_mut().write_ended(segment);
        log.table_mut().write_ended(segment);
        log.pin(slot);
        log.table_mut().begin_free(segment);
        log.forget(NEW.disk, block);
        log.table_mut().release(segment);
        assert_eq!(
            (log.table().get(segment).phase, log.table().free_count()),
            (Phase::Draining, 7)
        );
        log.unpin(slot);
        assert_eq!(
            (log.table().get(segment).phase, log.table().free_count()),
            (Phase::Free, 8)
        );
        log.self_check();
    }
}
