//! ARC: divides the cache between blocks used once lately and blocks used more often, and shifts the
//! border towards the side whose ghosts are asked for.
//!
//! ```text
//!        used once                    used more often
//!   [ B1 ghosts | T1 cached ] ◄─ p ─► [ T2 cached | B2 ghosts ]
//!                  ▲ miss                ▲ hit in T1 or T2; used while in B1 or B2
//!   used while in B1: p grows            used while in B2: p shrinks
//! ```
//!
//! |T1| + |B1| is at most the capacity c, all four together at most 2c. `p`, the size that T1 should
//! have, is a real number, as in the paper: one use of a ghost moves it by the ratio of the ghosts' counts
//! or by 1, whichever is more.

use super::list::List;
use super::table::Table;
use super::{About, Evicted, Index, Key, Place, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "arc",
    other_names: &[],
    paper: "N. Megiddo, D. S. Modha, \"ARC: a self-tuning, low overhead replacement cache\", FAST 2003",
    queues: &[
        ("T1", "blocks used once lately, by last use"),
        ("T2", "blocks used more often, by last use"),
        ("B1", "ghosts of those that left T1, by departure"),
        ("B2", "ghosts of those that left T2, by departure"),
    ],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters: that is its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

const T1: u32 = 0;
const T2: u32 = 1;
const B1: u32 = 2;
const B2: u32 = 3;

/// ARC. A node's tag is its queue.
#[derive(Debug)]
pub struct Arc<K, I> {
    table: Table<K, I>,
    queues: [List; 4],
    /// The size that T1 should have.
    p: f64,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Arc<K, I> {
    /// An empty cache.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            queues: [const { List::new() }; 4],
            p: 0.0,
            capacity: setup.capacity.get(),
        }
    }

    #[inline]
    fn len(&self, queue: u32) -> u32 {
        self.queues[queue as usize].len()
    }

    #[inline]
    fn take(&mut self, place: Place) {
        let queue = self.table.nodes[place].tag;
        self.queues[queue as usize].remove(place, &mut self.table.nodes);
    }

    #[inline]
    fn put(&mut self, place: Place, queue: u32) {
        self.table.nodes[place].tag = queue;
        self.queues[queue as usize].push_front(place, &mut self.table.nodes);
    }

    #[inline]
    fn pop(&mut self, queue: u32) -> Option<Place> {
        self.queues[queue as usize].pop_back(&mut self.table.nodes)
    }

    /// The paper's REPLACE, if there is no room: the oldest of T1 or T2 becomes a ghost.
    #[inline]
    fn replace(&mut self, asked_in_b2: bool, evicted: &mut impl Evicted<K>) {
        if self.blocks() < self.capacity {
            return;
        }
        let t1 = f64::from(self.len(T1));
        let t1_is_long = t1 > self.p || (asked_in_b2 && t1 >= self.p);
        let from_t1 = self.len(T1) > 0 && (t1_is_long || self.len(T2) == 0);
        let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
        let oldest = self.pop(from).expect("the cache is full");
        evicted.push(self.table.nodes[oldest].key);
        self.put(oldest, to);
    }

    /// The paper's cases II and III: a ghost is asked for.
    fn revive(&mut self, place: Place, from: u32, evicted: &mut impl Evicted<K>) {
        let (b1, b2) = (f64::from(self.len(B1)), f64::from(self.len(B2)));
        self.p = if from == B1 {
            (self.p + (b2 / b1).max(1.0)).min(f64::from(self.capacity))
        } else {
            (self.p - (b1 / b2).max(1.0)).max(0.0)
        };
        self.take(place);
        self.replace(from == B2, evicted);
        self.put(place, T2);
    }

    /// The paper's case IV: a block of which nothing is known. The ghost that is forgotten for it, or the
    /// block that leaves without becoming one, lends it its place.
    #[inline]
    fn admit(&mut self, key: K, evicted: &mut impl Evicted<K>) {
        let reused = if self.len(T1) + self.len(B1) == self.capacity {
            let ghost = self.pop(B1);
            if ghost.is_some() {
                self.replace(false, evicted);
                ghost
            } else {
                let oldest = self.pop(T1).expect("it is as long as the cache");
                evicted.push(self.table.nodes[oldest].key);
                Some(oldest)
            }
        } else {
            let known: u32 = self.queues.iter().map(List::len).sum();
            let ghost = if known == 2 * self.capacity {
                self.pop(B2)
            } else {
                None
            };
            self.replace(false, evicted);
            ghost
        };
        let place = if let Some(place) = reused {
            self.table.rekey(place, key);
            place
        } else {
            self.table.insert(key, T1)
        };
        self.put(place, T1);
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Arc<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        let Some(place) = self.table.find(key) else {
            self.admit(key, evicted);
            return false;
        };
        match self.table.nodes[place].tag {
            T2 => self.queues[T2 as usize].move_to_front(place, &mut self.table.nodes),
            T1 => {
                self.take(place);
                self.put(place, T2);
            }
            ghosts => {
                self.revive(place, ghosts, evicted);
                return false;
            }
        }
        true
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        let was_cached = self.table.nodes[place].tag <= T2;
        self.take(place);
        self.table.release(place);
        was_cached
    }

    fn contains(&self, key: K) -> bool {
        self.table
            .find(key)
            .is_some_and(|place| self.table.nodes[place].tag <= T2)
    }

    fn blocks(&self) -> u32 {
        self.len(T1) + self.len(T2)
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
