//! The blocks of a sample and their LRU stack: what both forms of SHARDS and the miniature
//! simulations keep, and all that they keep.

use crate::number::real;
use crate::olken::Stack;
use units::Map;

/// A block, anywhere.
pub(crate) type Place = (u32, u64);

/// Small dense keys for sampled blocks. Keys of blocks that are let go are given out again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    of: Map<Place, u32>,
    free: Vec<u32>,
    given: u32,
}

impl Keys {
    /// The key of a block, and whether it is new.
    ///
    /// # Panics
    /// If 2^32 blocks have keys.
    pub(crate) fn key(&mut self, place: Place) -> (u32, bool) {
        let mut is_new = false;
        let key = *self.of.entry(place).or_insert_with(|| {
            is_new = true;
            self.free.pop().unwrap_or_else(|| {
                let key = self.given;
                self.given = key
                    .checked_add(1)
                    .expect("a sample of fewer than 2^32 blocks");
                key
            })
        });
        (key, is_new)
    }

    /// The key of a block that has one.
    pub(crate) fn get(&self, place: Place) -> Option<u32> {
        self.of.get(&place).copied()
    }

    /// Lets a block go.
    pub(crate) fn release(&mut self, place: Place) -> Option<u32> {
        let key = self.of.remove(&place)?;
        self.free.push(key);
        Some(key)
    }

    /// Blocks that have keys.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// Bytes of memory held, the map's control bytes included.
    pub(crate) fn bytes(&self) -> usize {
        self.of.allocation_size() + self.free.capacity() * size_of::<u32>()
    }
}

/// A sample's keys and stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) keys: Keys,
    pub(crate) stack: Stack,
}

impl Sample {
    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.stack.bytes()
    }
}

/// The cache size that a depth in a sample stands for: each sampled block stands for `1 / rate`.
pub(crate) fn scaled(depth: u32, rate: f64) -> u64 {
    crate::number::count_near(real(u64::from(depth)) / rate)
}
