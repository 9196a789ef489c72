//! Blocks whose bytes wait in memory until it is known whether they deserve flash.
//!
//! ```text
//!   fill or write ─► verdict Stage ─► staged ─┬─ read again ─► served from memory
//!                                             ├─ verdict Admit ─► appended to the log
//!                                             ├─ left the policy ─► gone
//!                                             └─ written, erased, dropped ─► gone
//! ```
//!
//! Which blocks are staged, and how many, is the admission policy's decision; this is where the
//! bytes are. The policy may forget a block that is here, never the other way round.
//!
//! **A staged copy equals the origin's, or is gone**: the same rule as for a fill that is
//! admitted, kept in the same places. A block is staged when its fill has come and nothing was
//! written to it meanwhile, or when the origin has acknowledged all of it and nothing else was
//! written to it meanwhile. It leaves the moment a change to it arrives. A block that is staged
//! is not in the index, and no fill that could be admitted brings it.
//!
//! Each block has a buffer of its own: a slice of the fill's would pin up to 1 MiB.

use crate::admission::Key;
use block_io::{BufPool, PAGE_BYTES, Slice};
use units::{Bytes, DiskSlot, Map};

/// Staged blocks. See the module's header.
#[derive(Default)]
pub(crate) struct Staging {
    blocks: Map<Key, Slice>,
}

impl Staging {
    /// Whether nothing is staged.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many blocks are staged.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of a block.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Slice> {
        if self.blocks.is_empty() {
            return None;
        }
        self.blocks.get(&key)
    }

    /// Whether a block is staged.
    #[inline]
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Stages a copy of a block.
    ///
    /// # Panics
    /// If it is staged already: then two different contents might pass for one.
    pub(crate) fn insert(&mut self, key: Key, bytes: &[u8], pool: &BufPool) {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are staged whole");
        let previous = self.blocks.insert(key, pool.copy_of(bytes));
        assert!(previous.is_none(), "a block is staged once");
    }

    /// Takes a block out.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<Slice> {
        if self.blocks.is_empty() {
            return None;
        }
        self.blocks.remove(&key)
    }

    /// The blocks of a disk, in order.
    pub(crate) fn of_disk(&self, disk: DiskSlot) -> Vec<Key> {
        let keys = self.blocks.keys().copied();
        let mut keys: Vec<Key> = keys.filter(|key| key.disk() == disk).collect();
        keys.sort_unstable();
        keys
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> Bytes {
        let table = self.blocks.capacity() * (size_of::<(Key, Slice)>() + 1);
        let blocks = self.blocks.len() * PAGE_BYTES;
        Bytes::new((table + blocks) as u64)
    }
}
