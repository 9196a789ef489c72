//! How an operation on a disk can fail, split by what the caller does next.

use std::io;

/// Why a flash, origin or guest operation failed.
///
/// Few kinds on purpose: each is a different thing to do next, and each maps to one NBD or
/// virtio error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum IoError {
    /// The medium or the far side failed this operation; trying again may help. `EIO`.
    #[error("input/output error")]
    Failed,
    /// No room is left for what was to be written. `ENOSPC`.
    #[error("no space left")]
    NoSpace,
    /// The disk is read-only or the far side forbids it. `EPERM`.
    #[error("not permitted")]
    NotPermitted,
    /// The request itself is wrong: out of bounds, unaligned, unsupported. `EINVAL`.
    #[error("invalid request")]
    Invalid,
    /// The far side is gone and what was in flight may or may not have happened. `EIO`.
    #[error("connection lost")]
    Disconnected,
    /// No answer within the time allowed; it may still happen. `ETIMEDOUT`.
    #[error("timed out")]
    TimedOut,
    /// We or the far side are shutting down. `ESHUTDOWN`.
    #[error("shutting down")]
    ShuttingDown,
}

impl IoError {
    /// The kind of an error of the operating system. What is not known to be something else
    /// is [`IoError::Failed`].
    pub fn of(error: &io::Error) -> Self {
        #[allow(
            clippy::wildcard_enum_match_arm,
            reason = "the standard library adds kinds"
        )]
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoSpace,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotPermitted
            }
            io::ErrorKind::InvalidInput => Self::Invalid,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Self::Disconnected,
            io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Failed,
        }
    }
}
