//! How many of the blocks that pass by are read again in time: from a sample.
//!
//! ```text
//!   passes by ─► a few of all blocks, by hash ─► [ passed | passed | read | passed | read | ... ]
//!                                                  oldest                              newest
//!   read ──────► the newest of that name is marked │◄─── judged: the older half ──►│
//! ```
//!
//! Whether it pays to write a block to flash is known only later, when somebody has read it or nobody has. A
//! policy that waits for the second use knows this of each block and pays with the hits in between. A sample knows
//! it of the blocks of one VM as a whole: of all written blocks of some guest one in two is read next, of
//! others not one in a hundred. What is sampled is decided by a hash of the block, after SHARDS (C. Waldspurger et al., FAST 2015),
//! so that all that happens to a sampled block is seen. Only the older half of the sample is judged: the rest has not
//! had the time to be read.
//!
//! The owner keeps sampled blocks out of what the sample decides. So they are seen whether what passes by is admitted
//! or not, and a hit costs nothing.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use units::Bytes;

use crate::replacement::{Fraction, Key};

/// Blocks in the sample at most: of 512 that are judged a quarter is known to within two hundredths.
const SAMPLE: usize = 1024;

/// At most one block of so many is sampled: a sampled block does not profit from what the sample says.
const ONE_IN_LEAST: u64 = 16;

/// Fewer that are judged say nothing.
const JUDGED_LEAST: u64 = 16;

/// One block when it passed by.
#[derive(Clone, Copy, Debug)]
struct Passed {
    name: u32,
    read: bool,
    at: u64,
}

/// A sample of the blocks that pass by.
#[derive(Debug)]
pub struct Returns {
    /// Blocks whose hash is at most this are sampled.
    limit: u64,
    /// How long a passing is remembered.
    span: u64,
    /// Oldest first.
    passed: VecDeque<Passed>,
    /// Of the older half, how many were read.
    read: u64,
}

/// The hash that decides, and what a sampled block is called.
fn hash_of(key: impl Key) -> (u64, u32) {
    let hash = FixedState::with_seed(2).hash_one(key);
    let name = u32::try_from(hash & u64::from(u32::MAX)).expect("32 bits");
    (hash, name)
}

impl Returns {
    /// Nothing has passed by. A block that is read later than `span` after it passed by, by its owner's clock, is taken for one
    /// that is not read; about as many pass by in that time.
    pub fn new(span: u64) -> Self {
        Self {
            limit: limit(span),
            span,
            passed: VecDeque::with_capacity(SAMPLE + 1),
            read: 0,
        }
    }

    /// From now on the span is this. What is known is kept.
    pub fn set_span(&mut self, span: u64) {
        self.span = span;
        self.limit = limit(span);
    }

    /// A block passes by. True if it is sampled.
    #[inline]
    pub fn passes(&mut self, key: impl Key, now: u64) -> bool {
        let (hash, name) = hash_of(key);
        let is_sampled = hash <= self.limit;
        if is_sampled {
            self.remember(name, now);
        }
        is_sampled
    }

    /// A block is read. True if it has passed by and was not read since.
    #[inline]
    pub fn read(&mut self, key: impl Key, now: u64) -> bool {
        let (hash, name) = hash_of(key);
        hash <= self.limit && self.mark(name, now)
    }

    fn remember(&mut self, name: u32, at: u64) {
        let read = false;
        self.passed.push_back(Passed { name, read, at });
        while self.passed.len() > SAMPLE || self.oldest_is_late(at) {
            self.passed.pop_front();
        }
        let older = self.passed.iter().take(self.passed.len() / 2);
        self.read = older.map(|one| u64::from(one.read)).sum();
    }

    fn oldest_is_late(&self, now: u64) -> bool {
        let oldest = self.passed.front();
        oldest.is_some_and(|oldest| now.saturating_sub(oldest.at) > self.span)
    }

    fn mark(&mut self, name: u32, now: u64) -> bool {
        let half = self.passed.len() / 2;
        let found = self.passed.iter_mut().enumerate().rev();
        let mut of_that_name = found.filter(|(_, one)| one.name == name);
        let Some((place, one)) = of_that_name.next() else {
            return false;
        };
        if one.read || now.saturating_sub(one.at) > self.span {
            return false;
        }
        one.read = true;
        self.read += u64::from(place < half);
        true
    }

