//! Keys of disks that are about to be attached.

use super::Cache;
use block_io::BlockCipher;
use units::DiskId;

impl Cache {
    /// Gives a disk that is about to be attached its cipher: from its next attach to the detach
    /// after it its blocks are encrypted on flash. Given again it takes the former one's place;
    /// `None` takes it back.
    pub fn set_cipher(&mut self, disk: DiskId, cipher: Option<Box<dyn BlockCipher>>) {
        match cipher {
            Some(cipher) => self.coming_ciphers.insert(disk, cipher),
            None => self.coming_ciphers.remove(&disk),
        };
    }
}
