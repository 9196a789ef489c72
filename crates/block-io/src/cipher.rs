//! What hides a disk's blocks on flash.

use std::num::NonZeroU64;
use units::BlockIndex;

/// Encrypts a disk's blocks on their way to flash and decrypts them on their way back, each by
/// its number on the disk, so that a block that is moved on flash is moved as it lies.
///
/// Both work in place on [`crate::PAGE_BYTES`] bytes and cannot fail.
pub trait BlockCipher: Send {
    /// Encrypts the bytes of a block.
    ///
    /// # Panics
    /// If they are not a whole block.
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]);

    /// Decrypts them.
    ///
    /// # Panics
    /// If they are not a whole block.
    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]);

    /// A number that tells keys apart and says nothing of them. It is kept with the disk on flash,
    /// so that no block is ever decrypted by another disk's or a former key.
    fn tag(&self) -> NonZeroU64;
}
