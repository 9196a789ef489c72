//! What is known of blocks by name: rows found by key, in memory that is bounded and taken once.
//!
//! ```text
//!   key ─ hash ─► slots: [ · | 3 | 1 | · | 2 | · ]   open addressing, at most 4 of 5 full
//!                            │   │       │
//!                 rows:  1 { key, links, tag }       links: lists of rows, newest first (`List`)
//!                        2 { key, links, tag }       tag:   32 bits of the owner's
//!                        3 { key, links, tag }
//! ```
//!
//! [`crate::replacement`]'s table grows with what it is given and finds rows through an index that may
//! hold as much again; here the most that can be known is fixed when the table is made, so rows and slots
//! are two arrays of known length, and the slots need not repeat the keys. A row costs its key, 12 bytes,
//! and 5 bytes of slots: 25 bytes with 64-bit keys.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use units::Bytes;

pub use crate::replacement::list::{Link, Links, List};

use crate::replacement::{Key, Place};

/// Bytes of slots that go with a row.
const SLOT_BYTES: usize = 5;

/// Packed so that a 64-bit key costs 8 bytes and not 12.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Row<K: Copy> {
    key: K,
    link: Link,
    tag: u32,
}

/// Rows found by key. The owner keeps each of them in a [`List`] of its own, or in none.
#[derive(Debug)]
pub struct Rows<K: Copy> {
    places: Vec<Row<K>>,
    /// A row's place and one, or 0.
    slots: Vec<u32>,
    /// The first of the chain of free places.
    free: u32,
    len: u32,
    capacity: u32,
}

const NO_PLACE: u32 = u32::MAX;

impl<K: Copy> Links for Rows<K> {
    #[inline]
    fn link(&self, place: Place) -> Link {
        self.places[place.to_usize()].link
    }

    #[inline]
    fn link_mut(&mut self, place: Place) -> &mut Link {
        &mut self.places[place.to_usize()].link
    }
}

impl<K: Key> Rows<K> {
    /// Bytes that one row costs, its slots included.
    pub const ROW_BYTES: u64 = (size_of::<Row<K>>() + SLOT_BYTES) as u64;

    /// None yet, and room for so many.
    pub fn new(capacity: u32) -> Self {
        let slots = capacity as usize + capacity as usize / 4 + 1;
        Self {
            places: Vec::with_capacity(capacity as usize),
            slots: vec![0; slots],
            free: NO_PLACE,
            len: 0,
            capacity,
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there may be.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The slot where the search for a key begins.
    #[inline]
    fn home(&self, key: K) -> usize {
        let hash = FixedState::with_seed(0).hash_one(key) >> 32;
        let slot = (hash * self.slots.len() as u64) >> 32;
        usize::try_from(slot).expect("it is below the number of slots")
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() {
            0
        } else {
            slot + 1
        }
    }

    /// The slot of a key, or the empty one where it would be.
    #[inline]
    fn slot_of(&self, key: K) -> usize {
        let mut slot = self.home(key);
        loop {
            let named = self.slots[slot];
            if named == 0 || { self.places[named as usize - 1].key } == key {
                return slot;
            }
            slot = self.after(slot);
        }
    }

    /// Where a key's row is, if it has one.
    #[inline]
    pub fn find(&self, key: K) -> Option<Place> {
        let named = self.slots[self.slot_of(key)];
        named.checked_sub(1).map(Place)
    }

    /// Whose row it is.
    #[inline]
    pub fn key(&self, place: Place) -> K {
        self.places[place.to_usize()].key
    }

    /// The owner's 32 bits.
    #[inline]
    pub fn tag(&self, place: Place) -> u32 {
        self.places[place.to_usize()].tag
    }

    /// Changes them.
    #[inline]
    pub fn set_tag(&mut self, place: Place, tag: u32) {
        self.places[place.to_usize()].tag = tag;
    }

    /// A row, in no list, for a key that had none.
    ///
    /// # Panics
    /// If there are as many as may be, or the key has one.
    #[inline]
    pub fn insert(&mut self, key: K, tag: u32) -> Place {
        assert!(self.len < self.capacity, "policies make room first");
        let row = Row {
            key,
            link: Link::LOOSE,
            tag,
        };
        let place = if self.free == NO_PLACE {
            self.places.push(row);
            u32::try_from(self.places.len() - 1).expect("below the capacity")
        } else {
            let place = self.free;
            self.free = self.places[place as usize].link.chain();
            self.places[place as usize] = row;
            place
        };
        let slot = self.slot_of(key);
        assert_eq!(self.slots[slot], 0, "a key has one row");
        self.slots[slot] = place + 1;
        self.len += 1;
        Place(place)
    }

    /// Frees a row that is in no list, and says whose it was.
    #[inline]
    pub fn release(&mut self, place: Place) -> K {
        let key = self.places[place.to_usize()].key;
        self.empty(self.slot_of(key));
        self.places[place.to_usize()].link = Link::chained_to(self.free);
        self.free = place.0;
        self.len -= 1;
        key
    }

    /// Empties a slot, and moves back what was pushed behind it by what was there.
    fn empty(&mut self, slot: usize) {
        let count = self.slots.len();
        let distance = |from: usize, to: usize| {
            if to >= from {
                to - from
            } else {
                to + count - from
            }
        };
        let mut hole = slot;
        let mut next = self.after(hole);
        while self.slots[next] != 0 {
            let key = self.places[self.slots[next] as usize - 1].key;
            if distance(self.home(key), next) >= distance(hole, next) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.slots[hole] = 0;
    }

    /// Bytes of memory that they hold.
    pub fn memory(&self) -> Bytes {
        let rows = self.places.capacity() * size_of::<Row<K>>();
        Bytes::new((rows + self.slots.capacity() * size_of::<u32>()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_row_is_held_for_25_bytes_with_a_64_bit_key() {
        let rows = Rows::<u64>::new(10_000);
        assert_eq!(Rows::<u64>::ROW_BYTES, 25);
        assert!(rows.memory() <= Bytes::new(25 * 10_000 + 4));
    }

    proptest! {
        /// Beside a map, in so few slots that rows push each other on.
        #[test]
        fn rows_are_a_map(steps in prop::collection::vec((0u8..3, 0u64..24), 0..300)) {
            let mut rows = Rows::new(12);
            let mut model = BTreeMap::new();
            for (number, (what, key)) in (0u32..).zip(steps) {
                match (what, rows.find(key)) {
                    (0, None) if model.len() < 12 => {
                        rows.insert(key, number);
                        model.insert(key, number);
                    }
                    (1, Some(place)) => {
                        prop_assert_eq!(rows.release(place), key);
                        model.remove(&key);
                    }
                    (2, Some(place)) => {
                        rows.set_tag(place, number);
                        model.insert(key, number);
                    }
                    _ => {}
                }
                prop_assert_eq!(rows.len() as usize, model.len());
                for key in 0..24 {
                    let tag = rows.find(key).map(|place| (rows.key(place), rows.tag(place)));
                    prop_assert_eq!(tag, model.get(&key).map(|tag| (key, *tag)));
                }
            }
        }
    }
}
