//! What can go wrong, and how a command's outcome is told.

use crate::owners::OwnerError;
use crate::retirement::RecordError;
use block_io::IoError;
use cache::ControlError;
use device::uring::OpenError;
use frontend::FrontEnd;
use std::io;
use std::sync::Arc;
use tenancy::SettingsError;
use units::Bytes;

/// What is called with the outcome of a command.
pub type Reply<T> = Box<dyn FnOnce(Result<T, ShardError>) + Send>;

/// Why a shard could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The system has no thread or ring for it.
    #[error("cannot start the shard's thread and ring")]
    System(#[from] io::Error),
    /// Its name cannot be a file's.
    #[error("'{0}' is no name for a cache: use letters, digits, '-', '_' and '.'")]
    Name(String),
    /// What has to be remembered of the cache cannot be; without it stale flash could come
    /// back one day.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Another process uses the flash; serving without it would only hide that.
    #[error(transparent)]
    InUse(OpenError),
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShardError {
    /// The shard serves no such disk.
    #[error("no such disk is attached")]
    NoSuchDisk,
    /// The disk is attached, or is being so.
    #[error("the disk is attached already")]
    AlreadyAttached,
    /// The guest of a disk that roams has not evidently stopped, or has changed what was to go back.
    #[error("the disk's guest uses it")]
    InUse,
    /// Writes that were given up may still land at the origin of a disk that roams.
    #[error("writes that were given up may still land at the origin")]
    LateWrites,
    /// The disk is being detached.
    #[error("the disk is being detached")]
    Detaching,
    /// The disk has left, and what it was to bring to its origin first is on flash: another host may have the origin.
    #[error("its lock was lost meanwhile: what its origin lacks is kept on the flash")]
    FlushGivenUp,
    /// Another host asks for what this cache cannot lend.
    #[error(transparent)]
    NotLent(#[from] cache::NotLent),
    /// The origin is not as large as the disk was said to be.
    #[error("the origin has {found}, the disk is configured with {expected}")]
    Size {
        /// What the specification says.
        expected: Bytes,
        /// What the origin has.
        found: Bytes,
    },
    /// The disk has as many clients as it may have.
    #[error("the disk has {0} connections, as many as it may have")]
    TooManyConnections(usize),
    /// The cache's clients have all the memory that there is for connections.
    #[error("there is no memory for one more connection to this cache")]
    NoMemory,
    /// The disk has clients over another front end, and one is in use at a time.
    #[error("the disk is in use over {0}, and one front end is in use at a time")]
    OtherFrontEnd(FrontEnd),
    /// A shared disk is read by VMs, and the client does not say which it is.
    #[error("the disk is shared by VMs: say which VM it is")]
    WhichVm,
    /// A disk that is not shared has one VM.
    #[error("the disk is not shared: it has one VM, which need not be named")]
    NotShared,
    /// The cryptographic library has no cipher for it.
    #[error("the cryptographic library has no AES-256-XTS")]
    NoCipher,
    /// Settings that contradict each other, or those of others.
    #[error(transparent)]
    Settings(#[from] Arc<SettingsError>),
    /// The cache refused.
    #[error(transparent)]
    Cache(#[from] ControlError),
    /// Who has the disk cannot be recorded where its origin is.
    #[error("who has the disk cannot be recorded")]
    Owner(#[from] OwnerError),
    /// The operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The shard is stopping.
    #[error("the shard is stopping")]
    Stopping,
    /// The shard's thread has ended.
    #[error("the shard has ended")]
    Ended,
}
