//! The name of a block among all disks of a cache.

use units::{BlockIndex, DiskSlot};

/// Names a block of any disk of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(u64);

impl Key {
    /// The name of this block.
    #[inline]
    pub const fn new(disk: DiskSlot, block: BlockIndex) -> Self {
        Self((disk.get() as u64) << BlockIndex::BITS | block.get())
    }

    /// Whose block it is.
    pub fn disk(self) -> DiskSlot {
        let disk = self.0 >> BlockIndex::BITS;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a key begins with a disk's 16 bits"
        )]
        DiskSlot::new(disk as u16)
    }

    /// Which block of its disk it is.
    pub const fn block(self) -> BlockIndex {
        BlockIndex::new(self.0 & ((1 << BlockIndex::BITS) - 1))
    }
}

impl From<Key> for u64 {
    fn from(key: Key) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_disk_and_block() {
        let (disk, block) = (
            DiskSlot::new(1023),
            BlockIndex::new((1 << BlockIndex::BITS) - 1),
        );
        let key = Key::new(disk, block);
        assert_eq!((key.disk(), key.block()), (disk, block));
        assert_eq!(u64::from(key) >> (BlockIndex::BITS + 10), 0);
    }
}
