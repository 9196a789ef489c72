//! Belady's MIN: the block goes whose next use is farthest away.
//!
//! It knows the future, so it cannot run in a daemon; no policy that admits every block has more hits.
//! Each step of the future is the number of the next access to the same block, or never.
//!
//! ```text
//!   heap, farthest on top:  (next use, place) ...     entries of earlier uses stay until they are on
//!                                                     top or outnumber the others
//! ```
//!
//! A block that is never used again is as far as can be; among those the choice does not matter.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::table::Table;
use super::{About, Evicted, Index, Key, Place, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "belady",
    other_names: &["min", "opt"],
    paper: "L. A. Belady, \"A study of replacement algorithms for a virtual-storage computer\", IBM Systems Journal 5(2), 1966",
    queues: &[("heap", "all blocks, by next use")],
    parameters: &[],
    knows_future: true,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// The number of an access that never comes.
pub const NEVER: u32 = u32::MAX;

/// For each access the number of the next one of the same block, or [`NEVER`].
///
/// # Panics
/// If there are 2^32 - 1 accesses or more.
pub fn next_uses(keys: &[u32]) -> Vec<u32> {
    let blocks = keys.iter().max().map_or(0, |key| *key as usize + 1);
    let mut next = vec![NEVER; blocks];
    let mut uses = vec![NEVER; keys.len()];
    for (step, key) in keys.iter().enumerate().rev() {
        let number = u32::try_from(step).expect("fewer than 2^32 accesses");
        assert!(number < NEVER);
        uses[step] = std::mem::replace(&mut next[*key as usize], number);
    }
    uses
}

/// Belady's MIN. A node's tag is its next use.
#[derive(Debug)]
pub struct Belady<K, I> {
    table: Table<K, I>,
    /// Next use and place of blocks in the cache, and what is left of earlier uses.
    farthest: BinaryHeap<(u32, u32)>,
    future: Arc<[u32]>,
    step: usize,
    blocks: u32,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Belady<K, I> {
    /// An empty cache.
    ///
    /// # Panics
    /// If the setup does not tell the future.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            farthest: BinaryHeap::new(),
            future: setup.future.expect("Belady's MIN must be told the future"),
            step: 0,
            blocks: 0,
            capacity: setup.capacity.get(),
        }
    }

    fn note(&mut self, place: Place, next_use: u32) {
        self.table.nodes[place].tag = next_use;
        self.farthest.push((next_use, place.0));
        if self.farthest.len() > 64 + 4 * self.blocks as usize {
            self.forget_earlier_uses();
        }
    }

    fn forget_earlier_uses(&mut self) {
        let mut entries = std::mem::take(&mut self.farthest).into_vec();
        entries.retain(|(next_use, place)| self.table.nodes[Place(*place)].tag == *next_use);
        entries.sort_unstable();
        entries.dedup();
        self.farthest = entries.into();
    }

    /// The block whose next use is farthest away.
    fn pop_farthest(&mut self) -> Place {
        loop {
            let (next_use, place) = self.farthest.pop().expect("each block has an entry");
            if self.table.nodes[Place(place)].tag == next_use {
                return Place(place);
            }
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Belady<K, I> {
    /// # Panics
    /// If there are more accesses than the future has steps.
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        let next_use = self.future[self.step];
        self.step += 1;
        if let Some(place) = self.table.find(key) {
            self.note(place, next_use);
            return true;
        }
        let place = if self.blocks == self.capacity {
            let victim = self.pop_farthest();
            evicted.push(self.table.rekey(victim, key));
            victim
        } else {
            self.blocks += 1;
            self.table.insert(key, NEVER)
        };
        self.note(place, next_use);
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        // No next use is the first access of all: the entries of this place are forgotten at the next
        // opportunity, and do not make the heap outgrow a cache that was emptied.
        self.table.nodes[place].tag = 0;
        self.table.release(place);
        self.blocks -= 1;
        true
    }

    fn contains(&self, key: K) -> bool {
        self.table.find(key).is_some()
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn pass(&mut self) {
        self.step += 1;
    }
}
