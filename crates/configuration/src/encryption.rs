//! `[disk.encryption]`: a disk whose blocks lie encrypted on flash.

use at_rest::KeySource;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[disk.encryption]`. Without a key the disk's blocks lie on flash as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncryptionConfig {
    /// A file that has the key.
    pub key_file: Option<PathBuf>,
    /// A credential of the service that is the key, by its name.
    pub key_credential: Option<String>,
    /// A program and its arguments; what it prints is the key.
    pub key_command: Option<Vec<String>>,
}

impl EncryptionConfig {
    /// Where the key comes from, if there is one.
    pub fn source(&self) -> Option<KeySource> {
        let file = self.key_file.clone().map(KeySource::File);
        let credential = || self.key_credential.clone().map(KeySource::Credential);
        let command = || self.key_command.clone().map(KeySource::Command);
        file.or_else(credential).or_else(command)
    }

    /// How many places for the key are named.
    pub(super) fn sources(&self) -> usize {
        let named = [
            self.key_file.is_some(),
            self.key_credential.is_some(),
            self.key_command.is_some(),
        ];
        named.into_iter().filter(|named| *named).count()
    }
}
