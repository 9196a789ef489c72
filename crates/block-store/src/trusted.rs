//! Which slots are trusted.
//!
//! **A trusted bit means: this slot may be trusted on flash after a crash.** It is set when the
//! journal entry that trusts the slot is queued, and cleared only when the entry that distrusts
//! it is durable, so in between it errs towards "trusted", and whoever is about to change the
//! origin knows that it has to wait.

use flash_format::{Geometry, SegmentEntry, SegmentIndex, SegmentKind, SegmentState};
use segment_log::{Phase, Segment};
use units::FlashSlot;

/// The words in which the bits of these slots are, and which bits of each.
fn masks(first: FlashSlot, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = first.index() + count as usize;
    let mut at = first.index();
    std::iter::from_fn(move || {
        let (word, bit) = (at / 64, at % 64);
        let bits = (end - at).min(64 - bit);
        at += bits;
        (bits > 0).then(|| (word, u64::MAX >> (64 - bits) << bit))
    })
}

/// A bit for each slot.
pub(crate) struct Trusted {
    geometry: Geometry,
    words: Vec<u64>,
}

impl Trusted {
    /// Nothing is trusted.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let slots = usize::try_from(geometry.slots()).expect("slots are 32-bit numbers");
        Self {
            geometry,
            words: vec![0; slots.div_ceil(64)],
        }
    }

    /// What recovery found, by segment; a free segment's bits do not count.
    pub(crate) fn recovered(geometry: Geometry, entries: &[SegmentEntry]) -> Self {
        let mut trusted = Self::new(geometry);
        for (number, entry) in (0..).zip(entries) {
            if entry.state != SegmentState::Free {
                trusted.load(SegmentIndex::new(number), &entry.trusted);
            }
        }
        trusted
    }

    fn load(&mut self, segment: SegmentIndex, bits: &[u8]) {
        let (start, pages) = self.range(segment);
        for (byte, at) in bits.iter().zip((start..start + pages).step_by(8)) {
            self.words[at / 64] |= u64::from(*byte) << (at % 64);
        }
        // A segment's first page is a header.
        self.words[start / 64] &= !(1 << (start % 64));
    }

    /// A segment's first slot, and how many it has: a multiple of 16, so that a byte never has the
    /// bits of two segments.
    fn range(&self, segment: SegmentIndex) -> (usize, usize) {
        let pages = self.geometry.segment_pages() as usize;
        (segment.index() * pages, pages)
    }

    #[inline]
    pub(crate) fn contains(&self, slot: FlashSlot) -> bool {
        self.words[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, first: FlashSlot, count: u32) {
        for (word, bits) in masks(first, count) {
            self.words[word] |= bits;
        }
    }

    pub(crate) fn clear(&mut self, first: FlashSlot, count: u32) {
        for (word, bits) in masks(first, count) {
            self.words[word] &= !bits;
        }
    }

    /// Trusted slots of a segment.
    pub(crate) fn count(&self, segment: SegmentIndex) -> u32 {
        let (start, pages) = self.range(segment);
        let words = self.words[start / 64..(start + pages).div_ceil(64)]
            .iter()
            .copied();
        if pages >= 64 {
            return words.map(u64::count_ones).sum();
        }
        // Small segments share a word with their neighbours.
        let word = self.words[start / 64] >> (start % 64);
        (word & ((1 << pages) - 1)).count_ones()
    }

    /// Makes every slot of a segment untrusted.
    pub(crate) fn clear_segment(&mut self, segment: SegmentIndex) {
        let (start, pages) = self.range(segment);
        for at in (start..start + pages).step_by(8) {
            self.words[at / 64] &= !(0xff << (at % 64));
        }
    }

    /// A segment's entry in a checkpoint.
    pub(crate) fn entry(
        &self,
        index: SegmentIndex,
        segment: &Segment,
        cut: Option<u32>,
    ) -> SegmentEntry {
        let (start, pages) = self.range(index);
        let bytes = (start..start + pages).step_by(8);
        let trusted = bytes
            .map(|at| self.words[at / 64].to_le_bytes()[at % 64 / 8])
            .collect();
        let used = !matches!(segment.phase, Phase::Free | Phase::Draining);
        SegmentEntry {
            state: if used {
                SegmentState::Used(if segment.is_dirty {
                    SegmentKind::Dirty
                } else {
                    SegmentKind::Clean
                })
            } else {
                SegmentState::Free
            },
            disk: segment.disk,
            generation: segment.generation,
            cut: cut.filter(|_| used && segment.is_dirty),
            trusted,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
