//! Which slots are trusted, and which blocks rest until they are.

use super::{SimulatedLog, block_of};
use crate::index::Index;
use crate::limits::resting_limit;
use flash_format::{Geometry, SegmentIndex};
use std::collections::VecDeque;
use units::{DiskSlot, Duration, FlashSlot, Instant};

/// A block that cannot be trusted yet is looked at again no sooner than this.
const REST_MORE_MIN: Duration = Duration::from_millis(1);

/// A rewritten block.
struct Rest {
    due: Instant,
    key: u32,
    slot: FlashSlot,
}

/// Trusted slots, and blocks at rest, longest first. Some have been rewritten since and no longer
/// count.
pub(super) struct Resting {
    segment_pages: usize,
    trusted: Vec<u64>,
    queue: VecDeque<Rest>,
    limit: usize,
}

impl Resting {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let slots = usize::try_from(geometry.slots()).expect("slots are 32-bit numbers");
        Self {
            segment_pages: geometry.segment_pages() as usize,
            trusted: vec![0; slots.div_ceil(64)],
            queue: VecDeque::new(),
            limit: resting_limit(geometry),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.trusted.capacity() * size_of::<u64>() + self.queue.capacity() * size_of::<Rest>()
    }

    pub(super) fn is_trusted(&self, slot: FlashSlot) -> bool {
        self.trusted[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    pub(super) fn trust(&mut self, first: FlashSlot, count: u32) {
        for slot in first.index()..first.index() + count as usize {
            self.trusted[slot / 64] |= 1 << (slot % 64);
        }
    }

    pub(super) fn distrust(&mut self, slot: FlashSlot) {
        self.trusted[slot.index() / 64] &= !(1 << (slot.index() % 64));
    }

    /// Nothing in this segment is trusted any more.
    pub(super) fn free(&mut self, segment: SegmentIndex) {
        let start = segment.index() * self.segment_pages;
        for slot in start..start + self.segment_pages {
            self.trusted[slot / 64] &= !(1 << (slot % 64));
        }
    }
}

impl SimulatedLog {
    /// Lays a block to rest.
    pub(super) fn rest(&mut self, key: u32, slot: FlashSlot) {
        let due = self.now + self.delays.trust;
        self.wake_at(due);
        self.resting.queue.push_back(Rest { due, key, slot });
        if self.resting.queue.len() > self.resting.limit
            && let Some(rest) = self.resting.queue.pop_front()
        {
            self.end_rest(&rest);
        }
    }

    /// Trusts a block at rest if it still counts. False if it is not written yet.
    fn end_rest(&mut self, rest: &Rest) -> bool {
        let lies = self.log.index().get(DiskSlot::new(0), block_of(rest.key));
        if lies != Some(rest.slot) || self.resting.is_trusted(rest.slot) {
            return true;
        }
        if !self.log.is_written(rest.slot) {
            return false;
        }
        self.chores.retrusted_blocks += 1;
        self.trust(rest.slot, 1);
        true
    }

    /// Trusts the blocks that have rested long enough. Returns when the next will have.
    pub(super) fn end_rests(&mut self) -> Instant {
        let now = self.now;
        while let Some(rest) = self.resting.queue.pop_front_if(|rest| rest.due <= now) {
            if !self.end_rest(&rest) {
                let due = now + self.delays.write.max(REST_MORE_MIN);
                self.resting.queue.push_back(Rest { due, ..rest });
            }
        }
        let next = self.resting.queue.front();
        next.map_or(super::NEVER, |rest| rest.due)
    }
}
