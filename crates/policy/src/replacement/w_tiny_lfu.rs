//! W-TinyLFU: a window of newcomers, and behind it a segmented LRU that only admits what was used more
//! often than what would have to leave.
//!
//! ```text
//!   miss ─► window (LRU) ─► candidate ─┐          used more often? the victim goes, else the candidate
//!                                      ▼ probation (LRU) ─► victim
//!                        used again ─► protected (LRU) ─► back to probation when there are too many
//! ```
//!
//! How often is what `sketch.rs` estimates. How large the window is: hill climbing. After ten times as many
//! uses as the cache has blocks its hits are compared with those of the same number of uses before. With more
//! hits the window goes on growing or shrinking, with fewer it turns round, a little less far each time. A
//! change below a hundredth of the uses is the workload's noise: the window stays. The first step grows the window,
//! since a window of 1 % cannot shrink.

use super::list::List;
use super::sketch::Sketch;
use super::table::Table;
use super::{
    About, BadValue, Evicted, Fraction, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "w-tinylfu",
    other_names: &["wtinylfu", "tinylfu"],
    paper: "G. Einziger, R. Friedman, B. Manes, \"TinyLFU: a highly efficient cache admission policy\", ACM TOS 13(4), 2017; G. Einziger, O. Eytan, R. Friedman, B. Manes, \"Adaptive software cache management\", Middleware 2018",
    queues: &[
        ("window", "newcomers, by last use"),
        (
            "probation",
            "blocks that left the window or the protected queue, by arrival",
        ),
        ("protected", "blocks used on probation, by last use"),
    ],
    parameters: &[
        Parameter {
            name: "window",
            meaning: "the window at the start, as a part of the cache; at least one block",
            takes: "0 to 1",
        },
        Parameter {
            name: "protected",
            meaning: "the protected queue at the start, as a part of what the window leaves",
            takes: "0 to 1",
        },
        Parameter {
            name: "step",
            meaning: "the first step of the climber, as a part of the cache; with 0 the window stays as it is",
            takes: "0 to 1",
        },
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The window at the start, as a part of the cache; at least one block.
    pub window: Fraction,
    /// The protected queue at the start, as a part of what the window leaves.
    pub protected: Fraction,
    /// The first step of the climber, as a part of the cache.
    pub step: Fraction,
}

impl Default for Config {
    /// The papers': 1 %, 80 %, 6.25 %.
    fn default() -> Self {
        Self {
            window: Fraction::millionths(10_000),
            protected: Fraction::millionths(800_000),
            step: Fraction::millionths(62_500),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        let value = Fraction::parse(value, Fraction::ZERO, Fraction::ONE)?;
        match name {
            "window" => self.window = value,
            "protected" => self.protected = value,
            _ => self.step = value,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "window" => self.window.to_string(),
            "protected" => self.protected.to_string(),
            _ => self.step.to_string(),
        }
    }
}

/// Finds the window's size by trying.
#[derive(Debug)]
struct Climber {
    period: u64,
    accesses: u64,
    hits: u64,
    hits_before: u64,
    /// The next step in 65,536ths of a block; negative: a smaller window.
    step: i64,
    first_step: i64,
}

impl Climber {
    fn new(capacity: u32, step: Fraction) -> Self {
        let first_step = i64::from(step.of(capacity)) << 16;
        Self {
            period: 10 * u64::from(capacity),
            accesses: 0,
            hits: 0,
            hits_before: 0,
            step: first_step,
            first_step,
        }
    }

    /// Counts an access. At the end of a period: by how many blocks the window changes.
    #[inline]
    fn count(&mut self, hit: bool) -> Option<i64> {
        self.accesses += 1;
        self.hits += u64::from(hit);
        if self.accesses < self.period {
            None
        } else {
            Some(self.decide())
        }
    }

    #[cold]
    fn decide(&mut self) -> i64 {
        let hits = std::mem::take(&mut self.hits);
        let hits_before = std::mem::replace(&mut self.hits_before, hits);
        self.accesses = 0;
        let changed = hits.abs_diff(hits_before);
        if changed * 100 < self.period {
            return 0;
        }
        let step = if hits > hits_before {
            self.step
        } else {
            -self.step
        };
        // A change of 5 % or more: the workload is another one, and the search starts afresh.
        self.step = if changed * 20 >= self.period {
            self.first_step * step.signum()
        } else {
            step * 98 / 100
        };
        step / (1 << 16)
    }
}

const WINDOW: u32 = 0;
const PROBATION: u32 = 1;
const PROTECTED: u32 = 2;

/// W-TinyLFU. A node's tag is its queue.
#[derive(Debug)]
pub struct WTinyLfu<K, I> {
    table: Table<K, I>,
    queues: [List; 3],
    window_max: u32,
    protected_max: u32,
    capacity: u32,
    sketch: Sketch,
    climber: Climber,
}

impl<K: Key, I: Index<K>> WTinyLfu<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        let capacity = setup.capacity.get();
        let window_max = setup.capacity.part(config.window).max(1);
        Self {
            table: Table::new(setup.index),
            queues: [const { List::new() }; 3],
            window_max,
            protected_max: config.protected.of(capacity - window_max),
            capacity,
            sketch: Sketch::new(capacity),
            climber: Climber::new(capacity, config.step),
        }
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes() + self.sketch.memory_bytes()
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
    fn take(&mut self, place: Place) {
        let queue = self.table.nodes[place].tag;
        self.queues[queue as usize].remove(place, &mut self.table.nodes);
    }

    #[inline]
    fn pop(&mut self, queue: u32) -> Option<Place> {
        self.queues[queue as usize].pop_back(&mut self.table.nodes)
    }

    fn estimate(&self, place: Place) -> u64 {
        self.sketch
            .estimate(Sketch::hash(self.table.nodes[place].key))
    }

    fn used(&mut self, place: Place) {
        let queue = self.table.nodes[place].tag;
        if queue == PROBATION {
            self.take(place);
            self.put(place, PROTECTED);
            self.limit_protected();
        } else {
            self.queues[queue as usize].move_to_front(place, &mut self.table.nodes);
        }
    }

    fn limit_protected(&mut self) {
        while self.len(PROTECTED) > self.protected_max {
            let oldest = self.pop(PROTECTED).expect("it is too long");
            self.put(oldest, PROBATION);
        }
    }

    /// After a newcomer: the window's oldest goes on probation if the window is too long, and one block
    /// leaves if the cache is.
    #[inline]
    fn settle(&mut self, evicted: &mut impl Evicted<K>) {
        let candidate = if self.len(WINDOW) > self.window_max {
            self.pop(WINDOW)
        } else {
            None
        };
        if let Some(candidate) = candidate {
            self.put(candidate, PROBATION);
        }
        if self.blocks() <= self.capacity {
            return;
        }
        let victim = [PROBATION, PROTECTED, WINDOW]
            .iter()
            .find_map(|queue| self.queues[*queue as usize].back(&self.table.nodes))
            .expect("the cache is too full");
        let loser = match candidate {
            Some(candidate) if self.estimate(candidate) <= self.estimate(victim) => candidate,
            _ => victim,
        };
        self.take(loser);
        evicted.push(self.table.release(loser));
    }

    fn change_window(&mut self, blocks: i64) {
        let amount = u32::try_from(blocks.unsigned_abs()).expect("at most the cache");
        if blocks > 0 {
            let amount = amount.min(self.protected_max);
            self.protected_max -= amount;
            self.window_max += amount;
            self.limit_protected();
            while self.len(WINDOW) < self.window_max {
                let Some(oldest) = self.pop(PROBATION).or_else(|| self.pop(PROTECTED)) else {
                    return;
                };
                self.put(oldest, WINDOW);
            }
        } else {
            let amount = amount.min(self.window_max - 1);
            self.protected_max += amount;
            self.window_max -= amount;
            while self.len(WINDOW) > self.window_max {
                let oldest = self.pop(WINDOW).expect("it is too long");
                self.put(oldest, PROBATION);
            }
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for WTinyLfu<K, I> {
    #[inline]
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        self.sketch.add(Sketch::hash(key));
        let found = self.table.find(key);
        if let Some(place) = found {
            self.used(place);
        } else {
            let place = self.table.insert(key, WINDOW);
            self.put(place, WINDOW);
            self.settle(evicted);
        }
        if let Some(blocks) = self.climber.count(found.is_some()) {
            self.change_window(blocks);
        }
        found.is_some()
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        self.take(place);
        self.table.release(place);
        true
    }

    fn contains(&self, key: K) -> bool {
        self.table.find(key).is_some()
    }

    fn blocks(&self) -> u32 {
        self.queues.iter().map(List::len).sum()
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window's changes in blocks after periods with so many hits of 1000 accesses: a cache of 100
    /// blocks, a first step of 10.
    fn changes(periods: &[u64]) -> Vec<i64> {
        let mut climber = Climber::new(100, Fraction::millionths(100_000));
        let mut changes = Vec::new();
        for hits in periods {
            changes.extend((0..1000).filter_map(|access| climber.count(access < *hits)));
        }
        changes
    }

    #[test]
    fn the_first_step_grows_the_window_and_fewer_hits_turn_it_round() {
        assert_eq!(changes(&[300, 400, 340, 240]), [10, 10, -10, 10]);
    }

    #[test]
    fn a_change_below_a_hundredth_of_the_accesses_leaves_the_window_as_it_is() {
        assert_eq!(changes(&[300, 309, 300, 310]), [10, 0, 0, 10]);
        assert_eq!(changes(&[9]), [0], "nearly nothing hits");
    }
}
