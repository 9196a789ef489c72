//! `[disk.encryption]`: a disk whose blocks lie encrypted on flash.

use at_rest::KeySource;
use serde::{Deserialize, Serialize};

/// `[disk.encryption]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptionConfig {
    /// Where the key comes from that wraps the disk's data key: 32 bytes, or 64 hexadecimal digits.
    pub key: KeySource,
}
