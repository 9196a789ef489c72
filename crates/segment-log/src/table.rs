//! The segment table: what each segment is, whose, and in which phase.
//!
//! ```text
//!        open()            close()           footer, chunks done
//!  Free ───────► Open ───────────► Closing ─────────────────────► Closed ◄─┐ spare()
//!   ▲                                 │                           ▲ │ └─────┘
//!   │                                 │ a dirty one    destaged() │ │
//!   │                                 └─────────────────► Dirty ──┘ │ begin_reclaim(),
//!   │ last reader and writer gone            release()              ▼ begin_free()
//!   └────────────── Draining ◄────────────────────────────── Reclaiming
//! ```

use crate::heat::MARKS;
use crate::limits::free_wanted;
use crate::segment::{Phase, Segment, UNUSED};
use crate::streams::StreamKind;
use crate::tenants::{Owner, Spare, Tenants};
use flash_format::{CHUNK_BLOCKS_MAX, Geometry, SegmentIndex, SegmentKind};
use policy::reclaim::Budget;
use std::collections::VecDeque;
use units::{DiskSlot, FlashSlot, TenantSlot};

/// What reclaim may write of a log of this layout. Each segment costs a footer and a header for each
/// chunk of its own; a chunk of survivors is sealed with each reclaim; and the entry that frees a
/// segment takes a page of the journal, which the next checkpoint doubles.
fn budget(geometry: &Geometry) -> Budget {
    let blocks = geometry.segment_blocks_max();
    let own = geometry.footer_pages() + blocks.div_ceil(CHUNK_BLOCKS_MAX) + 3;
    Budget::new(blocks, own)
}

/// Where a slot's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// On flash.
    Written,
    /// On flash, or in a chunk that is on its way there or open.
    PerhapsWritten,
    /// On flash, or in an open chunk.
    PerhapsInOpenChunk,
}

