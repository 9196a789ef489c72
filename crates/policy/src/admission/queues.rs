//! What a policy knows of blocks by name, in queues, in memory that is bounded and taken once.
//!
//! [`Rows`] find a block by its key; the 32 bits that a row has for its owner are the queue (2 bits) and the policy's
//! mark (30 bits).

use units::Bytes;

use crate::replacement::Key;
use crate::replacement::Place;
use crate::rows::{List, Rows};

/// The least that is remembered whatever the share, so that a tenant without any can still earn some.
const ROWS_LEAST: u32 = 16;

/// The most: places have 32 bits, and this is the most that a cache has blocks.
const ROWS_MAX: u32 = crate::replacement::limits::CAPACITY_BLOCKS_MAX;

const QUEUE_BITS: u32 = 2;
const QUEUE: u32 = (1 << QUEUE_BITS) - 1;

/// The greatest mark.
pub(super) const MARK_MAX: u32 = u32::MAX >> QUEUE_BITS;

/// Up to four queues of blocks; a block is in one of them at most.
#[derive(Debug)]
pub(super) struct Queues<K: Copy, const QUEUES: usize> {
    rows: Rows<K>,
    lists: [List; QUEUES],
}

impl<K: Key, const QUEUES: usize> Queues<K, QUEUES> {
    /// Bytes that one row costs.
    pub(super) const ROW_BYTES: u64 = Rows::<K>::ROW_BYTES;

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
        self.rows.capacity()
    }

    pub(super) fn len(&self, queue: usize) -> u32 {
        self.lists[queue].len()
    }

    #[inline]
    fn tag(&self, place: Place) -> u32 {
        self.rows.tag(place)
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
        self.rows.set_tag(place, mark << QUEUE_BITS | queue);
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
        self.rows.set_tag(place, self.tag(place) & !QUEUE | number);
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
        self.rows.key(place)
    }

    /// Forgets the oldest of a queue.
    #[inline]
    pub(super) fn pop_oldest(&mut self, queue: usize) -> Option<(K, u32)> {
        self.oldest(queue).map(|place| self.forget(place))
    }

    /// How many blocks more may be known.
    pub(super) fn free_rows(&self) -> u32 {
        self.rows.capacity() - self.rows.len()
    }

    /// How many blocks may be known after [`Self::resize`] to that many: an eighth more or less changes
    /// nothing, because shares change a little every few minutes and every row would be copied.
    pub(super) fn capacity_after(&self, wanted: u32) -> u32 {
        let now = self.rows.capacity();
        if wanted.abs_diff(now) <= now / 8 {
            now
        } else {
            wanted
        }
    }

    /// Room for [`Self::capacity_after`] that many; all that are known must fit.
    pub(super) fn resize(&mut self, wanted: u32) {
        let capacity = self.capacity_after(wanted);
        if capacity == self.rows.capacity() {
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
        self.rows.memory()
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
