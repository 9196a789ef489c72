//! How often blocks were used lately, in four bits each, for many more blocks than it has counters.
//!
//! A count-min sketch after G. Einziger, R. Friedman, B. Manes, ACM TOS 13(4), 2017: a use
//! raises four counters, the estimate is their least. When as many uses were counted as ten times the
//! cache, every counter is halved: what was hot long ago fades.
//!
//! ```text
//!   hash ─► one cache line of 8 words: [ row 0 | row 0 | row 1 | row 1 | row 2 | row 2 | row 3 | row 3 ]
//!           in each row one of 32 counters of 4 bits
//! ```
//!
//! So a use costs one cache miss at most. About 8 to 16 bytes a cached block, never touched before used.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use units::Bytes;

const WORDS_A_LINE: usize = 8;
const ROWS: usize = 4;
const COUNTER_MAX: u64 = 15;

/// All counters' upper three bits.
const HALVED: u64 = 0x7777_7777_7777_7777;
/// All counters' lowest bits.
const ODD: u64 = 0x1111_1111_1111_1111;

#[derive(Debug)]
pub(crate) struct Sketch {
    words: Vec<u64>,
    line_mask: usize,
    uses: u64,
    uses_max: u64,
}

impl Sketch {
    /// A sketch for a cache of that many blocks.
    pub(crate) fn new(capacity: u32) -> Self {
        let words = (capacity as usize).next_power_of_two().max(WORDS_A_LINE);
        Self {
            words: vec![0; words],
            line_mask: words / WORDS_A_LINE - 1,
            uses: 0,
            uses_max: 10 * u64::from(capacity),
        }
    }

    /// A sketch in so much memory, at least one line of it, that is halved after so many uses, or sooner
    /// if it could not tell as many apart.
    pub(crate) fn within(bytes: Bytes, uses_max: u64) -> Self {
        let words = bytes.to_usize() / size_of::<u64>();
        let words = 1 << words.max(WORDS_A_LINE).ilog2();
        Self {
            words: vec![0; words],
            line_mask: words / WORDS_A_LINE - 1,
            uses: 0,
            uses_max: uses_max.clamp(1, 10 * words as u64),
        }
    }

    /// From now on it is halved after as many uses as the other one.
    pub(crate) fn set_age(&mut self, other: &Self) {
        self.uses_max = other.uses_max;
        while self.uses >= self.uses_max {
            self.age();
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// A block's hash: the same for every index and on every machine.
    #[inline]
    pub(crate) fn hash(key: impl Hash) -> u64 {
        FixedState::with_seed(0).hash_one(key)
    }

    /// The word and shift of a hash's counter in a row.
    #[inline]
    fn counter(&self, hash: u64, row: usize) -> (usize, u32) {
        let line = usize::try_from(hash & 0xffff_ffff).expect("32 bits") & self.line_mask;
        let bits = (hash >> (32 + 8 * row)) & 31;
        let word = line * WORDS_A_LINE + row * 2 + usize::from(bits & 16 != 0);
        (word, u32::try_from(bits & 15).expect("four bits") * 4)
    }

    /// Counts a use.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let mut added = false;
        for row in 0..ROWS {
            let (word, shift) = self.counter(hash, row);
            if (self.words[word] >> shift) & COUNTER_MAX < COUNTER_MAX {
                self.words[word] += 1 << shift;
                added = true;
            }
        }
        if added {
            self.uses += 1;
            if self.uses == self.uses_max {
                self.age();
            }
        }
    }

    /// Takes back what was counted for a block: its estimate is 0 then. Others that share counters with it keep what
    /// was counted for them, unless its estimate was too high.
    pub(crate) fn forget(&mut self, hash: u64) {
        let counted = self.estimate(hash);
        for row in 0..ROWS {
            let (word, shift) = self.counter(hash, row);
            self.words[word] -= counted << shift;
        }
        self.uses -= counted.min(self.uses);
    }

    /// About how many uses were counted: never too few since the last halving, at most 15.
    #[inline]
    pub(crate) fn estimate(&self, hash: u64) -> u64 {
        (0..ROWS)
            .map(|row| {
                let (word, shift) = self.counter(hash, row);
                (self.words[word] >> shift) & COUNTER_MAX
            })
            .fold(COUNTER_MAX, u64::min)
    }

    /// Halves every counter; what rounding down takes away, a quarter of a use for each counter, is
    /// taken from the sum as well.
    fn age(&mut self) {
        let mut odd = 0;
        for word in &mut self.words {
            odd += u64::from((*word & ODD).count_ones());
            *word = (*word >> 1) & HALVED;
        }
        self.uses = (self.uses - odd / 4) / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_never_too_low_and_ends_at_15() {
        let mut sketch = Sketch::new(64);
        for (key, uses) in [(1u32, 3), (2, 1), (3, 40)] {
            for _ in 0..uses {
                sketch.add(Sketch::hash(key));
            }
        }
        assert!(sketch.estimate(Sketch::hash(1u32)) >= 3);
        assert!(sketch.estimate(Sketch::hash(2u32)) >= 1);
        assert_eq!(sketch.estimate(Sketch::hash(3u32)), 15);
    }

    /// 8 blocks of cache: after 80 uses counted all counters are halved. One block used eight times
    /// among 72 others used once has four left, and as its counters are shared at most a few more.
    #[test]
    fn ten_times_the_cache_later_counts_are_halved() {
        let mut sketch = Sketch::new(8);
        for _ in 0..8 {
            sketch.add(Sketch::hash(0u32));
        }
        let before = sketch.estimate(Sketch::hash(0u32));
        assert_eq!(before, 8);
        let mut key = 1u32;
        while sketch.uses >= 8 {
            sketch.add(Sketch::hash(key));
            key += 1;
            if sketch.uses < 60 && key > 60 {
                break;
            }
        }
        assert!(key > 60, "it was not halved early: {key}");
        let after = sketch.estimate(Sketch::hash(0u32));
        assert!((4..=7).contains(&after), "{after}");
    }
}
