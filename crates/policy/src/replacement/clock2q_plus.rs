//! Clock2Q+: a small FIFO in front of a CLOCK, where uses that follow a block's arrival too closely are
//! taken for the same use.
//!
//! ```text
//!   miss ─► small (10 %): [ window, uses do not count | uses count ]── used ──► main (90 %, CLOCK)
//!                                                         │ not                     ▲
//!                                                         ▼                         │
//!                                            evicted, remembered ─► ghosts ── used ─┘
//! ```
//!
//! The window is a part of the small queue, measured in blocks that arrived there since. Block storage
//! sees such correlated uses all the time: a log page written four times in a row, a read of two halves.
//! While the cache has never been full, newcomers that find the small queue full go to the main one.

use super::list::List;
use super::table::Table;
use super::{
    About, BadValue, Evicted, Fraction, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "clock2q+",
    other_names: &["clock2qplus", "clock2q-plus"],
    paper: "Clock2Q+: a simple and efficient replacement algorithm for metadata cache in VMware vSAN, 2025; after S3-FIFO and 2Q",
    queues: &[
        ("small", "newcomers, by arrival"),
        (
            "main",
            "blocks that proved themselves; the hand goes from the oldest to the newest",
        ),
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
            name: "window",
            meaning: "the correlation window, as a part of the small queue",
            takes: "0 to 1",
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
    /// The correlation window, as a part of the small queue.
    pub window: Fraction,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            small: Fraction::millionths(100_000),
            ghosts: Fraction::millionths(900_000),
            window: Fraction::millionths(500_000),
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
            _ => self.window = Fraction::parse(value, Fraction::ZERO, Fraction::ONE)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "small" => self.small.to_string(),
            "ghosts" => self.ghosts.to_string(),
            _ => self.window.to_string(),
        }
    }
}

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const GHOSTS: u32 = 2;

/// A node's tag is its queue in two bits, whether it was used in the third, and above them, in the small
/// queue, the number of its arrival. That number wraps after more arrivals than a small queue is long.
const QUEUE: u32 = 3;
const USED: u32 = 4;
const ARRIVAL_SHIFT: u32 = 3;
const _: () = assert!(super::limits::CAPACITY_BLOCKS_MAX <= 1 << (32 - ARRIVAL_SHIFT));

/// The policy at work.
#[derive(Debug)]
pub struct Clock2QPlus<K, I> {
    table: Table<K, I>,
    queues: [List; 3],
    /// Arrivals in the small queue, shifted as in a tag.
    arrivals: u32,
    /// The window, shifted as in a tag.
    window: u32,
    small_max: u32,
    ghosts_max: u32,
    capacity: u32,
    was_full: bool,
}

impl<K: Key, I: Index<K>> Clock2QPlus<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        let small_max = setup.capacity.part(config.small).max(1);
        Self {
            table: Table::new(setup.index),
            queues: [const { List::new() }; 3],
            arrivals: 0,
            window: config.window.of_rounded_up(small_max) << ARRIVAL_SHIFT,
            small_max,
            ghosts_max: setup.capacity.part(config.ghosts),
            capacity: setup.capacity.get(),
            was_full: false,
        }
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

    #[inline]
    fn put_in_small(&mut self, place: Place) {
        self.put(place, SMALL);
        self.arrivals = self.arrivals.wrapping_add(1 << ARRIVAL_SHIFT);
        self.table.nodes[place].tag |= self.arrivals;
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
                if self.table.nodes[oldest].tag & USED == 0 {
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
        while let Some(hand) = main.back(&self.table.nodes) {
            let tag = &mut self.table.nodes[hand].tag;
            if *tag & USED == 0 {
                main.remove(hand, &mut self.table.nodes);
                evicted.push(self.table.release(hand));
                return;
            }
            *tag &= !USED;
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

impl<K: Key, I: Index<K>> Policy<K> for Clock2QPlus<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            let tag = &mut self.table.nodes[place].tag;
            match *tag & QUEUE {
                MAIN => *tag |= USED,
                SMALL => {
                    let arrival = *tag >> ARRIVAL_SHIFT << ARRIVAL_SHIFT;
                    if self.arrivals.wrapping_sub(arrival) >= self.window {
                        *tag |= USED;
                    }
                }
                _ => {
                    self.take(place);
                    if self.blocks() == self.capacity {
                        self.make_room(evicted);
                    }
                    self.put(place, MAIN);
                    return false;
                }
            }
            return true;
        }
        if self.blocks() == self.capacity {
            self.make_room(evicted);
        }
        let place = self.table.insert(key, SMALL);
        if !self.was_full && self.len(SMALL) >= self.small_max {
            self.put(place, MAIN);
        } else {
            self.put_in_small(place);
        }
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
