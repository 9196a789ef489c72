//! First in, first out: the block that came first goes, however often it was used.
//!
//! The yardstick below all others; what a ring in flash does without any thought.

use super::list::List;
use super::table::Table;
use super::{About, Evicted, Index, Key, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "fifo",
    other_names: &[],
    paper: "L. A. Belady, \"A study of replacement algorithms for a virtual-storage computer\", IBM Systems Journal 5(2), 1966",
    queues: &[("queue", "all blocks, by arrival")],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// First in, first out.
#[derive(Debug)]
pub struct Fifo<K, I> {
    table: Table<K, I>,
    queue: List,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Fifo<K, I> {
    /// An empty cache.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queue: List::new(),
            capacity: setup.capacity.get(),
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Fifo<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if self.table.find(key).is_some() {
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
