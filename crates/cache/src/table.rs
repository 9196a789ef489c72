//! The segment table: what each segment is, whose, and which of its slots are trusted.
//!
//! ```text
//!        open()            close()           footer, chunks done
//!  Free ───────► Open ───────────► Closing ─────────────────────► Closed
//!   ▲                                                               │ begin_reclaim()
//!   │ last reader gone        Free entry durable                    ▼
//!   └────────────── Draining ◄────────────────────────────── Reclaiming
//! ```
//!
//! Dropping a disk goes from Closed to Draining in the same way.
//!
//! **A trusted bit means: this slot may be trusted on flash after a crash.** It is set when the
//! journal entry that trusts the slot is queued, and cleared only when the entry that distrusts
//! it is durable, so in between it errs towards "trusted", and whoever is about to change the
//! origin knows that it has to wait.

use crate::guard::{Guard, lacks};
use flash_format::{Geometry, SegmentEntry, SegmentIndex, SegmentState};
use std::collections::{BTreeMap, VecDeque};
use units::{DiskSlot, FlashSlot};

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Open,
    Closing,
    Closed,
    Reclaiming,
    Draining,
}

/// A segment, as the running cache knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) generation: u64,
    pub(crate) disk: DiskSlot,
    pub(crate) phase: Phase,
    /// Reads from it in flight: its pages must not be written over.
    pub(crate) readers: u32,
    /// Index entries that point into it.
    pub(crate) live: u32,
    /// Chunks of it, and its footer, that are on their way to flash.
    pub(crate) writes: u32,
}

/// All segments.
pub(crate) struct Table {
    geometry: Geometry,
    segments: Vec<Segment>,
    trusted: Vec<u64>,
    free: VecDeque<SegmentIndex>,
    /// Closed segments by generation: oldest first.
    closed: BTreeMap<u64, SegmentIndex>,
    generation_next: u64,
}

