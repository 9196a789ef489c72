//! A cipher for worlds: it tells keys and blocks apart.

use block_io::BlockCipher;
use std::num::NonZeroU64;
use units::{BlockIndex, Prng};

/// A cipher that tells keys and blocks apart, and keeps no secret.
pub(crate) struct Toy(pub NonZeroU64);

impl Toy {
    fn mix(&self, block: BlockIndex, bytes: &mut [u8]) {
        let mut stream = Prng::new(self.0.get() << 32 | block.get());
        for word in bytes.chunks_exact_mut(8) {
            for (byte, key) in word.iter_mut().zip(stream.u64().to_le_bytes()) {
                *byte ^= key;
            }
        }
    }
}

impl BlockCipher for Toy {
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn tag(&self) -> NonZeroU64 {
        self.0
    }
}
