//! The lock that stands for an origin which cannot be locked itself, in a folder that hosts share.
//!
//! It can be lost without a word: a network file system lets go of it when this host was silent for a
//! lease, and whoever removes the file leaves us with a lock that nobody else meets. So it is asked for
//! again and again: the file has to be the one under that name, and to take a write.

use super::{OwnerError, text};
use origin::may_be_lock_loss;
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A lock as long as it lives, if it is not lost.
#[derive(Debug)]
pub(super) struct OriginLock {
    file: File,
    path: PathBuf,
    read_only: bool,
}

impl OriginLock {
    /// Takes the lock at `path`. Readers share it.
    pub(super) fn take(path: &Path, read_only: bool) -> Result<Self, OwnerError> {
        let failed = |error: &io::Error| OwnerError::Io {
            doing: "lock",
            path: path.to_owned(),
            system: error.into(),
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| failed(&error))?;
        let locked = if read_only {
            file.try_lock_shared()
        } else {
            file.try_lock()
        };
        let path = path.to_owned();
        match locked {
            Ok(()) => Ok(Self {
                file,
                path,
                read_only,
            }),
            Err(TryLockError::WouldBlock) => Err(OwnerError::InUse { path }),
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }

    /// Whether it is still held. May block for as long as the folder's file system takes.
    pub(super) fn check(&self) -> Result<(), OwnerError> {
        let lost = || OwnerError::LockLost {
            path: self.path.clone(),
        };
        let is_same = || {
            let (ours, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
            io::Result::Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        };
        match is_same() {
            Ok(true) => {}
            Ok(false) => return Err(lost()),
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_loss(&error) => {
                return Err(lost());
            }
            Err(error) => return Err(self.unknown(&error)),
        }
        match self.prove() {
            Ok(()) => Ok(()),
            Err(error) if is_loss(&error) => Err(lost()),
            // A full file system, or one that has become read-only, has not let go of the lock.
            Err(error) if is_refusal(&error) => Ok(()),
            Err(error) => Err(self.unknown(&error)),
        }
    }

    /// The folder's file system does not say.
    fn unknown(&self, error: &io::Error) -> OwnerError {
        OwnerError::Io {
            doing: "look at the lock of",
            path: self.path.clone(),
            system: error.into(),
        }
    }

    /// Writes who holds it: a server refuses that under a lock that it has let go.
    fn prove(&self) -> io::Result<()> {
        if self.read_only {
            // A hundred of them may hold it.
            return Ok(());
        }
        self.file
            .write_all_at((text::host() + "\n").as_bytes(), 0)?;
        self.file.sync_data()
    }
}

fn is_loss(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(may_be_lock_loss)
}

/// The file system answers, and takes no write.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem
    )
}

/// Asks whether a lock is still held, as long as somebody means to hold it.
#[derive(Clone, Debug)]
pub struct LockWatch(Weak<OriginLock>);

impl LockWatch {
    pub(super) fn on(lock: &Arc<OriginLock>) -> Self {
        Self(Arc::downgrade(lock))
    }

    /// Whether it is still held; `None` if it was let go. May block for as long as the folder's file
    /// system takes.
    ///
    /// # Errors
    /// [`OwnerError::LockLost`], or [`OwnerError::Io`] if it cannot be known.
    pub fn check(&self) -> Option<Result<(), OwnerError>> {
        self.0.upgrade().map(|lock| lock.check())
    }
}
