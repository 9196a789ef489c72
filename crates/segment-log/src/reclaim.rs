//! Reclaim: which segment is made free again, and what of it is kept.
//!
//! ```text
//!  begin_reclaim ─► keeps(block)? ─► driver appends it as a survivor ─► moved(from, to)
//!        driver waits until they are written (survivors_written), and records the segment free
//!  point_at each survivor's new slot ─► evict the rest ─► release
//! ```
//!
//! Until the driver has recorded the segment free the index points into it, so that whoever
//! writes one of its blocks finds the copy that a recovery would find.

use crate::index::Index;
use crate::limits::free_wanted;
use crate::log::SegmentLog;
use crate::streams::StreamKey;
use crate::table::Phase;
use crate::tenants::Owner;
use flash_format::SegmentIndex;
use policy::reclaim::{Candidate, ClosedSegment};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// What is to be done about free segments.
#[derive(Debug)]
pub enum Begin {
    /// Enough are free.
    Enough,
    /// Nothing can be done before a write has ended.
    Wait,
    /// Every segment is open: close the stream that was idle longest.
    Close(StreamKey),
    /// This one is reclaimed.
    Reclaim(Victim),
}

/// A block that reclaim writes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which block of the victim's disk.
    pub block: BlockIndex,
    /// Where it lies until the victim is free.
    pub from: FlashSlot,
    /// Where it will be.
    pub to: FlashSlot,
}

/// A segment that is being reclaimed.
#[derive(Debug)]
pub struct Victim {
    segment: SegmentIndex,
    disk: DiskSlot,
    kept: u32,
    moves: Vec<Move>,
}

impl Victim {
    /// Which segment.
    pub fn segment(&self) -> SegmentIndex {
        self.segment
    }

    /// Whose.
    pub fn disk(&self) -> DiskSlot {
        self.disk
    }

    /// The stream that takes its survivors.
    pub fn survivors(&self) -> StreamKey {
        StreamKey {
            disk: self.disk,
            survivors: true,
        }
    }

    /// A survivor was placed in its stream.
    pub fn moved(&mut self, moved: Move) {
        self.moves.push(moved);
    }

    /// A survivor is not where it was meant to be.
    pub fn lost(&mut self, to: FlashSlot) {
        self.moves.retain(|moved| moved.to != to);
    }

    /// The survivors that were placed, each once.
    pub fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }
}

impl<I: Index, C> SegmentLog<I, C> {
    fn wants_reclaim(&self) -> bool {
        self.table.free_count() < free_wanted(self.table.geometry.segment_count())
    }

    /// Begins a reclaim if segments run short, or if a tenant is over its limit and is not to be
    /// ([`crate::Spare`]). One is under way at a time.
    pub fn begin_reclaim(&mut self) -> Begin {
        let givers = self.givers();
        if givers.is_empty() {
            return Begin::Enough;
        }
        let Some(segment) = givers.iter().find_map(|owner| self.choose_victim(*owner)) else {
            return self.close_for(&givers);
        };
        self.begin_free(segment);
        Begin::Reclaim(Victim {
            segment,
            disk: self.table.get(segment).disk,
            kept: 0,
            moves: Vec::new(),
        })
    }

    /// Of whom a segment is reclaimed now, in this order. Whoever is not above its share is not
    /// among them while somebody else is.
    fn givers(&mut self) -> Vec<Owner> {
        if !self.wants_reclaim() {
            return self.table.tenants.over_its_limit().into_iter().collect();
        }
        let order = self.table.tenants.in_order_of_excess();
        let anybody_above = order.first().is_some_and(|(_, excess)| *excess > 0);
        let gives = |excess: i64| excess > 0 || !anybody_above;
        let givers = order.into_iter().filter(|(_, excess)| gives(*excess));
        givers.map(|(owner, _)| owner).collect()
    }

    fn choose_victim(&mut self, owner: Owner) -> Option<SegmentIndex> {
        let table = &self.table;
        let mut closed = table.tenants.closed(owner).map(|segment| ClosedSegment {
            segment,
            owner: table.get(segment).disk,
            live_blocks: table.get(segment).live,
        });
        self.policy.victim(&mut closed)
    }

    /// None of those who give a segment has a closed one: waits for one that is being closed, or
    /// else closes an open one.
    fn close_for(&self, givers: &[Owner]) -> Begin {
        let tenants = &self.table.tenants;
        let gives = |disk: DiskSlot| givers.contains(&tenants.owner_of(disk));
        let mut segments = self.table.iter();
        if segments.any(|(_, segment)| segment.phase == Phase::Closing && gives(segment.disk)) {
            return Begin::Wait;
        }
        let coldest = |owner: &Owner| {
            self.streams
                .coldest(|disk| tenants.owner_of(disk) == *owner)
        };
        givers
            .iter()
            .find_map(coldest)
            .map_or(Begin::Wait, Begin::Close)
    }

    /// Where a block lies if it still lies in this page of the victim.
    pub fn still_in(&self, victim: &Victim, block: BlockIndex, page: u32) -> Option<FlashSlot> {
        let slot = self.table.geometry.slot(victim.segment, page);
        (self.index.get(victim.disk, block) == Some(slot)).then_some(slot)
    }

    /// Whether the block in this page of the victim is kept; clears its referenced mark. Asked
    /// once for each of the victim's blocks, in the order in which they lie.
    pub fn keeps(&mut self, victim: &mut Victim, block: BlockIndex, page: u32) -> bool {
        if self.still_in(victim, block, page).is_none() {
            return false;
        }
        let referenced = self.index.take_referenced(victim.disk, block);
        let keeps = self.policy.keep(Candidate {
            referenced,
            kept_so_far: victim.kept,
            segment_blocks: self.table.geometry.segment_blocks_max(),
        });
        victim.kept += u32::from(keeps);
        keeps
    }

    /// Whether every survivor is written.
    pub fn survivors_written(&self, victim: &Victim) -> bool {
        victim.moves.iter().all(|moved| self.is_written(moved.to))
    }

    /// Points the index at a survivor's new slot. False if the block was written or forgotten
    /// meanwhile: then the survivor is dead.
    pub fn point_at(&mut self, victim: &Victim, moved: &Move) -> bool {
        let points = self
            .index
            .relocate(victim.disk, moved.block, moved.from, moved.to);
        if points {
            self.table.of_slot(moved.from).live -= 1;
            self.table.of_slot(moved.to).live += 1;
        }
        points
    }

    /// Forgets what still lies in the victim, given all blocks that may: each with its page.
    /// Whatever is not among them is found by walking the whole index. `evicted` gets each block
    /// of `blocks` that was forgotten. Returns how many were forgotten in all.
    pub fn evict(
        &mut self,
        victim: &Victim,
        blocks: impl Iterator<Item = (BlockIndex, u32)>,
        mut evicted: impl FnMut(BlockIndex),
    ) -> u32 {
        let count = self.table.get(victim.segment).live;
        for (block, page) in blocks {
            let slot = self.table.geometry.slot(victim.segment, page);
            if self.forget_if(victim.disk, block, slot) {
                evicted(block);
            }
        }
        if self.table.get(victim.segment).live > 0 {
            self.forget_segment(victim.segment);
        }
        count
    }
}
