//! Whether the lock of a file on a share is still held.
//!
//! A server of NFS lets go of the locks of a host that was silent for a lease, 90 s as a rule; another host may have the
//! file then. The kernel of the silent host hears so when the server answers again, and fails what is read and written under
//! the lost lock with `EIO`. A server that has lost a sector says the same, so the file is opened once more, without a lock,
//! and read at the same place: if that succeeds, the lock is gone.

use block_io::{BufPool, PAGE_BYTES};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Why a lock is not known to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockFault {
    /// Another host may have written the file since.
    #[error("its server has let go of the file's lock")]
    Lost,
    /// The file system said this instead of an answer.
    #[error("the file's lock cannot be looked at: {0}")]
    Unknown(Errno),
}

/// The description of a file that was locked: the lock is held as long as this or another descriptor of it is open.
#[derive(Debug)]
pub(super) struct FileLock {
    file: OwnedFd,
    path: PathBuf,
    /// Its reads go around the host's page cache.
    is_direct: bool,
}

impl FileLock {
    /// # Errors
    /// If the process has no descriptor left.
    pub(super) fn of(file: &OwnedFd, path: &Path, is_direct: bool) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            file: rustix::io::fcntl_dupfd_cloexec(file, 0)?,
            path: path.to_owned(),
            is_direct,
        }))
    }

    fn check(&self) -> Result<(), LockFault> {
        if !self.is_direct {
            // What the page cache has does not ask the server.
            let _ = rustix::fs::fadvise(&self.file, 0, NonZeroU64::new(1), Advice::DontNeed);
        }
        let Err(error) = read_front(&self.file) else {
            return Ok(());
        };
        if !may_be_lock_loss(error) {
            return Err(LockFault::Unknown(error));
        }
        let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::DIRECT;
        let opened = rustix::fs::open(&self.path, flags, Mode::empty());
        match opened.and_then(|file| read_front(&file)) {
            Ok(()) => Err(LockFault::Lost),
            Err(_) => Err(LockFault::Unknown(error)),
        }
    }
}

/// Whether NFS says this of a file whose lock or handle is gone. It says some of these of other failures, too.
pub fn may_be_lock_loss(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::STALE | Errno::BADF | Errno::NOLCK)
}

/// Reads the first page. A shorter file has lost no lock.
fn read_front(file: impl AsFd) -> Result<(), Errno> {
    let mut page = BufPool::new().take(PAGE_BYTES);
    rustix::io::pread(file, &mut page[..], 0).map(drop)
}

/// Asks whether the lock of a file is still held, as long as its origin is open.
#[derive(Clone, Debug)]
pub struct LockWatch(Weak<FileLock>);

impl LockWatch {
    pub(super) fn on(lock: &Arc<FileLock>) -> Self {
        Self(Arc::downgrade(lock))
    }

    /// Whether the lock is still held; `None` if the origin was closed. May block for as long as the file system takes, and
    /// keeps the lock meanwhile.
    ///
    /// # Errors
    /// [`LockFault`].
    pub fn check(&self) -> Option<Result<(), LockFault>> {
        self.0.upgrade().map(|lock| lock.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;

    #[test]
    fn a_lock_is_watched_until_its_origin_is_closed_and_not_kept_by_the_watch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        let open = || OwnedFd::from(File::options().read(true).write(true).open(&path).unwrap());
        let file = open();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let lock = FileLock::of(&file, &path, false).unwrap();
        let watch = LockWatch::on(&lock);
        drop(file);
        assert_eq!(watch.check(), Some(Ok(())));
        let other = open();
        let taken = flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken, Err(Errno::WOULDBLOCK), "the origin has it");
        drop(lock);
        assert_eq!(watch.check(), None);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
