//! 2Q: a block must come back after it has left the queue of newcomers before it is believed.
//!
//! ```text
//!   miss ─► A1in (FIFO) ─► evicted, remembered ─► A1out (ghosts, FIFO) ─► forgotten
//!                                                   │ used again
//!                                                   ▼
//!                                                  Am (LRU) ─► evicted, forgotten
//! ```
//!
//! Uses in A1in count for nothing: they are taken for one use in several parts. Blocks leave A1in while
//! it holds more than `kin` of the cache, else Am. What is remembered is the paper's full version.

use super::list::List;
use super::table::Table;
use super::{
    About, BadValue, Evicted, Fraction, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "2q",
    other_names: &["twoq"],
    paper: "T. Johnson, D. Shasha, \"2Q: a low overhead high performance buffer management replacement algorithm\", VLDB 1994",
    queues: &[
        ("A1in", "newcomers, by arrival"),
        ("A1out", "ghosts of those that left A1in, by departure"),
        ("Am", "blocks that came back while remembered, by last use"),
    ],
    parameters: &[
        Parameter {
            name: "kin",
            meaning: "what A1in keeps, as a part of the cache",
            takes: "0 to 1",
        },
        Parameter {
            name: "kout",
            meaning: "what A1out remembers, as a part of the cache",
            takes: "0 to 4",
        },
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What A1in keeps, as a part of the cache.
    pub kin: Fraction,
    /// What A1out remembers, as a part of the cache.
    pub kout: Fraction,
}

impl Default for Config {
    /// The paper's advice: a quarter and a half.
    fn default() -> Self {
        Self {
            kin: Fraction::millionths(250_000),
            kout: Fraction::millionths(500_000),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match name {
            "kin" => self.kin = Fraction::parse(value, Fraction::ZERO, Fraction::ONE)?,
            _ => {
                self.kout =
                    Fraction::parse(value, Fraction::ZERO, Fraction::millionths(4_000_000))?;
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "kin" => self.kin.to_string(),
            _ => self.kout.to_string(),
        }
    }
}

const A1IN: u32 = 0;
const A1OUT: u32 = 1;
const AM: u32 = 2;

/// 2Q. A node's tag is its queue.
#[derive(Debug)]
pub struct TwoQ<K, I> {
    table: Table<K, I>,
    queues: [List; 3],
    a1in_max: u32,
    a1out_max: u32,
    capacity: u32,
}

impl<K: Key, I: Index<K>> TwoQ<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queues: [const { List::new() }; 3],
            a1in_max: setup.capacity.part(config.kin),
            a1out_max: setup.capacity.part(config.kout),
            capacity: setup.capacity.get(),
        }
    }

    fn len(&self, queue: u32) -> u32 {
        self.queues[queue as usize].len()
    }

    fn take(&mut self, place: Place) {
        let queue = self.table.nodes[place].tag;
        self.queues[queue as usize].remove(place, &mut self.table.nodes);
    }

    fn pop(&mut self, queue: u32) -> Option<Place> {
        self.queues[queue as usize].pop_back(&mut self.table.nodes)
    }

    fn put(&mut self, place: Place, queue: u32) {
        self.table.nodes[place].tag = queue;
        self.queues[queue as usize].push_front(place, &mut self.table.nodes);
    }

    fn make_room(&mut self, evicted: &mut impl Evicted<K>) {
        if self.blocks() < self.capacity {
            return;
        }
        if self.len(A1IN) > self.a1in_max || self.len(AM) == 0 {
            let oldest = self.pop(A1IN).expect("the cache is full");
            evicted.push(self.table.nodes[oldest].key);
            self.put(oldest, A1OUT);
            if self.len(A1OUT) > self.a1out_max {
                let oldest = self.pop(A1OUT).expect("it is too long");
                self.table.release(oldest);
            }
        } else if let Some(oldest) = self.pop(AM) {
            evicted.push(self.table.release(oldest));
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for TwoQ<K, I> {
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        let Some(place) = self.table.find(key) else {
            self.make_room(evicted);
            let place = self.table.insert(key, A1IN);
            self.put(place, A1IN);
            return false;
        };
        match self.table.nodes[place].tag {
            A1IN => true,
            A1OUT => {
                self.take(place);
                self.make_room(evicted);
                self.put(place, AM);
                false
            }
            _ => {
                self.queues[AM as usize].move_to_front(place, &mut self.table.nodes);
                true
            }
        }
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        let was_cached = self.table.nodes[place].tag != A1OUT;
        self.take(place);
        self.table.release(place);
        was_cached
    }

    fn contains(&self, key: K) -> bool {
        self.table
            .find(key)
            .is_some_and(|place| self.table.nodes[place].tag != A1OUT)
    }

    fn blocks(&self) -> u32 {
        self.len(A1IN) + self.len(AM)
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
