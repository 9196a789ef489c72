//! Addresses in eight bytes each: when a block was last seen, and how often it came back.
//!
//! ```text
//!   key ─ hash ─► 32-bit name ─► bucket: one cache line of 8 entries
//!                                 [ name 32 | seen 30 | count 2 ] x 8
//!   a newcomer takes an empty entry of its bucket, else the one seen longest ago
//! ```
//!
//! No links and no keys: a bucket is searched whole. So the order of departure is that of a queue only
//! within a bucket, and two blocks may have one name: with ten million known one lookup in four hundred is
//! mistaken. What is known here decides what is written to flash, never what is read from it, so that a
//! mistake costs a write at most. The name alone says where it belongs, so that a table can be
//! made larger or smaller without losing what it knows.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use units::Bytes;

use crate::replacement::Key;

const WAYS: usize = 8;

/// Bytes that one address costs.
pub(super) const GHOST_BYTES: u64 = 8;

/// A time as ghosts know it: it wraps.
const SEEN_BITS: u32 = 30;
const SEEN: u64 = (1 << SEEN_BITS) - 1;
/// The highest count.
pub(super) const COUNT_MAX: u32 = 3;

/// A block's name: never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u32);

impl Name {
    #[inline]
    pub(super) fn of(key: impl Key) -> Self {
        let hash = FixedState::with_seed(1).hash_one(key);
        Self(u32::try_from(hash >> 32).expect("32 bits").max(1))
    }
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    /// When it was last seen.
    pub(super) seen: u64,
    /// How often it came back since it was first seen, up to 3.
    pub(super) count: u32,
}

/// How much time lies between two times that wrap.
pub(super) const fn between(then: u64, now: u64) -> u64 {
    now.wrapping_sub(then) & SEEN
}

#[derive(Clone, Copy, Debug)]
struct Entry(u64);

impl Entry {
    const EMPTY: Self = Self(0);

    fn new(name: Name, ghost: Ghost) -> Self {
        let count = u64::from(ghost.count.min(COUNT_MAX));
        Self(u64::from(name.0) << 32 | (ghost.seen & SEEN) << 2 | count)
    }

    const fn name(self) -> u64 {
        self.0 >> 32
    }

    fn ghost(self) -> Ghost {
        Ghost {
            seen: self.0 >> 2 & SEEN,
            count: u32::try_from(self.0 & u64::from(COUNT_MAX)).expect("two bits"),
        }
    }
}

/// A bounded number of ghosts.
#[derive(Debug)]
pub(super) struct Ghosts {
    buckets: Vec<[Entry; WAYS]>,
}

impl Ghosts {
    /// That many at most; whole buckets, at least one.
    pub(super) fn new(count: u64) -> Self {
        let buckets = usize::try_from(count).unwrap_or(0) / WAYS;
        Self {
            buckets: vec![[Entry::EMPTY; WAYS]; buckets.max(1)],
        }
    }

    #[inline]
    fn bucket(&self, name: Name) -> usize {
        let bucket = (u64::from(name.0) * self.buckets.len() as u64) >> 32;
        usize::try_from(bucket).expect("it is below the number of buckets")
    }

    /// What is known of a block.
    #[inline]
    pub(super) fn get(&self, name: Name) -> Option<Ghost> {
        self.buckets[self.bucket(name)]
            .iter()
            .find(|entry| entry.name() == u64::from(name.0))
            .map(|entry| entry.ghost())
    }

    /// From now on this is known of a block.
    #[inline]
    pub(super) fn set(&mut self, name: Name, ghost: Ghost, now: u64) {
        let bucket = self.bucket(name);
        let entries = &mut self.buckets[bucket];
        // A block's own entry, else an empty one, else the oldest.
        let rank = |entry: &Entry| match entry.name() {
            own if own == u64::from(name.0) => u64::MAX,
            0 => u64::MAX - 1,
            _ => between(entry.ghost().seen, now),
        };
        let entry = entries
            .iter_mut()
            .max_by_key(|entry| rank(entry))
            .expect("a bucket has entries");
        *entry = Entry::new(name, ghost);
    }

    /// Nothing is known of a block any more. True if something was.
    #[inline]
    pub(super) fn forget(&mut self, name: Name) -> bool {
        let bucket = self.bucket(name);
        let mut entries = self.buckets[bucket].iter_mut();
        let entry = entries.find(|entry| entry.name() == u64::from(name.0));
        entry.is_some_and(|entry| {
            *entry = Entry::EMPTY;
            true
        })
    }

