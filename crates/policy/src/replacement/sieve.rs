//! SIEVE: FIFO with a hand that evicts where it stands, and moves nothing.
//!
//! ```text
//!    newest ─► [ ][1][ ][1][1][ ] ◄─ oldest
//!                      ◄── hand: clears the mark of what was used, evicts the first that was not
//! ```
//!
//! What survived a pass stays where it is, among the old; newcomers come in at the other end, where the
//! hand is rarely. So blocks used once leave quickly. There is no defence against a loop that is larger
//! than the cache.

use super::list::List;
use super::table::Table;
use super::{About, Evicted, Index, Key, Place, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "sieve",
    other_names: &[],
    paper: "Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, \"SIEVE is simpler than LRU\", NSDI 2024",
    queues: &[(
        "queue",
        "all blocks, by arrival; the hand goes from the oldest to the newest",
    )],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// SIEVE. A node's tag is 1 if it was used since the hand passed.
#[derive(Debug)]
pub struct Sieve<K, I> {
    table: Table<K, I>,
    queue: List,
    /// Where the hand looks next; nowhere: at the oldest.
    hand: Option<Place>,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Sieve<K, I> {
    /// An empty cache.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queue: List::new(),
            hand: None,
            capacity: setup.capacity.get(),
        }
    }

    /// The next newer block; nowhere after the newest.
    fn beyond(&self, place: Place) -> Option<Place> {
        if self.queue.front() == Some(place) {
            None
        } else {
            Some(List::newer(place, &self.table.nodes))
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Sieve<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            self.table.nodes[place].tag = 1;
            return true;
        }
        if self.queue.len() < self.capacity {
            let place = self.table.insert(key, 0);
            self.queue.push_front(place, &mut self.table.nodes);
            return false;
        }
        let oldest = self.queue.back(&self.table.nodes);
        if let Some(mut victim) = self.hand.or(oldest) {
            while self.table.nodes[victim].tag != 0 {
                self.table.nodes[victim].tag = 0;
                // Around from the newest to the oldest, as the ring is closed.
                victim = List::newer(victim, &self.table.nodes);
            }
            self.hand = self.beyond(victim);
            evicted.push(self.table.rekey(victim, key));
            self.queue.move_to_front(victim, &mut self.table.nodes);
        }
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        if self.hand == Some(place) {
            self.hand = self.beyond(place);
        }
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
