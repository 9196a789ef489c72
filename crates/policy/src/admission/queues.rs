//! What a policy knows of blocks by name, in queues, in memory that is bounded and taken once.
//!
//! ```text
//!   key ─ hash ─► slots: [ · | 3 | 1 | · | 2 | · ]   open addressing, at most 4 of 5 full
//!                            │   │       │
//!                 rows:  1 { key, links, tag }       links: queues newest first (`List`)
//!                        2 { key, links, tag }       tag:   queue (2 bits), the policy's mark (30 bits)
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

use crate::replacement::Key;
use crate::replacement::Place;
use crate::replacement::list::{Link, Links, List};

/// Bytes of slots that go with a row.
const SLOT_BYTES: usize = 5;

/// The least that is remembered whatever the share, so that a tenant without any can still earn some.
const ROWS_LEAST: u32 = 16;

/// The most: places have 32 bits, and this is the most that a cache has blocks.
const ROWS_MAX: u32 = crate::replacement::limits::CAPACITY_BLOCKS_MAX;

const QUEUE_BITS: u32 = 2;
const QUEUE: u32 = (1 << QUEUE_BITS) - 1;

/// The greatest mark.
pub(super) const MARK_MAX: u32 = u32::MAX >> QUEUE_BITS;

/// Packed so that a 64-bit key costs 8 bytes and not 12.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Row<K: Copy> {
    key: K,
    link: Link,
    tag: u32,
}

/// Rows found by key.
#[derive(Debug)]
struct Rows<K: Copy> {
    places: Vec<Row<K>>,
    /// A row's place and one, or 0.
    slots: Vec<u32>,
    /// The first of the chain of free places, and how many are in it.
    free: u32,
    free_count: u32,
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
    fn new(capacity: u32) -> Self {
        let slots = capacity as usize + capacity as usize / 4 + 1;
        Self {
            places: Vec::with_capacity(capacity as usize),
            slots: vec![0; slots],
            free: NO_PLACE,
            free_count: 0,
            capacity,
        }
    }

    fn len(&self) -> usize {
        self.places.len() - self.free_count as usize
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

    #[inline]
    fn find(&self, key: K) -> Option<Place> {
        let named = self.slots[self.slot_of(key)];
        named.checked_sub(1).map(Place)
    }

    #[inline]
    fn insert(&mut self, key: K, tag: u32) -> Place {
        assert!(
            self.len() < self.capacity as usize,
            "policies make room first"
        );
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
            self.free_count -= 1;
            self.places[place as usize] = row;
            place
        };
        let slot = self.slot_of(key);
        assert_eq!(self.slots[slot], 0, "a key has one row");
        self.slots[slot] = place + 1;
        Place(place)
    }

    /// Frees a row whose links are loose already.
    #[inline]
    fn release(&mut self, place: Place) -> K {
        let key = self.places[place.to_usize()].key;
        self.empty(self.slot_of(key));
        self.places[place.to_usize()].link = Link::chained_to(self.free);
        self.free = place.0;
        self.free_count += 1;
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

    fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Row<K>>() + self.slots.capacity() * size_of::<u32>()
    }
}

/// Up to four queues of blocks; a block is in one of them at most.
#[derive(Debug)]
pub(super) struct Queues<K: Copy, const QUEUES: usize> {
    rows: Rows<K>,
    lists: [List; QUEUES],
}

impl<K: Key, const QUEUES: usize> Queues<K, QUEUES> {
    /// Bytes that one row costs.
    pub(super) const ROW_BYTES: u64 = (size_of::<Row<K>>() + SLOT_BYTES) as u64;

    /// Rows that fit into so much memory: at least a few.
    pub(super) fn rows_within(bytes: Bytes) -> u32 {
        let rows = bytes.get() / Self::ROW_BYTES;
        u32::try_from(rows)
            .unwrap_or(ROWS_MAX)
            .clamp(ROWS_LEAST, ROWS_MAX)
    }

    /// Queues of that many blocks in all at most.
    pub(super) fn new(capacity: u32) -> Self {
        const { assert!(QUEUES <= 1 << QUEUE_BITS) };
        Self {
            rows: Rows::new(capacity),
            lists: [const { List::new() }; QUEUES],
        }
    }

    #[inline]
    pub(super) fn find(&self, key: K) -> Option<Place> {
        self.rows.find(key)
    }

    /// Blocks that may be known.
    pub(super) fn capacity(&self) -> u32 {
        self.rows.capacity
    }

    pub(super) fn len(&self, queue: usize) -> u32 {
        self.lists[queue].len()
    }

    #[inline]
    fn tag(&self, place: Place) -> u32 {
        self.rows.places[place.to_usize()].tag
    }

    #[inline]
    pub(super) fn queue(&self, place: Place) -> usize {
        (self.tag(place) & QUEUE) as usize
    }

    #[inline]
    pub(super) fn mark(&self, place: Place) -> u32 {
        self.tag(place) >> QUEUE_BITS
    }

    #[inline]
    pub(super) fn set_mark(&mut self, place: Place, mark: u32) {
        let queue = self.tag(place) & QUEUE;
        self.rows.places[place.to_usize()].tag = mark << QUEUE_BITS | queue;
    }

