//! The policies once more: slow, obvious, after the papers, and written apart from the product.
//!
//! Queues are vectors, oldest first; every search is a scan. What they share is only this trait.

mod adaptive;
mod queues;
mod simple;

pub(crate) use adaptive::{Arc, Lirs, WTinyLfu};
pub(crate) use queues::{Clock2QPlus, S3Fifo, Slru, TwoQ};
pub(crate) use simple::{Clock, Fifo, Lfu, Lru, Random, Sieve};

/// A policy's slow twin.
pub(crate) trait Model {
    /// True if it was in; who left is appended.
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool;
    /// True if it was in.
    fn remove(&mut self, key: u32) -> bool;
}

/// Takes `key` out of a queue; true if it was there.
pub(crate) fn take(queue: &mut Vec<u32>, key: u32) -> bool {
    let at = queue.iter().position(|other| *other == key);
    at.map(|at| queue.remove(at)).is_some()
}
