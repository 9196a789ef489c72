//! The lock of an origin, as whoever writes its owner's record has it.
//!
//! A file is locked itself, by whoever has it open. An NBD export or a device stands for nothing that two hosts could
//! lock: the lock is the one in the folder of owner's records that they share, and the origin itself is left alone, so
//! that a server which is away holds no record up.

use super::Error;
use origin::{Opened, OriginSpec};
use shard::{OwnerError, OwnerFile};

/// An origin's record, and its lock for as long as this lives.
pub(super) struct OriginLocked {
    file: OwnerFile,
    /// Of an origin that is locked by being open.
    _opened: Option<Opened>,
}

impl OriginLocked {
    /// Locks an origin whose record this is. May block.
    ///
    /// # Errors
    /// If another one has the lock, or it cannot be taken.
    pub(super) fn take(origin: &OriginSpec, mut file: OwnerFile) -> Result<Self, Error> {
        file.lock(false)?;
        Self::locked(origin, file)
    }

    /// A record whose lock is ours, and the lock of what is locked by being open.
    fn locked(origin: &OriginSpec, file: OwnerFile) -> Result<Self, Error> {
        if file.is_locked_apart() {
            return Ok(Self {
                file,
                _opened: None,
            });
        }
        let opened = origin::open(origin, false)?;
        Ok(Self {
            file: file.of_file(opened.identity()),
            _opened: Some(opened),
        })
    }

    /// The same, of an owner that is gone for good by an operator's word: in a cluster that one would have it for ever.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) fn take_from(
        gone: &str,
        origin: &OriginSpec,
        mut file: OwnerFile,
    ) -> Result<Self, Error> {
        match file.lock(false) {
            Err(OwnerError::AttachedElsewhere { host, .. }) if host == gone => {}
            locked => locked?,
        }
        Self::locked(origin, file)
    }

    /// The record.
    pub(super) fn file(&mut self) -> &mut OwnerFile {
        &mut self.file
    }
}