impl Table {
    /// A table of free segments.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let count = geometry.segment_count();
        let segment = Segment {
            generation: 0,
            disk: DiskSlot::new(0),
            phase: Phase::Free,
            readers: 0,
            live: 0,
            writes: 0,
        };
        let slots = usize::try_from(geometry.slots()).expect("slots are 32-bit numbers");
        Self {
            geometry,
            segments: vec![segment; count as usize],
            trusted: vec![0; slots.div_ceil(64)],
            free: (0..count).map(SegmentIndex::new).collect(),
            closed: BTreeMap::new(),
            generation_next: 1,
        }
    }

    /// The table that recovery found: used segments are closed, no generation is used twice.
    pub(crate) fn recovered(geometry: Geometry, entries: &[SegmentEntry]) -> Self {
        let mut table = Self::new(geometry);
        table.free.clear();
        for (number, entry) in (0..).zip(entries) {
            let index = SegmentIndex::new(number);
            table.generation_next = table.generation_next.max(entry.generation + 1);
            let segment = &mut table.segments[index.index()];
            segment.generation = entry.generation;
            segment.disk = entry.disk;
            match entry.state {
                SegmentState::Free => table.free.push_back(index),
                SegmentState::Used => {
                    segment.phase = Phase::Closed;
                    let previous = table.closed.insert(entry.generation, index);
                    assert!(previous.is_none(), "generations are unique");
                    table.load_bits(index, &entry.trusted);
                }
            }
        }
        table
    }

    fn load_bits(&mut self, segment: SegmentIndex, bits: &[u8]) {
        for page in 1..self.geometry.segment_pages() {
            if bits[page as usize / 8] >> (page % 8) & 1 == 1 {
                self.set_trusted(self.geometry.slot(segment, page), 1);
            }
        }
    }

    pub(crate) fn get(&self, segment: SegmentIndex) -> &Segment {
        &self.segments[segment.index()]
    }

    pub(crate) fn get_mut(&mut self, segment: SegmentIndex) -> &mut Segment {
        &mut self.segments[segment.index()]
    }

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
        segment.phase = Phase::Open;
        segment.generation = generation;
        segment.disk = disk;
        Some((index, generation))
    }

    pub(crate) fn set_phase(&mut self, index: SegmentIndex, phase: Phase) {
        let segment = self.get_mut(index);
        let from = segment.phase;
        segment.phase = phase;
        let generation = segment.generation;
        if from == Phase::Closed {
            self.closed.remove(&generation);
        }
        if phase == Phase::Closed {
            self.closed.insert(generation, index);
        }
    }

    /// The segment's last content is gone for good: it becomes free when nobody reads it.
    pub(crate) fn release(&mut self, index: SegmentIndex) {
        assert!(
            self.get(index).live == 0,
            "nothing points into a released segment"
        );
        self.clear_bits(index);
        self.set_phase(index, Phase::Draining);
        self.free_if_drained(index);
    }

    pub(crate) fn free_if_drained(&mut self, index: SegmentIndex) {
        let segment = self.get_mut(index);
        let read = segment.readers > 0 && !lacks(Guard::PinReaders);
        if segment.phase == Phase::Draining && !read && segment.writes == 0 {
            segment.phase = Phase::Free;
            self.free.push_back(index);
        }
    }

    /// Closed segments, oldest first.
    pub(crate) fn closed(&self) -> impl DoubleEndedIterator<Item = SegmentIndex> {
        self.closed.values().copied()
    }

    pub(crate) fn closed_count(&self) -> usize {
        self.closed.len()
    }

    pub(crate) fn is_trusted(&self, slot: FlashSlot) -> bool {
        self.trusted[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    pub(crate) fn set_trusted(&mut self, first: FlashSlot, count: u32) {
        for slot in first.index()..first.index() + count as usize {
            self.trusted[slot / 64] |= 1 << (slot % 64);
        }
    }

    pub(crate) fn clear_trusted(&mut self, first: FlashSlot, count: u32) {
        for slot in first.index()..first.index() + count as usize {
            self.trusted[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Trusted slots of a segment.
    pub(crate) fn trusted_count(&self, segment: SegmentIndex) -> u32 {
        let pages = self.geometry.segment_pages() as usize;
        let start = segment.index() * pages;
        let words = self.trusted[start / 64..(start + pages).div_ceil(64)]
            .iter()
            .copied();
        if pages >= 64 {
            return words.map(u64::count_ones).sum();
        }
        // Small segments share a word with their neighbours.
        let word = self.trusted[start / 64] >> (start % 64);
        (word & ((1 << pages) - 1)).count_ones()
    }

    /// Makes every slot of a segment untrusted.
    pub(crate) fn clear_segment(&mut self, segment: SegmentIndex) {
        self.clear_bits(segment);
    }

    /// Generations from now on are above any that an earlier life can have used: that had
    /// opened the cache with an earlier checkpoint, and opens less than 2^32 segments.
    pub(crate) fn start_generations(&mut self, checkpoint: u64) {
        if lacks(Guard::Generation) {
            return;
        }
        self.generation_next = self.generation_next.max(checkpoint << 32);
    }

    fn clear_bits(&mut self, segment: SegmentIndex) {
        let pages = self.geometry.segment_pages() as usize;
        let start = segment.index() * pages;
        for slot in start..start + pages {
            self.trusted[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// The segment's entry in a checkpoint.
    pub(crate) fn entry(&self, index: SegmentIndex) -> SegmentEntry {
        let segment = self.get(index);
        let pages = self.geometry.segment_pages() as usize;
        let start = index.index() * pages;
        let mut trusted = vec![0_u8; pages.div_ceil(8)];
        for page in 0..pages {
            let slot = start + page;
            if self.trusted[slot / 64] >> (slot % 64) & 1 == 1 {
                trusted[page / 8] |= 1 << (page % 8);
            }
        }
        let used = !matches!(segment.phase, Phase::Free | Phase::Draining);
        SegmentEntry {
            state: if used {
                SegmentState::Used
            } else {
                SegmentState::Free
            },
            disk: segment.disk,
            generation: segment.generation,
            trusted,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.trusted.capacity() * 8
            + self.free.capacity() * 4
    }
}
