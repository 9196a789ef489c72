//! The data keys of this host's disks, each wrapped by the operator's key, a file each.
//!
//! A file is made once and never changed but by [`KeyStore::rewrap`], which replaces it whole.
//! Whoever erases it has made the disk's blocks on flash unreadable.

use crate::cipher::DataKey;
use crate::hex::{from_hex, to_hex};
use durable_file::Readers;
use openssl::aes::{AesKey, unwrap_key, wrap_key};
use openssl::error::ErrorStack;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use units::DiskId;

const VERSION: u32 = 1;
/// What RFC 3394 adds to what it wraps.
const WRAPPED_BYTES: usize = DataKey::BYTES + 8;

/// The operator's key: AES-256, wraps data keys. Wiped when it is dropped.
pub struct WrappingKey([u8; Self::BYTES]);

impl WrappingKey {
    /// Bytes of the key.
    pub const BYTES: usize = 32;

    /// The key of these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    #[cfg(test)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey(..)")
    }
}

impl Drop for WrappingKey {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// Why a data key could not be had, kept or erased.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written.
    #[error("cannot {doing} the data key {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not one of ours.
    #[error(
        "{} is not a data key that this version writes: restore it from a backup, or detach the \
         disk with --erase and lose what is cached of it",
        path.display()
    )]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// It was wrapped by another key.
    #[error(
        "the key that was given does not open the data key {}: give the key with which the disk \
         was first attached, or detach it with --erase and lose what is cached of it",
        path.display()
    )]
    WrongKey {
        /// Which file.
        path: PathBuf,
    },
    /// The library failed.
    #[error("the cryptographic library failed")]
    Library(#[from] ErrorStack),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    disk: String,
    /// The wrapped key in hexadecimal.
    wrapped: String,
}

/// The folder of wrapped data keys.
#[derive(Clone, Debug)]
pub struct KeyStore {
    dir: PathBuf,
}

