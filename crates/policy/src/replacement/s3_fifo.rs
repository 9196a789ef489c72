//! S3-FIFO: three FIFO queues; most blocks leave through the small one without disturbing the main one.
//!
//! ```text
//!   miss ─► small (10 %) ── used often enough ──► main (90 %) ─┐ used: goes round again,
//!              │ not                                 ▲  ▲──────┘       its count one less
//!              ▼                                     │  │ not used: evicted, forgotten
//!           evicted, remembered ─► ghosts ── used ───┘
//! ```
//!
//! A block's count goes up to 3 and starts at 0 in each queue. While the cache has never been full,
//! newcomers that find the small queue full go to the main one.

use super::list::List;
use super::parameters::parse_count;
use super::table::Table;
use super::{
    About, BadValue, Evicted, Fraction, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "s3-fifo",
    other_names: &["s3fifo"],
    paper: "J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, \"FIFO queues are all you need for cache eviction\", SOSP 2023",
    queues: &[
        ("small", "newcomers, by arrival"),
        ("main", "blocks that proved themselves, by arrival there"),
        (
            "ghosts",
            "ghosts of those that left the small queue, by departure",
        ),
    ],
    parameters: &[
        Parameter {
            name: "small",
            meaning: "size of the small queue, as a part of the cache",
            takes: "0 to 1",
        },
        Parameter {
            name: "ghosts",
            meaning: "ghosts remembered, as a part of the cache",
            takes: "0 to 4",
        },
        Parameter {
            name: "threshold",
            meaning: "uses in the small queue after which a block goes to the main one",
            takes: "1 to 3",
        },
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of the small queue, as a part of the cache; at least one block.
    pub small: Fraction,
    /// Ghosts remembered, as a part of the cache.
    pub ghosts: Fraction,
    /// Uses in the small queue after which a block goes to the main one.
    pub threshold: u32,
}

impl Default for Config {
    /// The paper's: a tenth, as many ghosts as blocks in the main queue, and used more than once.
    fn default() -> Self {
        Self {
            small: Fraction::millionths(100_000),
            ghosts: Fraction::millionths(900_000),
            threshold: 2,
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match name {
            "small" => self.small = Fraction::parse(value, Fraction::ZERO, Fraction::ONE)?,
            "ghosts" => {
                self.ghosts =
                    Fraction::parse(value, Fraction::ZERO, Fraction::millionths(4_000_000))?;
            }
            _ => self.threshold = parse_count(value, 1, COUNT_MAX)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "small" => self.small.to_string(),
            "ghosts" => self.ghosts.to_string(),
            _ => self.threshold.to_string(),
        }
    }
}

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const GHOSTS: u32 = 2;

/// A node's tag is its queue and, above these two bits, its count.
const QUEUE: u32 = 3;
const COUNT_ONE: u32 = 4;
const COUNT_MAX: u32 = 3;

/// S3-FIFO.
#[derive(Debug)]
pub struct S3Fifo<K, I> {
    table: Table<K, I>,
    queues: [List; 3],
    small_max: u32,
    ghosts_max: u32,
    threshold: u32,
    capacity: u32,
    was_full: bool,
}

impl<K: Key, I: Index<K>> S3Fifo<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queues: [const { List::new() }; 3],
            small_max: setup.capacity.part(config.small).max(1),
            ghosts_max: setup.capacity.part(config.ghosts),
            threshold: config.threshold,
            capacity: setup.capacity.get(),
            was_full: false,
        }
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes()
    }

    #[inline]
    fn len(&self, queue: u32) -> u32 {
        self.queues[queue as usize].len()
    }

    #[inline]
    fn put(&mut self, place: Place, queue: u32) {
        self.table.nodes[place].tag = queue;
        self.queues[queue as usize].push_front(place, &mut self.table.nodes);
    }

    fn take(&mut self, place: Place) {
        let queue = self.table.nodes[place].tag & QUEUE;
        self.queues[queue as usize].remove(place, &mut self.table.nodes);
    }

    #[inline]
    fn pop(&mut self, queue: u32) -> Option<Place> {
        self.queues[queue as usize].pop_back(&mut self.table.nodes)
    }

    /// Evicts one block.
    #[inline]
    fn make_room(&mut self, evicted: &mut impl Evicted<K>) {
        self.was_full = true;
        if self.len(MAIN) <= self.capacity - self.small_max {
            while let Some(oldest) = self.pop(SMALL) {
                if self.table.nodes[oldest].tag < self.threshold * COUNT_ONE {
                    evicted.push(self.table.nodes[oldest].key);
                    self.remember(oldest);
                    return;
                }
                self.put(oldest, MAIN);
            }
        }
        self.evict_from_main(evicted);
    }

    fn evict_from_main(&mut self, evicted: &mut impl Evicted<K>) {
        let main = &mut self.queues[MAIN as usize];
        while let Some(oldest) = main.back(&self.table.nodes) {
            let tag = &mut self.table.nodes[oldest].tag;
            if *tag < COUNT_ONE {
                main.remove(oldest, &mut self.table.nodes);
                evicted.push(self.table.release(oldest));
                return;
            }
            *tag -= COUNT_ONE;
            main.rotate(&self.table.nodes);
        }
    }

    #[inline]
    fn remember(&mut self, place: Place) {
        self.put(place, GHOSTS);
        if self.len(GHOSTS) > self.ghosts_max {
            let oldest = self.pop(GHOSTS).expect("there are too many");
            self.table.release(oldest);
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for S3Fifo<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            let tag = &mut self.table.nodes[place].tag;
            if *tag & QUEUE != GHOSTS {
                if *tag < COUNT_MAX * COUNT_ONE {
                    *tag += COUNT_ONE;
                }
                return true;
            }
            self.take(place);
            if self.blocks() == self.capacity {
                self.make_room(evicted);
            }
            self.put(place, MAIN);
            return false;
        }
        if self.blocks() == self.capacity {
            self.make_room(evicted);
        }
        let place = self.table.insert(key, SMALL);
        let warms_up = !self.was_full && self.len(SMALL) >= self.small_max;
        self.put(place, if warms_up { MAIN } else { SMALL });
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        let was_cached = self.table.nodes[place].tag & QUEUE != GHOSTS;
        self.take(place);
        self.table.release(place);
        was_cached
    }

    fn contains(&self, key: K) -> bool {
        self.table
            .find(key)
            .is_some_and(|place| self.table.nodes[place].tag & QUEUE != GHOSTS)
    }

    fn blocks(&self) -> u32 {
        self.len(SMALL) + self.len(MAIN)
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