    /// A block that was in no queue becomes the newest of this one.
    ///
    /// # Panics
    /// If as many blocks are known as may be.
    #[inline]
    pub(super) fn push(&mut self, queue: usize, key: K, mark: u32) {
        let number = u32::try_from(queue).expect("four at most");
        let place = self.rows.insert(key, mark << QUEUE_BITS | number);
        self.lists[queue].push_front(place, &mut self.rows);
    }

    /// The block becomes the newest of this queue, wherever it was.
    #[inline]
    pub(super) fn move_to(&mut self, place: Place, queue: usize) {
        let from = self.queue(place);
        if from == queue {
            self.lists[queue].move_to_front(place, &mut self.rows);
            return;
        }
        self.lists[from].remove(place, &mut self.rows);
        let number = u32::try_from(queue).expect("four at most");
        let tag = &mut self.rows.places[place.to_usize()].tag;
        *tag = *tag & !QUEUE | number;
        self.lists[queue].push_front(place, &mut self.rows);
    }

    /// The oldest of a queue.
    #[inline]
    pub(super) fn oldest(&self, queue: usize) -> Option<Place> {
        self.lists[queue].back(&self.rows)
    }

    /// Forgets a block: its key and mark.
    #[inline]
    pub(super) fn forget(&mut self, place: Place) -> (K, u32) {
        let (queue, mark) = (self.queue(place), self.mark(place));
        self.lists[queue].remove(place, &mut self.rows);
        (self.rows.release(place), mark)
    }

    pub(super) fn key(&self, place: Place) -> K {
        self.rows.places[place.to_usize()].key
    }

    /// Forgets the oldest of a queue.
    #[inline]
    pub(super) fn pop_oldest(&mut self, queue: usize) -> Option<(K, u32)> {
        self.oldest(queue).map(|place| self.forget(place))
    }

    /// How many blocks more may be known.
    pub(super) fn free_rows(&self) -> u32 {
        let known = u32::try_from(self.rows.len()).expect("places have 32 bits");
        self.rows.capacity - known
    }

    /// How many blocks may be known after [`Self::resize`] to that many: an eighth more or less changes
    /// nothing, because shares change a little every few minutes and every row would be copied.
    pub(super) fn capacity_after(&self, wanted: u32) -> u32 {
        let now = self.rows.capacity;
        if wanted.abs_diff(now) <= now / 8 {
            now
        } else {
            wanted
        }
    }

    /// Room for [`Self::capacity_after`] that many; all that are known must fit.
    pub(super) fn resize(&mut self, wanted: u32) {
        let capacity = self.capacity_after(wanted);
        if capacity == self.rows.capacity {
            return;
        }
        let mut larger = Self::new(capacity);
        for queue in 0..QUEUES {
            while let Some((key, mark)) = self.pop_oldest(queue) {
                larger.push(queue, key, mark);
            }
        }
        *self = larger;
    }

    pub(super) fn memory(&self) -> Bytes {
        Bytes::new(self.rows.memory_bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_row_costs_25_bytes_with_a_64_bit_key() {
        assert_eq!(Queues::<u64, 2>::ROW_BYTES, 25);
        let bytes = Bytes::mib(1);
        let queues = Queues::<u64, 2>::new(Queues::<u64, 2>::rows_within(bytes));
        assert!(queues.memory() <= bytes, "{}", queues.memory());
        assert!(queues.memory() >= Bytes::kib(1023), "{}", queues.memory());
    }

    proptest! {
        /// Beside two double-ended queues of keys and marks, through resizes.
        #[test]
        fn queues_are_queues(
            steps in prop::collection::vec((0u8..6, 0u64..24, 0usize..2), 0..300),
        ) {
            let mut queues = Queues::<u64, 2>::new(12);
            let mut capacity = 12;
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (what, key, queue) in steps {
                let known = (0..2).find_map(|queue| {
                    let at = model[queue].iter().position(|(other, _)| *other == key)?;
                    Some((queue, at))
                });
                prop_assert_eq!(queues.find(key).map(|place| queues.queue(place)), known.map(|known| known.0));
                let count = model[0].len() + model[1].len();
                match (what, known) {
                    (0 | 1, None) if count < capacity => {
                        queues.push(queue, key, 7);
                        model[queue].push_back((key, 7));
                    }
                    (2, Some((from, at))) => {
                        queues.move_to(queues.find(key).unwrap(), queue);
                        let entry = model[from].remove(at).unwrap();
                        model[queue].push_back(entry);
                    }
                    (3, Some((from, at))) => {
                        let (_, mark) = model[from].remove(at).unwrap();
                        prop_assert_eq!(queues.forget(queues.find(key).unwrap()), (key, mark));
                    }
                    (4, Some((from, at))) => {
                        queues.set_mark(queues.find(key).unwrap(), 9);
                        model[from][at].1 = 9;
                    }
                    (4, None) => {
                        prop_assert_eq!(queues.pop_oldest(queue), model[queue].pop_front());
                    }
                    (5, _) => {
                        let wanted = u32::try_from(key.max(1)).unwrap();
                        let after = queues.capacity_after(wanted);
                        if after as usize >= count {
                            queues.resize(wanted);
                            capacity = after as usize;
                        }
                    }
                    _ => {}
                }
                for (queue, model) in model.iter().enumerate() {
                    prop_assert_eq!(queues.len(queue) as usize, model.len());
                    let oldest = queues.oldest(queue).map(|place| (queues.key(place), queues.mark(place)));
                    prop_assert_eq!(oldest, model.front().copied());
                }
            }
        }
    }
}
