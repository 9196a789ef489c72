//! Least recently used: the block whose last use is longest ago goes.
//!
//! The policy that every other is measured against, and the one whose miss-ratio curve a single pass
//! finds for all sizes (Mattson et al. 1970).

use super::list::List;
use super::table::Table;
use super::{About, Evicted, Index, Key, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "lru",
    other_names: &[],
    paper: "R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, \"Evaluation techniques for storage hierarchies\", IBM Systems Journal 9(2), 1970",
    queues: &[("queue", "all blocks, by last use")],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// Least recently used.
#[derive(Debug)]
pub struct Lru<K, I> {
    table: Table<K, I>,
    queue: List,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Lru<K, I> {
    /// An empty cache.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queue: List::new(),
            capacity: setup.capacity.get(),
        }
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes()
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Lru<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            self.queue.move_to_front(place, &mut self.table.nodes);
            return true;
        }
        if self.queue.len() < self.capacity {
            let place = self.table.insert(key, 0);
            self.queue.push_front(place, &mut self.table.nodes);
        } else if let Some(oldest) = self.queue.back(&self.table.nodes) {
            evicted.push(self.table.rekey(oldest, key));
            self.queue.rotate(&self.table.nodes);
        }
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        self.queue.remove(place, &mut self.table.nodes);
        self.table.release(place);
        true
    }

    fn contains(&self, key: K) -> bool {
        self.table.find(key).is_some()
    }

    fn blocks(&self) -> u32 {
        self.queue.len()
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capacity, Dense};
    use super::*;

    fn lru(capacity: u64) -> Lru<u32, Dense> {
        Lru::new(
            &Config,
            Setup::new(Capacity::new(capacity).unwrap(), Dense::new()),
        )
    }

    #[test]
    fn the_block_used_longest_ago_goes() {
        let mut lru = lru(3);
        let mut evicted = Vec::new();
        for key in [1, 2, 3, 1, 4, 5] {
            Policy::access(&mut lru, key, &mut evicted);
        }
        assert_eq!(evicted, [2, 3]);
        assert!(Policy::contains(&lru, 1));
    }

    /// The bar is 24 bytes for each distinct block, everything counted.
    #[test]
    fn a_distinct_block_costs_at_most_24_bytes() {
        const DISTINCT: u32 = 1_000_000;
        for capacity in [
            u64::from(DISTINCT) * 2,
            u64::from(DISTINCT),
            u64::from(DISTINCT) / 10,
        ] {
            let mut lru = lru(capacity);
            for key in 0..DISTINCT {
                Policy::access(&mut lru, key, &mut super::super::Unasked);
            }
            let bytes = lru.memory_bytes();
            assert!(
                bytes <= 24 * DISTINCT as usize,
                "{bytes} bytes at {capacity}"
            );
        }
    }
}