impl KeyStore {
    /// The store in this folder, which is made when the first key is.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn path(&self, disk: DiskId) -> PathBuf {
        self.dir.join(format!("{disk}.json"))
    }

    /// Whether the disk has a data key here.
    pub fn has(&self, disk: DiskId) -> bool {
        self.path(disk).exists()
    }

    /// The data key of a disk; a new one, durably stored, if it has none.
    ///
    /// # Errors
    /// [`StoreError`]. A key that cannot be opened is left as it is.
    pub fn open(&self, disk: DiskId, with: &WrappingKey) -> Result<DataKey, StoreError> {
        match std::fs::read(self.path(disk)) {
            Ok(bytes) => self.unwrap(disk, &bytes, with),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = DataKey::draw()?;
                self.put(disk, &key, with)?;
                Ok(key)
            }
            Err(source) => Err(StoreError::Io {
                doing: "read",
                path: self.path(disk),
                source,
            }),
        }
    }

    /// Wraps a disk's data key by another key of the operator's.
    ///
    /// # Errors
    /// [`StoreError`]; then the old one still opens it.
    pub fn rewrap(
        &self,
        disk: DiskId,
        old: &WrappingKey,
        new: &WrappingKey,
    ) -> Result<(), StoreError> {
        let key = self.open(disk, old)?;
        self.put(disk, &key, new)
    }

    /// Erases a disk's data key: what is on flash of it can be read by nobody any more. True if
    /// there was one.
    ///
    /// # Errors
    /// [`StoreError::Io`]; then the key may still be there.
    pub fn erase(&self, disk: DiskId) -> Result<bool, StoreError> {
        let path = self.path(disk);
        let failed = |source| StoreError::Io {
            doing: "erase",
            path: path.clone(),
            source,
        };
        let length = match std::fs::metadata(&path) {
            Ok(about) => about.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        // Its bytes first: what a file system keeps of a file that is gone is its own affair.
        let zeroes = vec![0; usize::try_from(length).unwrap_or(0).min(WRAPPED_BYTES * 8)];
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|mut file| {
            file.write_all(&zeroes)?;
            file.sync_all()
        })
        .map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        durable_file::sync_folder_of(&path).map_err(failed)?;
        Ok(true)
    }

    fn unwrap(
        &self,
        disk: DiskId,
        stored: &[u8],
        with: &WrappingKey,
    ) -> Result<DataKey, StoreError> {
        let path = self.path(disk);
        let foreign = || StoreError::Foreign { path: path.clone() };
        let stored: Stored = serde_json::from_slice(stored).map_err(|_| foreign())?;
        if stored.version != VERSION || stored.disk != disk.to_string() {
            return Err(foreign());
        }
        let wrapped = from_hex::<WRAPPED_BYTES>(stored.wrapped.as_bytes()).ok_or_else(foreign)?;
        let unwrapping = AesKey::new_decrypt(&with.0).map_err(|_| foreign())?;
        let mut key = DataKey([0; DataKey::BYTES]);
        match unwrap_key(&unwrapping, None, &mut key.0, &wrapped) {
            Ok(DataKey::BYTES) => Ok(key),
            Ok(_) | Err(_) => Err(StoreError::WrongKey { path }),
        }
    }

    fn put(&self, disk: DiskId, key: &DataKey, with: &WrappingKey) -> Result<(), StoreError> {
        let path = self.path(disk);
        let failed = |source| StoreError::Io {
            doing: "store",
            path: path.clone(),
            source,
        };
        let wrapping =
            AesKey::new_encrypt(&with.0).map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut wrapped = [0; WRAPPED_BYTES];
        wrap_key(&wrapping, None, &mut wrapped, &key.0)
            .map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
        let stored = Stored {
            version: VERSION,
            disk: disk.to_string(),
            wrapped: to_hex(&wrapped),
        };
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| failed(error.into()))?;
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        durable_file::replace(&path, Readers::Owner, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskId = DiskId::from_u128(5);

    fn key(byte: u8) -> WrappingKey {
        WrappingKey::new([byte; 32])
    }

    #[test]
    fn a_key_is_made_once_and_opened_by_the_same_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path().join("keys"));
        assert!(!store.has(DISK));
        let made = store.open(DISK, &key(1)).unwrap();
        assert!(store.has(DISK));
        assert_eq!(store.open(DISK, &key(1)).unwrap().0, made.0);
        let other = store.open(DISK, &key(2));
        assert!(matches!(other, Err(StoreError::WrongKey { .. })));
        let another = store.open(DiskId::from_u128(6), &key(1)).unwrap();
        assert_ne!(another.0, made.0, "each disk has its own");
    }

    #[test]
    fn the_file_has_not_the_key_and_is_its_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path());
        let made = store.open(DISK, &key(1)).unwrap();
        let path = store.path(DISK);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&to_hex(&made.0)[..16]));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn another_operators_key_takes_over() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path());
        let made = store.open(DISK, &key(1)).unwrap();
        store.rewrap(DISK, &key(1), &key(2)).unwrap();
        assert_eq!(store.open(DISK, &key(2)).unwrap().0, made.0);
        assert!(store.open(DISK, &key(1)).is_err());
        assert!(store.rewrap(DISK, &key(1), &key(3)).is_err());
    }

    #[test]
    fn an_erased_key_is_gone_and_the_next_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path());
        let made = store.open(DISK, &key(1)).unwrap();
        assert!(store.erase(DISK).unwrap());
        assert!(!store.erase(DISK).unwrap());
        assert_ne!(store.open(DISK, &key(1)).unwrap().0, made.0);
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path());
        store.open(DISK, &key(1)).unwrap();
        let whole = std::fs::read_to_string(store.path(DISK)).unwrap();
        let others = whole.replace(&DISK.to_string(), &DiskId::from_u128(6).to_string());
        for text in [
            "",
            "{}",
            &whole[..40],
            &whole.replace("\": 1", "\": 9"),
            &others,
        ] {
            std::fs::write(store.path(DISK), text).unwrap();
            let refused = store.open(DISK, &key(1));
            assert!(matches!(refused, Err(StoreError::Foreign { .. })), "{text}");
            assert_eq!(std::fs::read_to_string(store.path(DISK)).unwrap(), text);
        }
    }
}
