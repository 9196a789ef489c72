//! Keys in the world: which one a disk comes with, and a cipher that tells them apart.

use crate::host::Software;
use crate::settings::{Special, pick};
use crate::world::World;
use block_io::BlockCipher;
use cache::Committed;
use std::num::NonZeroU64;
use units::{BlockIndex, Prng};

impl World {
    /// How far the process knows its tables on flash to be durable.
    pub(crate) fn committed(&self) -> Option<Committed> {
        match &self.host.software {
            Software::Cache(cache) => cache.committed(),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    /// The host records how far the tables on flash are durable, if the flash lies.
    pub(crate) fn note_committed(&mut self) {
        if let (Special::Lying { .. }, Some(committed)) = (self.run.special(), self.committed()) {
            self.device.note_committed(committed);
        }
    }

    /// The key that a disk comes with: now and then another than it had.
    pub(crate) fn draw_key(&mut self, number: usize) -> Option<NonZeroU64> {
        let key = self.disks[number].key;
        if self.run.special() != Special::Commanded
            || self.run.is_last_life()
            || !self.run.one_in(4)
        {
            return key;
        }
        self.run.hit("key drawn");
        *pick(
            self.run.dice(),
            &[None, NonZeroU64::new(1), NonZeroU64::new(2)],
        )
    }
}

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
