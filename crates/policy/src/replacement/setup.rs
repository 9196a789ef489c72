//! What every policy is given when it is built.

use std::sync::Arc;

use super::limits::CAPACITY_BLOCKS_MAX;
use super::parameters::Fraction;

/// How many blocks a cache may hold: from 1 to [`CAPACITY_BLOCKS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity(u32);

/// A cache cannot hold so many blocks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cache holds from 1 to {CAPACITY_BLOCKS_MAX} blocks, not {0}")]
pub struct BadCapacity(pub u64);

impl Capacity {
    /// That many blocks.
    ///
    /// # Errors
    /// If it is 0 or beyond [`CAPACITY_BLOCKS_MAX`].
    pub fn new(blocks: u64) -> Result<Self, BadCapacity> {
        match u32::try_from(blocks) {
            Ok(blocks @ 1..=CAPACITY_BLOCKS_MAX) => Ok(Self(blocks)),
            _ => Err(BadCapacity(blocks)),
        }
    }

    /// The number of blocks.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// A part of it, rounded down.
    pub(super) fn part(self, fraction: Fraction) -> u32 {
        fraction.of(self.0)
    }
}

/// What every policy is given when it is built.
#[derive(Clone, Debug)]
pub struct Setup<I> {
    /// Blocks that may be in the cache.
    pub capacity: Capacity,
    /// An empty index.
    pub index: I,
    /// For a policy that knows the future ([`super::About::knows_future`]): for each access in order
    /// the number of the next one of the same block, counted from 0; `u32::MAX` if there is none.
    pub future: Option<Arc<[u32]>>,
}

impl<I> Setup<I> {
    /// For a policy that does not know the future.
    pub fn new(capacity: Capacity, index: I) -> Self {
        Self {
            capacity,
            index,
            future: None,
        }
    }
}