    /// Room for another number. What is known stays as far as there is room for it. Nothing is done while
    /// the number stays within an eighth of what it was: shares change a little every few minutes.
    pub(super) fn resize(&mut self, count: u64, now: u64) {
        let buckets = (usize::try_from(count).unwrap_or(0) / WAYS).max(1);
        let before = self.buckets.len();
        if buckets.abs_diff(before) <= before / 8 {
            return;
        }
        let old = std::mem::replace(self, Self::new(count));
        for entry in old.buckets.as_flattened() {
            if let Ok(name @ 1..) = u32::try_from(entry.name()) {
                self.set_unless_newer(Name(name), entry.ghost(), now);
            }
        }
    }

    /// As [`Self::set`], but what is older than all of a full bucket does not come in.
    fn set_unless_newer(&mut self, name: Name, ghost: Ghost, now: u64) {
        let entries = &self.buckets[self.bucket(name)];
        let age = |entry: &Entry| between(entry.ghost().seen, now);
        let full = entries.iter().all(|entry| entry.name() != 0);
        let oldest = entries.iter().map(age).max().unwrap_or(0);
        if !full || oldest > between(ghost.seen, now) {
            self.set(name, ghost, now);
        }
    }

    pub(super) fn memory(&self) -> Bytes {
        Bytes::new((self.buckets.capacity() * size_of::<[Entry; WAYS]>()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ghost(seen: u64) -> Ghost {
        Ghost { seen, count: 1 }
    }

    #[test]
    fn what_was_set_is_known_until_it_is_forgotten() {
        let mut ghosts = Ghosts::new(1000);
        for key in 0..300u64 {
            ghosts.set(Name::of(key), ghost(key), key);
        }
        let known = |ghosts: &Ghosts| {
            (0..300u64)
                .filter(|key| ghosts.get(Name::of(*key)) == Some(ghost(*key)))
                .count()
        };
        assert_eq!(known(&ghosts), 300);
        assert!(ghosts.forget(Name::of(7u64)));
        assert!(!ghosts.forget(Name::of(7u64)));
        assert_eq!(known(&ghosts), 299);
    }

    #[test]
    fn a_full_bucket_loses_what_was_seen_longest_ago() {
        let mut ghosts = Ghosts::new(8);
        for key in 0..9u64 {
            ghosts.set(Name::of(key), ghost(100 + key), 108);
        }
        assert_eq!(ghosts.get(Name::of(0u64)), None);
        assert_eq!(ghosts.get(Name::of(1u64)), Some(ghost(101)));
        ghosts.set(Name::of(1u64), ghost(200), 200);
        ghosts.set(Name::of(10u64), ghost(201), 201);
        assert_eq!(ghosts.get(Name::of(1u64)), Some(ghost(200)), "refreshed");
        assert_eq!(ghosts.get(Name::of(2u64)), None);
    }

    #[test]
    fn times_wrap() {
        let late = SEEN;
        assert_eq!(between(late, late + 5), 5);
        let mut ghosts = Ghosts::new(8);
        ghosts.set(Name::of(1u64), ghost(late + 2), late + 2);
        assert_eq!(
            between(ghosts.get(Name::of(1u64)).unwrap().seen, late + 5),
            3
        );
    }

    #[test]
    fn a_larger_table_knows_the_same_and_a_smaller_one_the_newest() {
        let mut ghosts = Ghosts::new(4096);
        for key in 0..2000u64 {
            ghosts.set(Name::of(key), ghost(key), key);
        }
        let known = |ghosts: &Ghosts, keys: std::ops::Range<u64>| {
            keys.filter(|key| ghosts.get(Name::of(*key)).is_some())
                .count()
        };
        ghosts.resize(10_000, 2000);
        assert_eq!(known(&ghosts, 0..2000), 2000);
        ghosts.resize(512, 2000);
        assert!(ghosts.memory() <= Bytes::new(512 * GHOST_BYTES));
        let (new, old) = (known(&ghosts, 1600..2000), known(&ghosts, 0..1000));
        assert!(new > 300, "{new}");
        assert!(old < 20, "{old}");
    }
}
