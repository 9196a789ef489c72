//! Blocks that lie encrypted on flash, for disks that have a key.
//!
//! ```text
//!  guest's bytes ─► encrypted in the chunk ─► checksum of that ─► flash
//!  guest's bytes ◄─ decrypted ◄─────────────── verified ◄─────────┘
//! ```
//!
//! Checksums are of what lies on flash, so that recovery and reclaim need no key: what is moved is
//! moved as it lies. The tag of the key is in the disk's entry on flash: a block is never decrypted
//! by another key than it was encrypted by. A disk that comes with another key, with none, or with
//! its first one finds its blocks dropped; if the origin lacks some of them, it is refused.

use block_io::{BlockCipher, BufPool, PAGE_BYTES, Slice};
use units::{BlockIndex, DiskSlot};

/// The ciphers of the disks that have one.
#[derive(Default)]
pub struct Ciphers {
    by_slot: Vec<Option<Box<dyn BlockCipher>>>,
}

impl Ciphers {
    /// Whether a disk's blocks lie encrypted.
    #[inline]
    pub fn has(&self, disk: DiskSlot) -> bool {
        self.get(disk).is_some()
    }

    #[inline]
    pub(crate) fn get(&self, disk: DiskSlot) -> Option<&dyn BlockCipher> {
        self.by_slot.get(disk.index())?.as_deref()
    }

    /// By which cipher a disk's blocks are encrypted from now on; none for no longer.
    pub fn set(&mut self, disk: DiskSlot, cipher: Option<Box<dyn BlockCipher>>) {
        if self.by_slot.len() <= disk.index() {
            if cipher.is_none() {
                return;
            }
            self.by_slot.resize_with(disk.index() + 1, || None);
        }
        self.by_slot[disk.index()] = cipher;
    }

    /// Decrypts blocks that follow each other, from `first` on.
    #[inline]
    pub fn show(&self, disk: DiskSlot, first: BlockIndex, pages: &mut [u8]) {
        if let Some(cipher) = self.get(disk) {
            for (i, page) in (0..).zip(pages.chunks_exact_mut(PAGE_BYTES)) {
                cipher.decrypt(first.advance(i), page);
            }
        }
    }

    /// The bytes of a block that lies like this on flash.
    pub fn shown(&self, pool: &BufPool, disk: DiskSlot, block: BlockIndex, lies: Slice) -> Slice {
        let Some(cipher) = self.get(disk) else {
            return lies;
        };
        let mut page = pool.take(PAGE_BYTES);
        page[..PAGE_BYTES].copy_from_slice(&lies);
        cipher.decrypt(block, &mut page[..PAGE_BYTES]);
        page.freeze().slice(0..PAGE_BYTES)
    }
}
