//! The secret of an anonymous trace, and what is made of it.

use sha2::{Digest as _, Sha256};

/// What a number is made for: no two uses can give the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Round = 1,
    Volume = 2,
    Vm = 3,
    Disk = 4,
    Image = 5,
    Content = 6,
}

/// A secret of 32 bytes. Whoever has it can find out which name and which address stands for a given one.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl Key {
    /// This secret.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// SHA-256 of the secret, the purpose and the text: the secret has a fixed length, and no digest is handed out whole
    /// but as another key.
    fn digest(&self, purpose: Purpose, text: &[u8]) -> [u8; 32] {
        let hash = Sha256::new()
            .chain_update(self.0)
            .chain_update([purpose as u8])
            .chain_update(text);
        hash.finalize().into()
    }

    /// A key of its own for a volume.
    pub(super) fn of_volume(&self, volume: &[u8]) -> Self {
        Self(self.digest(Purpose::Volume, volume))
    }

    /// Sixteen bytes that stand for a text.
    pub(super) fn bytes(&self, purpose: Purpose, text: &[u8]) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.digest(purpose, text)[..16]);
        bytes
    }

    /// A number that stands for a text.
    pub(super) fn number(&self, purpose: Purpose, text: &[u8]) -> u64 {
        let mut low = [0; 8];
        low.copy_from_slice(&self.digest(purpose, text)[..8]);
        u64::from_le_bytes(low)
    }
}
