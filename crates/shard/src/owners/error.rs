//! Why an owner's record cannot be read or written.

use origin::Identity;
use std::fmt;
use std::io;
use std::path::PathBuf;
use units::DiskId;

/// Why an owner's record cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The system refused.
    #[error("cannot {doing} the owner's record {}: {system}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        system: SystemError,
    },
    /// The thread that was to write it could not be started, or did not come to an end in time.
    #[error("the owner's record {} could not be written in time", path.display())]
    Late {
        /// Which file.
        path: PathBuf,
    },
    /// It is not what this program writes.
    #[error("the owner's record {} is damaged or of another version: it cannot be known whether a cache has bytes that the origin lacks", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
    },
    /// The origin is that of a disk with another identity, of which a cache may have bytes.
    #[error("the owner's record {} is open for the disk {disk}: cache '{cache_name}' on host '{host}' may have bytes of it that the origin lacks", path.display())]
    OtherDisk {
        /// Which file.
        path: PathBuf,
        /// The disk that it names.
        disk: DiskId,
        /// The cache that it names.
        cache_name: String,
        /// The host that it names.
        host: String,
    },
    /// A disk on the same origin is attached, here or on a host that shares the folder of records.
    #[error("the origin is in use: another disk or host holds the lock {}", path.display())]
    InUse {
        /// The lock.
        path: PathBuf,
    },
    /// Another host of the cluster has it attached.
    #[error("the disk is attached at '{host}', says the owner's record {}", path.display())]
    AttachedElsewhere {
        /// Where the record is.
        path: PathBuf,
        /// Which host.
        host: String,
    },
    /// The store of the cluster does not answer, and this host does not know of itself that it has the disk.
    #[error("another host may have the disk: the owner's record {} cannot be reached: {why}", path.display())]
    Unreached {
        /// Where the record is.
        path: PathBuf,
        /// What the store said.
        why: String,
    },
    /// The lock of a folder that hosts share is not ours any more.
    #[error("the lock {} was lost: another host may have the disk", path.display())]
    LockLost {
        /// The lock.
        path: PathBuf,
    },
    /// The record is open, and the origin is not the file that it was.
    #[error("the origin is another file ({now}) than the one ({then}) of which a cache may have bytes that it lacks, says the owner's record {}", path.display())]
    OtherFile {
        /// Which file.
        path: PathBuf,
        /// The file that it was.
        then: Identity,
        /// The file that it is.
        now: Identity,
    },
    /// Another cache has had the disk since.
    #[error("the owner's record {} names the cache '{cache_name}' on host '{host}' with epoch {epoch}, and is not replaced by an earlier one: the disk was served there meanwhile", path.display())]
    Superseded {
        /// Which file.
        path: PathBuf,
        /// Its epoch.
        epoch: u64,
        /// The cache that it names.
        cache_name: String,
        /// The host that it names.
        host: String,
    },
    /// A later record has been written meanwhile.
    #[error("a later owner's record has been written meanwhile")]
    Overtaken,
}

/// What the system said, with its number; unlike an [`io::Error`] it can be copied and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemError {
    kind: io::ErrorKind,
    errno: Option<i32>,
}

impl From<&io::Error> for SystemError {
    fn from(error: &io::Error) -> Self {
        Self {
            kind: error.kind(),
            errno: error.raw_os_error(),
        }
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}

impl std::error::Error for SystemError {}
