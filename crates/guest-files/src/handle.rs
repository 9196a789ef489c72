//! The name of a file that outlives renames and boots.

use crate::limits::HANDLE_BYTES_MAX;
use std::fmt;

/// A file's handle, with the file system that it is of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The file system (`f_fsid`).
    file_system: u64,
    /// How the file system writes its handles.
    kind: i32,
    bytes: Box<[u8]>,
}

/// Bytes that are no handle: none, or more than the kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handle has 1 to {HANDLE_BYTES_MAX} bytes")]
pub struct NoHandle;

impl Handle {
    /// The handle that the kernel gave.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn new(file_system: u64, kind: i32, bytes: &[u8]) -> Result<Self, NoHandle> {
        let is_one = !bytes.is_empty() && bytes.len() <= HANDLE_BYTES_MAX;
        is_one
            .then(|| Self {
                file_system,
                kind,
                bytes: bytes.into(),
            })
            .ok_or(NoHandle)
    }

    /// The file system that it is of.
    pub fn file_system(&self) -> u64 {
        self.file_system
    }

    /// How the file system writes its handles.
    pub fn kind(&self) -> i32 {
        self.kind
    }

    pub(crate) fn length(&self) -> u16 {
        u16::try_from(self.bytes.len()).expect("128 at most")
    }

    /// What the file system wrote.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{}:", self.file_system, self.kind)?;
        self.bytes
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
