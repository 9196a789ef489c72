//! Least frequently used: the block with the fewest uses since it came in goes; among equals the one
//! used longest ago.
//!
//! ```text
//!   fewest uses ─► (1: A B C) ⇄ (2: D) ⇄ (7: E F)      a use moves a block one bucket on
//! ```
//!
//! Counts are forgotten when a block leaves, and never age: what was hot once stays. Every step takes
//! constant time (K. Shah, A. Mitra, D. Matani, 2010).

use super::list::{List, SideLinks};
use super::table::Table;
use super::{About, Evicted, Index, Key, Place, Policy, Settings, Setup};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "lfu",
    other_names: &[],
    paper: "E. G. Coffman, P. J. Denning, \"Operating systems theory\", 1973; constant time after K. Shah, A. Mitra, D. Matani, \"An O(1) algorithm for implementing the LFU cache eviction scheme\", 2010",
    queues: &[(
        "buckets",
        "blocks with the same number of uses, by last use",
    )],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// Blocks with the same number of uses.
#[derive(Debug)]
struct Bucket {
    uses: u32,
    blocks: List,
}

/// Least frequently used. A node's tag is the number of its bucket.
#[derive(Debug)]
pub struct Lfu<K, I> {
    table: Table<K, I>,
    buckets: Vec<Bucket>,
    /// Buckets by their number of uses, the most in front.
    order: List,
    bucket_links: SideLinks,
    free_buckets: Vec<Place>,
    blocks: u32,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Lfu<K, I> {
    /// An empty cache.
    pub fn new(_config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            buckets: Vec::new(),
            order: List::new(),
            bucket_links: SideLinks::default(),
            free_buckets: Vec::new(),
            blocks: 0,
            capacity: setup.capacity.get(),
        }
    }

    /// An empty bucket that is in no order yet.
    fn new_bucket(&mut self, uses: u32) -> Place {
        let bucket = Bucket {
            uses,
            blocks: List::new(),
        };
        if let Some(place) = self.free_buckets.pop() {
            self.buckets[place.to_usize()] = bucket;
            return place;
        }
        let place = Place(u32::try_from(self.buckets.len()).expect("fewer than blocks"));
        self.buckets.push(bucket);
        self.bucket_links.cover(place);
        place
    }

    /// The bucket of blocks with one use.
    fn first_bucket(&mut self) -> Place {
        match self.order.back(&self.bucket_links) {
            Some(fewest) if self.buckets[fewest.to_usize()].uses == 1 => fewest,
            _ => {
                let bucket = self.new_bucket(1);
                self.order.push_back(bucket, &mut self.bucket_links);
                bucket
            }
        }
    }

    /// The bucket of blocks with one use more than those of `bucket`.
    fn bucket_after(&mut self, bucket: Place) -> Place {
        // 2^32 uses of one block: it stays among the most used.
        let uses = self.buckets[bucket.to_usize()].uses.saturating_add(1);
        if self.buckets[bucket.to_usize()].uses == uses {
            return bucket;
        }
        if self.order.front() == Some(bucket) {
            let next = self.new_bucket(uses);
            self.order.push_front(next, &mut self.bucket_links);
            return next;
        }
        let next = List::newer(bucket, &self.bucket_links);
        if self.buckets[next.to_usize()].uses == uses {
            return next;
        }
        let between = self.new_bucket(uses);
        self.order
            .insert_newer(between, bucket, &mut self.bucket_links);
        between
    }

    fn put(&mut self, place: Place, bucket: Place) {
        self.table.nodes[place].tag = bucket.0;
        self.buckets[bucket.to_usize()]
            .blocks
            .push_front(place, &mut self.table.nodes);
    }

    /// Takes a block out of its bucket, which goes if it is empty then.
    fn take(&mut self, place: Place) {
        let bucket = Place(self.table.nodes[place].tag);
        let blocks = &mut self.buckets[bucket.to_usize()].blocks;
        blocks.remove(place, &mut self.table.nodes);
        if blocks.is_empty() {
            self.order.remove(bucket, &mut self.bucket_links);
            self.free_buckets.push(bucket);
        }
    }
}

impl<K: Key, I: Index<K>> Policy<K> for Lfu<K, I> {
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            let bucket = Place(self.table.nodes[place].tag);
            let next = self.bucket_after(bucket);
            if next == bucket {
                let blocks = &mut self.buckets[bucket.to_usize()].blocks;
                blocks.move_to_front(place, &mut self.table.nodes);
            } else {
                self.take(place);
                self.put(place, next);
            }
            return true;
        }
        if self.blocks == self.capacity {
            let fewest = self
                .order
                .back(&self.bucket_links)
                .expect("the cache is full");
            let victim = self.buckets[fewest.to_usize()]
                .blocks
                .back(&self.table.nodes);
            let victim = victim.expect("buckets are never empty");
            self.take(victim);
            evicted.push(self.table.release(victim));
        } else {
            self.blocks += 1;
        }
        let place = self.table.insert(key, 0);
        let bucket = self.first_bucket();
        self.put(place, bucket);
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        self.take(place);
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
}
