//! CLOCK: FIFO, except that a block that was used since the hand last passed gets another round.
//!
//! ```text
//!    newest ─► [ ][1][ ][1][ ] ◄─ hand
//!       ▲────────── 1: cleared, goes round again; else evicted
//! ```
//!
//! With `bits` above one a block may earn several rounds (a generalized clock, Smith 1978): its counter
//! goes up with each use to 2^bits - 1 and down with each pass of the hand.

use super::limits::CLOCK_BITS_MAX;
use super::list::List;
use super::parameters::parse_count;
use super::table::Table;
use super::{About, BadValue, Evicted, Index, Key, Parameter, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "clock",
    other_names: &["fifo-reinsertion", "second-chance"],
    paper: "F. J. Corbató, \"A paging experiment with the Multics system\", MIT Project MAC report MAC-M-384, 1968",
    queues: &[(
        "clock",
        "all blocks; the hand goes from the oldest to the newest",
    )],
    parameters: &[Parameter {
        name: "bits",
        meaning: "bits of the counter of each block",
        takes: "1 to 8",
    }],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bits of each block's counter.
    pub bits: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { bits: 1 }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.bits = parse_count(value, 1, CLOCK_BITS_MAX)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.bits.to_string()
    }
}

/// CLOCK. A node's tag is its counter.
#[derive(Debug)]
pub struct Clock<K, I> {
    table: Table<K, I>,
    ring: List,
    capacity: u32,
    counter_max: u32,
}

impl<K: Key, I: Index<K>> Clock<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            ring: List::new(),
            capacity: setup.capacity.get(),
            counter_max: (1 << config.bits) - 1,
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Clock<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            let counter = &mut self.table.nodes[place].tag;
            *counter = (*counter + 1).min(self.counter_max);
            return true;
        }
        if self.ring.len() < self.capacity {
            let place = self.table.insert(key, 0);
            self.ring.push_front(place, &mut self.table.nodes);
            return false;
        }
        while let Some(hand) = self.ring.back(&self.table.nodes) {
            self.ring.rotate(&self.table.nodes);
            let counter = &mut self.table.nodes[hand].tag;
            if *counter == 0 {
                evicted.push(self.table.rekey(hand, key));
                break;
            }
            *counter -= 1;
        }
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        self.ring.remove(place, &mut self.table.nodes);
        self.table.release(place);
        true
    }

    fn contains(&self, key: K) -> bool {
        self.table.find(key).is_some()
    }

    fn blocks(&self) -> u32 {
        self.ring.len()
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