    /// The part of the blocks that were read in time. `None` as long as too few are old enough to say.
    pub fn part(&self) -> Option<Fraction> {
        let judged = self.passed.len() as u64 / 2;
        (judged >= JUDGED_LEAST).then(|| {
            let millionths = self.read * 1_000_000 / judged;
            Fraction::millionths(u32::try_from(millionths).unwrap_or(1_000_000))
        })
    }

    /// Memory that it holds.
    pub fn memory(&self) -> Bytes {
        Bytes::new((self.passed.capacity() * size_of::<Passed>()) as u64)
    }
}

/// The highest hash of a sampled block.
fn limit(span: u64) -> u64 {
    let sample = u64::try_from(SAMPLE).expect("it is small");
    let one_in = (span / sample).max(ONE_IN_LEAST);
    u64::MAX / one_in
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The block of that number among those that are sampled.
    fn sampled(returns: &Returns, number: usize) -> u64 {
        let mut keys = (0..).filter(|key| hash_of(*key).0 <= returns.limit);
        keys.nth(number).expect("one in so many is")
    }

    fn percent(returns: &Returns) -> Option<u32> {
        returns.part().map(|part| part.of(100))
    }

    #[test]
    fn the_part_is_that_of_the_older_half() {
        let mut returns = Returns::new(1_000);
        let keys: Vec<u64> = (0..64).map(|number| sampled(&returns, number)).collect();
        for (at, key) in (0..).zip(&keys) {
            assert_eq!(percent(&returns), None);
            if at < 31 {
                returns.passes(*key, at);
            }
        }
        for (at, key) in (31..).zip(&keys[31..]) {
            returns.passes(*key, at);
        }
        assert_eq!(percent(&returns), Some(0));
        // 8 of the 32 older ones, and all of the younger.
        for key in keys.iter().step_by(4).take(8).chain(&keys[32..]) {
            assert!(returns.read(*key, 100));
            assert!(!returns.read(*key, 100), "it was read already");
        }
        assert_eq!(percent(&returns), Some(25));
    }

    #[test]
    fn a_block_that_passes_by_again_unread_counts_twice() {
        let mut returns = Returns::new(1_000);
        let key = sampled(&returns, 0);
        (0..64).for_each(|at| assert!(returns.passes(key, at)));
        assert!(returns.read(key, 64));
        assert_eq!(percent(&returns), Some(0), "only the last was read");
    }

    #[test]
    fn a_read_that_comes_late_does_not_count() {
        let mut returns = Returns::new(100);
        let key = sampled(&returns, 0);
        returns.passes(key, 0);
        assert!(!returns.read(key, 101));
        assert!(returns.read(key, 100));
    }

    #[test]
    fn what_is_older_than_the_span_is_forgotten() {
        let mut returns = Returns::new(100);
        let keys: Vec<u64> = (0..65).map(|number| sampled(&returns, number)).collect();
        for key in &keys[..64] {
            returns.passes(*key, 0);
            returns.read(*key, 0);
        }
        assert_eq!(percent(&returns), Some(100));
        returns.passes(keys[64], 101);
        assert_eq!(percent(&returns), None);
    }

    #[test]
    fn a_longer_span_samples_fewer_blocks_and_memory_is_bounded() {
        for (span, one_in) in [(0, 16), (4_096, 16), (1_024_000, 1_000)] {
            let mut returns = Returns::new(span);
            let wanted = 100_000 / one_in;
            let empty = returns.memory();
            let sampled = (0..100_000_u64)
                .filter(|key| returns.passes(*key, 0))
                .count();
            assert!(sampled.abs_diff(wanted) < wanted / 5 + 30, "{sampled}");
            assert_eq!(returns.memory(), empty);
        }
    }

    #[test]
    fn a_new_span_keeps_what_is_known() {
        let mut returns = Returns::new(1_024_000);
        let keys: Vec<u64> = (0..64).map(|number| sampled(&returns, number)).collect();
        for key in &keys {
            returns.passes(*key, 0);
            returns.read(*key, 0);
        }
        returns.set_span(2_048_000);
        assert_eq!(percent(&returns), Some(100));
    }
}
