//! The segment table: what each segment is, whose, and in which phase.
//!
//! ```text
//!        open()            close()           footer, chunks done
//!  Free ───────► Open ───────────► Closing ─────────────────────► Closed
//!   ▲                                                               │ begin_reclaim(),
//!   │ last reader and writer gone            release()              ▼ begin_free()
//!   └────────────── Draining ◄────────────────────────────── Reclaiming
//! ```

use crate::tenants::{Owner, Tenants};
use flash_format::{Geometry, SegmentIndex};
use std::collections::VecDeque;
use units::{DiskSlot, FlashSlot};

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing in it counts.
    Free,
    /// Blocks are being appended.
    Open,
    /// Full; its last writes are on their way.
    Closing,
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
    /// Whether its last blocks are in a chunk that is still open.
    pub has_open_chunk: bool,
    /// Reads from it in flight: its pages must not be written over.
    pub readers: u32,
    /// Index entries that point into it.
    pub live: u32,
    /// Chunks of it, and its footer, that are on their way.
    pub writes: u32,
}

const UNUSED: Segment = Segment {
    generation: 0,
    disk: DiskSlot::new(0),
    phase: Phase::Free,
    has_open_chunk: false,
    readers: 0,
    live: 0,
    writes: 0,
};

/// All segments.
pub(crate) struct Table {
    pub(crate) geometry: Geometry,
    segments: Vec<Segment>,
    free: VecDeque<SegmentIndex>,
    /// Who holds how many, and which of them are closed.
    pub(crate) tenants: Tenants,
    generation_next: u64,
    #[cfg(feature = "mutants")]
    pub(crate) ignores_readers: bool,
}

impl Table {
    /// A table of free segments.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let count = geometry.segment_count();
        Self {
            geometry,
            segments: vec![UNUSED; count as usize],
            free: (0..count).map(SegmentIndex::new).collect(),
            tenants: Tenants::new(),
            generation_next: 1,
            #[cfg(feature = "mutants")]
            ignores_readers: false,
        }
    }

    /// A table of segments of which some are closed: for each its disk, or none if it is free,
    /// and the generation of its last use.
    pub(crate) fn recovered(
        geometry: Geometry,
        found: impl Iterator<Item = (Option<DiskSlot>, u64)>,
    ) -> Self {
        let mut table = Self::new(geometry);
        table.free.clear();
        for (number, (disk, generation)) in (0..).zip(found) {
            let index = SegmentIndex::new(number);
            table.generation_next = table.generation_next.max(generation + 1);
            let segment = &mut table.segments[index.index()];
            segment.generation = generation;
            if let Some(disk) = disk {
                segment.disk = disk;
                table.set_phase(index, Phase::Closed);
            } else {
                table.free.push_back(index);
            }
        }
        table
    }

    #[inline]
    pub(crate) fn get(&self, segment: SegmentIndex) -> &Segment {
        &self.segments[segment.index()]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, segment: SegmentIndex) -> &mut Segment {
        &mut self.segments[segment.index()]
    }

    #[inline]
    pub(crate) fn of_slot(&mut self, slot: FlashSlot) -> &mut Segment {
        let segment = self.geometry.segment_of(slot);
        self.get_mut(segment)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SegmentIndex, &Segment)> {
        (0..).map(SegmentIndex::new).zip(&self.segments)
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Gives a free segment to a disk, under a new generation.
    pub(crate) fn open(&mut self, disk: DiskSlot) -> Option<(SegmentIndex, u64)> {
        let index = self.free.pop_front()?;
        let generation = self.generation_next;
        self.generation_next += 1;
        let segment = self.get_mut(index);
        assert!(
            segment.phase == Phase::Free && segment.readers == 0,
            "a free segment is idle"
        );
        assert!(
            segment.live == 0 && segment.writes == 0,
            "a free segment is empty"
        );
        segment.generation = generation;
        segment.disk = disk;
        self.set_phase(index, Phase::Open);
        Some((index, generation))
    }

    pub(crate) fn set_phase(&mut self, index: SegmentIndex, phase: Phase) {
        let segment = self.get_mut(index);
        let from = std::mem::replace(&mut segment.phase, phase);
        let (disk, generation) = (segment.disk, segment.generation);
        self.tenants.changed(disk, index, generation, from, phase);
    }

    /// A disk changes hands, with its segments.
    pub(crate) fn set_owner(&mut self, disk: DiskSlot, owner: Owner) {
        let segments = (0..).map(SegmentIndex::new).zip(&self.segments);
        let its = segments.filter(|(_, segment)| segment.disk == disk);
        let its = its.map(|(index, segment)| (index, segment.generation, segment.phase));
        self.tenants.set_owner(disk, owner, its);
    }

    /// The segment's last content is gone for good: it becomes free when nobody uses it.
    pub(crate) fn release(&mut self, index: SegmentIndex) {
        assert!(
            self.get(index).live == 0,
            "nothing points into a released segment"
        );
        self.set_phase(index, Phase::Draining);
        self.free_if_drained(index);
    }

    pub(crate) fn free_if_drained(&mut self, index: SegmentIndex) {
        let ignores_readers = self.ignores_readers();
        let segment = self.get_mut(index);
        let read = segment.readers > 0 && !ignores_readers;
        let used = read || segment.writes > 0;
        if segment.phase == Phase::Draining && !used {
            self.set_phase(index, Phase::Free);
            self.free.push_back(index);
        }
    }

    #[cfg(feature = "mutants")]
    fn ignores_readers(&self) -> bool {
        self.ignores_readers
    }

    #[cfg(not(feature = "mutants"))]
    #[allow(
        clippy::unused_self,
        reason = "with the feature it depends on the table"
    )]
    const fn ignores_readers(&self) -> bool {
        false
    }

    /// Generations from now on are `least` or above.
    pub(crate) fn start_generations(&mut self, least: u64) {
        self.generation_next = self.generation_next.max(least);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.free.capacity() * size_of::<SegmentIndex>()
            + self.tenants.bytes()
    }
}
