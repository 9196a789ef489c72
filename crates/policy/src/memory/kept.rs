//! A replacement policy as it is: every block that is read has a frame.

use super::Hot;
use crate::replacement::{Hashed, Key, Policy};
use crate::replacement::{lru::Lru, s3_fifo::S3Fifo, w_tiny_lfu::WTinyLfu};
use units::Bytes;

/// A policy whose memory is known.
pub(super) trait Counted<K: Key>: Policy<K> + Send {
    /// Bytes of memory that it holds.
    fn bytes(&self) -> usize;
}

impl<K: Key> Counted<K> for Lru<K, Hashed<K>> {
    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl<K: Key> Counted<K> for S3Fifo<K, Hashed<K>> {
    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl<K: Key> Counted<K> for WTinyLfu<K, Hashed<K>> {
    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
}

/// It keeps what is read.
pub(super) struct Kept<P>(pub(super) P);

impl<K: Key, P: Counted<K>> Hot<K> for Kept<P> {
    fn read(&mut self, key: K, left: &mut Vec<K>) -> bool {
        let had_frame = self.0.access(key, left);
        assert!(!had_frame, "a block with a frame is hit");
        true
    }

    fn hit(&mut self, key: K) {
        let has_frame = self.0.access(key, &mut Nobody);
        assert!(has_frame, "a block without a frame is read");
    }

    fn restore(&mut self, key: K, left: &mut Vec<K>) {
        self.read(key, left);
    }

    fn remove(&mut self, key: K) {
        self.0.remove(key);
    }

    fn len(&self) -> u32 {
        self.0.blocks()
    }

    fn memory(&self) -> Bytes {
        Bytes::new(self.0.bytes() as u64)
    }
}

/// A hit evicts nobody.
struct Nobody;

impl<K> crate::replacement::Evicted<K> for Nobody {
    fn push(&mut self, _key: K) {
        panic!("nobody leaves for a block that has a frame");
    }
}
