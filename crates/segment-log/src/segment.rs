//! One segment: whose, in which phase, and how warm its blocks are.

use crate::heat::{Census, MARKS, heat_of, mark_of, warm};
use flash_format::SegmentIndex;
use policy::reclaim::ClosedSegment;
use units::DiskSlot;

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing in it counts.
    Free,
    /// Blocks are being appended.
    Open,
    /// Full; its last writes are on their way.
    Closing,
    /// Full, and all of it is written; but the origin does not have all of it yet, so it stays.
    Dirty,
    /// Full, and all of it is written.
    Closed,
    /// Being reclaimed, or freed with its disk.
    Reclaiming,
    /// Given up; somebody still reads or writes it.
    Draining,
}

/// A segment, as the running log knows it.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Which use of the segment this is: no generation is given out twice.
    pub generation: u64,
    /// Whose blocks are in it.
    pub disk: DiskSlot,
    /// Where it is in its life.
    pub phase: Phase,
    /// It is a part of its disk's dirty log, of which the origin does not have all yet.
    pub is_dirty: bool,
    /// Whether its last blocks are in a chunk that is still open.
    pub has_open_chunk: bool,
    /// Reads from it in flight: its pages must not be written over.
    pub readers: u32,
    /// Index entries that point into it.
    pub live: u32,
    /// Chunks of it, and its footer, that are on their way.
    pub writes: u32,
    /// Its place in the order in which segments are looked at: it goes behind the others when it
    /// is spared. No two segments have the same.
    pub(crate) turn: u64,
    /// What the log's clock said when it was opened or last spared.
    pub(crate) since: u64,
    /// It has new blocks and was never spared.
    pub(crate) fresh: bool,
    /// How often it was spared, modulo [`MARKS`].
    pub(crate) round: u8,
    /// Live blocks by mark.
    pub(crate) census: Census,
}

impl Segment {
    /// So many blocks with this mark are in it now, beside those that were.
    #[inline]
    pub(crate) fn count(&mut self, mark: u8, blocks: u32) {
        self.live += blocks;
        self.census[usize::from(mark)] += u16::try_from(blocks).expect("a segment has fewer");
    }

    /// A block with this mark was in it.
    ///
    /// # Panics
    /// If it was not counted.
    #[inline]
    pub(crate) fn uncount(&mut self, mark: u8) {
        self.live = self.live.checked_sub(1).expect("each entry was counted");
        let marked = &mut self.census[usize::from(mark)];
        *marked = marked.checked_sub(1).expect("each mark was counted");
    }

    /// The mark of a block in it that was asked for: hotter by one, up to `heat_max`.
    #[inline]
    pub(crate) fn warmed(&mut self, mark: u8, heat_max: u8) -> u8 {
        let heat = heat_of(mark, self.round);
        if heat >= heat_max {
            return mark;
        }
        let hotter = mark_of(heat + 1, self.round);
        self.census[usize::from(mark)] -= 1;
        self.census[usize::from(hotter)] += 1;
        hotter
    }

    /// What a policy sees of the segment with this number when the log's clock says `now`.
    pub(crate) fn seen(&self, number: SegmentIndex, now: u64) -> ClosedSegment<SegmentIndex> {
        ClosedSegment {
            segment: number,
            opened: self.generation,
            age: now - self.since,
            live_blocks: self.live,
            warm_blocks: self.warm(),
        }
    }

    /// Live blocks that are warm.
    pub fn warm(&self) -> u32 {
        warm(&self.census, self.round)
    }
}

/// A segment that was never used.
pub(crate) const UNUSED: Segment = Segment {
    generation: 0,
    disk: DiskSlot::new(0),
    phase: Phase::Free,
    is_dirty: false,
    has_open_chunk: false,
    readers: 0,
    live: 0,
    writes: 0,
    turn: 0,
    since: 0,
    fresh: false,
    round: 0,
    census: [0; MARKS as usize],
};
