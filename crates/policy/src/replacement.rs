//! Replacement in place: which block leaves when another one comes in.
//!
//! ```text
//!   "2q:kin=0.25"  ── Spec::parse ──►  Spec  ── build(Setup) ──►  Box<dyn Replacement<K>>
//!                                                                  │ access, run, remove
//!   a policy's file:  impl Policy<K> for TwoQ<K, I>                ▼
//!      Table<K, I>  key ──I: Index──► Place ──► node { key, links, tag }
//!      List         queues through the nodes, newest in front
//! ```
//!
//! All blocks are of one size. A policy is one file: its paper, its queues, its own `Config` and an
//! implementation of [`Policy`]; one line in `registry.rs` gives it a name. It reaches its blocks
//! through an [`Index`], a type parameter: [`Dense`] where keys are numbers from 0 upwards (the
//! simulator's), [`Hashed`] for any other. What is decided does not depend on which.
//!
//! Every policy here admits what it is asked for: after [`Replacement::access`] the block is in the
//! cache. So none of them can have more hits than [`belady`].
pub mod arc;
pub mod belady;
pub mod clock;
pub mod clock2q_plus;
pub mod fifo;
pub mod lfu;
pub mod lirs;
pub mod lru;
pub mod random;
pub mod s3_fifo;
pub mod sieve;
pub mod slru;
pub mod t_clock;
pub mod tags;
pub mod two_q;
pub mod w_tiny_lfu;

pub mod limits;

mod index;
pub(crate) mod list;
mod parameters;
mod registry;
mod setup;
pub(crate) mod sketch;
mod spec;
mod table;

pub use index::{Dense, Hashed, Index, Place};
pub use parameters::{About, BadValue, Fraction, Parameter, Settings, parse_count};
pub use registry::Spec;
pub use setup::{BadCapacity, Capacity, Setup};
pub use spec::{SpecError, nearest, split_list};

use std::hash::Hash;

/// What names a block: small, copied, compared.
pub trait Key: Copy + Eq + Hash + Send + 'static {}

impl<K: Copy + Eq + Hash + Send + 'static> Key for K {}

/// Where a policy says which blocks had to leave.
pub trait Evicted<K> {
    /// `key` left the cache.
    fn push(&mut self, key: K);
}

impl<K> Evicted<K> for Vec<K> {
    fn push(&mut self, key: K) {
        Self::push(self, key);
    }
}

/// Nobody asks who left.
pub(crate) struct Unasked;

impl<K> Evicted<K> for Unasked {
    fn push(&mut self, _key: K) {}
}

/// What a policy's file implements. [`Replacement`] follows from it, so that a run over a batch of
/// keys is compiled for the policy as one loop.
pub trait Policy<K: Key> {
    /// See [`Replacement::access`].
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool;

    /// See [`Replacement::remove`].
    fn remove(&mut self, key: K) -> bool;

    /// See [`Replacement::contains`].
    fn contains(&self, key: K) -> bool;

    /// See [`Replacement::len`].
    fn blocks(&self) -> u32;

    /// See [`Replacement::capacity`].
    fn capacity(&self) -> u32;

    /// See [`Replacement::pass`].
    fn pass(&mut self) {}
}

/// A policy at work, for those who choose it at run time. One owner, no threads.
///
/// For a policy that knows the future each key of [`Self::access`] and [`Self::run`] and each
/// [`Self::pass`] is one step of it; [`Self::remove`] is none.
pub trait Replacement<K> {
    /// The block is read or written. True if it was in the cache. If it was not it is now, and what
    /// left for it, one block at most once the cache is full, is appended to `evicted`: never `key`.
    fn access(&mut self, key: K, evicted: &mut Vec<K>) -> bool;

    /// Accesses all `keys` in order and sets each one's place in `hits` to 1 if it was in the cache,
    /// to 0 if not. The same as so many calls of [`Self::access`], faster.
    ///
    /// # Panics
    /// If `hits` is not as long as `keys`.
    fn run(&mut self, keys: &[K], hits: &mut [u8]);

    /// The block is no longer wanted (discard, write-around): it leaves, and all that the policy
    /// remembers of it. True if it was in the cache.
    fn remove(&mut self, key: K) -> bool;

    /// Whether the block is in the cache. Ghosts are not.
    fn contains(&self, key: K) -> bool;

    /// How many blocks are in the cache.
    fn len(&self) -> u32;

    /// True before the first access and after the last removal.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many blocks may be in the cache.
    fn capacity(&self) -> u32;

    /// One access goes by without the cache: a step of the future, if the policy knows it.
    fn pass(&mut self);
}

impl<K: Key, P: Policy<K>> Replacement<K> for P {
    fn access(&mut self, key: K, evicted: &mut Vec<K>) -> bool {
        Policy::access(self, key, evicted)
    }

    fn run(&mut self, keys: &[K], hits: &mut [u8]) {
        assert_eq!(keys.len(), hits.len());
        for (key, hit) in keys.iter().zip(hits) {
            *hit = u8::from(Policy::access(self, *key, &mut Unasked));
        }
    }

    fn remove(&mut self, key: K) -> bool {
        Policy::remove(self, key)
    }

    fn contains(&self, key: K) -> bool {
        Policy::contains(self, key)
    }

    fn len(&self) -> u32 {
        Policy::blocks(self)
    }

    fn capacity(&self) -> u32 {
        Policy::capacity(self)
    }

    fn pass(&mut self) {
        Policy::pass(self);
    }
}
