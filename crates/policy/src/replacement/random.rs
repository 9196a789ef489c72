//! Random: any block goes, all alike.
//!
//! What needs no bookkeeping of uses at all; a policy that is not better than it on a trace has learnt
//! nothing from that trace. On a loop larger than the cache it beats LRU by far.

use units::Prng;

use super::{About, BadValue, Evicted, Index, Key, Parameter, Place, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "random",
    other_names: &[],
    paper: "L. A. Belady, \"A study of replacement algorithms for a virtual-storage computer\", IBM Systems Journal 5(2), 1966",
    queues: &[("blocks", "all blocks, in no order")],
    parameters: &[Parameter {
        name: "seed",
        meaning: "the seed of its dice",
        takes: "a whole number",
    }],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The seed of the dice: the same seed, the same run.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { seed: 1 }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.seed = value.parse().map_err(|_| BadValue)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.seed.to_string()
    }
}

/// Random replacement. A block's place is its place among the blocks.
#[derive(Debug)]
pub struct Random<K, I> {
    index: I,
    blocks: Vec<K>,
    dice: Prng,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Random<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        Self {
            index: setup.index,
            blocks: Vec::new(),
            dice: Prng::new(config.seed),
            capacity: setup.capacity.get(),
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Random<K, I> {
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if self.index.get(key).is_some() {
            return true;
        }
        let place = if self.blocks() < self.capacity {
            self.blocks.push(key);
            Place(self.blocks() - 1)
        } else {
            let drawn = self.dice.below(u64::from(self.capacity));
            let place = Place(u32::try_from(drawn).expect("below the capacity"));
            let victim = std::mem::replace(&mut self.blocks[place.to_usize()], key);
            self.index.remove(victim);
            evicted.push(victim);
            place
        };
        self.index.insert(key, place);
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.index.get(key) else {
            return false;
        };
        self.index.remove(key);
        self.blocks.swap_remove(place.to_usize());
        if let Some(moved) = self.blocks.get(place.to_usize()) {
            self.index.remove(*moved);
            self.index.insert(*moved, place);
        }
        true
    }

    fn contains(&self, key: K) -> bool {
        self.index.get(key).is_some()
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("at most the capacity")
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
