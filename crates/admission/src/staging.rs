//! What waits until it is known whether it deserves flash.
//!
//! Which blocks are staged, and how many, is the admission policy's decision; this is where they are.
//! The policy may forget a block that is here, never the other way round.

use policy::replacement::Key;
use units::Map;

/// Staged blocks.
pub(crate) struct Staging<K, W> {
    blocks: Map<K, W>,
}

impl<K, W> Default for Staging<K, W> {
    fn default() -> Self {
        Self {
            blocks: Map::default(),
        }
    }
}

impl<K: Key, W> Staging<K, W> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&W> {
        if self.blocks.is_empty() {
            return None;
        }
        self.blocks.get(&key)
    }

    /// # Panics
    /// If the block is staged already: then two different contents might pass for one.
    pub(crate) fn insert(&mut self, key: K, waits: W) {
        let previous = self.blocks.insert(key, waits);
        assert!(previous.is_none(), "a block is staged once");
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<W> {
        if self.blocks.is_empty() {
            return None;
        }
        self.blocks.remove(&key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.blocks.keys().copied()
    }

    /// Bytes of the table, without what its values point at.
    pub(crate) fn table_bytes(&self) -> usize {
        self.blocks.capacity() * (size_of::<(K, W)>() + 1)
    }
}