/// All segments.
pub struct Table {
    geometry: Geometry,
    segments: Vec<Segment>,
    free: VecDeque<SegmentIndex>,
    /// Who holds how many, and which of them are closed.
    pub(crate) tenants: Tenants,
    generation_next: u64,
    turn_next: u64,
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
            tenants: Tenants::new(budget(&geometry)),
            generation_next: 1,
            turn_next: 1,
            #[cfg(feature = "mutants")]
            ignores_readers: false,
        }
    }

    /// A table of segments of which some are closed: for each its disk and what it is for, or none
    /// if it is free, and the generation of its last use.
    pub(crate) fn recovered(
        geometry: Geometry,
        found: impl Iterator<Item = (Option<(DiskSlot, SegmentKind)>, u64)>,
    ) -> Self {
        let mut table = Self::new(geometry);
        table.free.clear();
        for (number, (used, generation)) in (0..).zip(found) {
            let index = SegmentIndex::new(number);
            table.generation_next = table.generation_next.max(generation + 1);
            let segment = &mut table.segments[index.index()];
            segment.generation = generation;
            segment.turn = generation;
            if let Some((disk, kind)) = used {
                segment.disk = disk;
                segment.is_dirty = kind == SegmentKind::Dirty;
                table.set_phase(index, Phase::Closing);
                table.written(index);
            } else {
                table.free.push_back(index);
            }
        }
        table.turn_next = table.generation_next;
        table
    }

    /// What a segment is.
    ///
    /// # Panics
    /// If there is none with this number.
    #[inline]
    pub fn get(&self, segment: SegmentIndex) -> &Segment {
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

    /// All segments, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentIndex, &Segment)> {
        (0..).map(SegmentIndex::new).zip(&self.segments)
    }

    /// How many segments are free.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Whether so few are free that some have to be reclaimed.
    #[inline]
    pub(crate) fn runs_short(&self) -> bool {
        self.free.len() < free_wanted(self.geometry.segment_count())
    }

    /// Of whom a segment is reclaimed now, in this order. Whoever is not above its share is not
    /// among them while somebody else is.
    pub(crate) fn givers(&mut self) -> Vec<Owner> {
        if !self.runs_short() {
            return self.tenants.over_its_limit().into_iter().collect();
        }
        let order = self.tenants.in_order_of_excess();
        let anybody_above = order.first().is_some_and(|(_, excess)| *excess > 0);
        let gives = |excess: i64| excess > 0 || !anybody_above;
        let givers = order.into_iter().filter(|(_, excess)| gives(*excess));
        givers.map(|(owner, _)| owner).collect()
    }

    /// Gives a free segment to a stream of a disk, under a new generation.
    pub(crate) fn open(
        &mut self,
        disk: DiskSlot,
        kind: StreamKind,
        now: u64,
    ) -> Option<(SegmentIndex, u64)> {
        let index = self.free.pop_front()?;
        let generation = self.generation_next;
        self.generation_next += 1;
        let turn = self.next_turn();
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
        segment.turn = turn;
        segment.since = now;
        segment.fresh = kind != StreamKind::Survivors;
        segment.is_dirty = kind == StreamKind::Dirty;
        segment.round = 0;
        self.set_phase(index, Phase::Open);
        Some((index, generation))
    }

    /// The last write of a full segment has ended.
    pub(crate) fn written(&mut self, index: SegmentIndex) {
        let is_dirty = self.get(index).is_dirty;
        self.set_phase(
            index,
            if is_dirty {
                Phase::Dirty
            } else {
                Phase::Closed
            },
        );
    }

    /// The origin has all that a segment of a dirty log has: it is an ordinary one from now on.
    ///
    /// # Panics
    /// If it is not full, or is clean.
    pub fn destaged(&mut self, index: SegmentIndex) {
        let before = *self.get(index);
        assert!(before.is_dirty, "it was dirty");
        let is_full = matches!(before.phase, Phase::Closing | Phase::Dirty);
        assert!(is_full, "only full segments are destaged");
        let segment = self.get_mut(index);
        segment.is_dirty = false;
        if before.phase == Phase::Dirty {
            segment.phase = Phase::Closed;
        }
        self.tenants
            .changed(index, &before, self.segments[index.index()]);
    }

    fn next_turn(&mut self) -> u64 {
        let turn = self.turn_next;
        self.turn_next += 1;
        turn
    }

    pub(crate) fn set_phase(&mut self, index: SegmentIndex, phase: Phase) {
        let before = *self.get(index);
        self.get_mut(index).phase = phase;
        self.tenants
            .changed(index, &before, self.segments[index.index()]);
    }

    /// A closed segment stays for another round, behind the others; its blocks become cooler.
    pub(crate) fn spare(&mut self, index: SegmentIndex, now: u64) {
        let before = *self.get(index);
        assert!(
            before.phase == Phase::Closed,
            "only closed segments are spared"
        );
        let turn = self.next_turn();
        let segment = self.get_mut(index);
        segment.turn = turn;
        segment.since = now;
        segment.fresh = false;
        segment.round = (segment.round + 1) % MARKS;
        self.tenants
            .changed(index, &before, self.segments[index.index()]);
    }

    /// A disk changes hands, with its segments.
    pub(crate) fn set_owner(&mut self, disk: DiskSlot, owner: Owner) {
        let segments = (0..).map(SegmentIndex::new).zip(&self.segments);
        let its = segments.filter(|(_, segment)| segment.disk == disk);
        self.tenants.set_owner(disk, owner, its);
    }

    /// The segment's last content is gone for good: it becomes free when nobody uses it.
    ///
    /// # Panics
    /// If a block lies in it.
    pub fn release(&mut self, index: SegmentIndex) {
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

    /// Where everything is on flash.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The segment in which a slot lies.
    #[inline]
    pub fn segment_of(&self, slot: FlashSlot) -> &Segment {
        self.get(self.geometry.segment_of(slot))
    }

    /// Closed segments in the order in which they were opened; sorts them all.
    pub fn closed(&self) -> impl DoubleEndedIterator<Item = SegmentIndex> {
        let all = self.iter();
        let closed = all.filter(|(_, segment)| segment.phase == Phase::Closed);
        let mut closed: Vec<(u64, SegmentIndex)> = closed
            .map(|(index, segment)| (segment.generation, index))
            .collect();
        closed.sort_unstable();
        closed.into_iter().map(|(_, segment)| segment)
    }

    /// How many segments are closed.
    pub fn closed_count(&self) -> usize {
        self.tenants.closed_count()
    }

    /// Says whose a disk is from now on, with all that is cached of it. A disk of which nobody
    /// has said it, and one of which `None` was said, belongs to no tenant: it is reclaimed first.
    /// Looks at every segment.
    pub fn set_tenant(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        self.set_owner(disk, Owner::of(tenant));
    }

    /// Sets a tenant's share in segments; 0 unless it was set. Moves nothing and drops nothing:
    /// a share acts when room is needed (see [`Spare`]). Shares may add up to more or less than
    /// the log has. A share below [`crate::SEGMENTS_PER_TENANT_MIN`] holds next to nothing.
    pub fn set_share(&mut self, tenant: TenantSlot, segments: u32) {
        self.tenants.set_share(tenant, segments);
    }

    /// A tenant's share in segments.
    pub fn share(&self, tenant: TenantSlot) -> u32 {
        self.tenants.share(tenant)
    }

    /// Segments that a tenant holds: open ones, those being reclaimed, all but those given up.
    pub fn held(&self, tenant: TenantSlot) -> u32 {
        self.tenants.held(Owner::of(Some(tenant)))
    }

    /// Segments of disks that no tenant has.
    pub fn held_by_nobody(&self) -> u32 {
        self.tenants.held(Owner::NOBODY)
    }

    /// What happens to flash that a share gives and its tenant does not use.
    pub fn set_spare(&mut self, spare: Spare) {
        self.tenants.set_spare(spare);
    }

    /// Where a slot's bytes are.
    #[inline]
    pub fn whereabouts(&self, slot: FlashSlot) -> Whereabouts {
        let segment = self.segment_of(slot);
        if segment.writes > 0 {
            Whereabouts::PerhapsWritten
        } else if segment.has_open_chunk {
            Whereabouts::PerhapsInOpenChunk
        } else {
            Whereabouts::Written
        }
    }

    /// Whether a slot's bytes are surely on flash and not only in memory.
    #[inline]
    pub fn is_written(&self, slot: FlashSlot) -> bool {
        self.whereabouts(slot) == Whereabouts::Written
    }

    /// A write of a segment that [`crate::SegmentLog::seal`] or [`crate::SegmentLog::close`] asked for has
    /// ended. True if it was the last one, and the segment is closed, or dirty, now.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn write_ended(&mut self, segment: SegmentIndex) -> bool {
        let entry = self.get_mut(segment);
        entry.writes = entry.writes.checked_sub(1).expect("each write was counted");
        let closed = entry.writes == 0 && entry.phase == Phase::Closing;
        if closed {
            self.written(segment);
        }
        self.free_if_drained(segment);
        closed
    }

    /// Takes a closed segment out of use, to be released when that is recorded.
    ///
    /// # Panics
    /// If it is not closed.
    pub fn begin_free(&mut self, segment: SegmentIndex) {
        let phase = self.get(segment).phase;
        assert!(phase == Phase::Closed, "only closed segments are freed");
        self.set_phase(segment, Phase::Reclaiming);
    }

    /// Generations from now on are `least` or above.
    pub fn start_generations(&mut self, least: u64) {
        self.generation_next = self.generation_next.max(least);
        self.turn_next = self.turn_next.max(least);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.free.capacity() * size_of::<SegmentIndex>()
            + self.tenants.bytes()
    }
}
