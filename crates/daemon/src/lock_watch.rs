//! By what the lock of a disk is asked whether it is still held, wherever the lock is.

use origin::LockFault;
use shard::OwnerError;
use units::errors::chain;

/// By what a lock can be asked whether it is still held.
#[derive(Clone, Debug)]
pub(super) enum Watch {
    /// The lock that stands for the origin, beside its owner's record.
    Beside(shard::LockWatch),
    /// The lock of the origin, a file.
    OnFile(origin::LockWatch),
}

/// Why a lock is not known to be held, in words.
pub(super) enum NotHeld {
    Lost(String),
    Unknown(String),
}

impl Watch {
    /// Whether the lock is held; `None` if it was let go. May block.
    pub(super) fn check(&self) -> Option<Result<(), NotHeld>> {
        let held = match self {
            Self::Beside(lock) => lock.check()?.map_err(|error| match error {
                OwnerError::LockLost { .. } => NotHeld::Lost(error.to_string()),
                error => NotHeld::Unknown(chain(&error)),
            }),
            Self::OnFile(lock) => lock.check()?.map_err(|fault| match fault {
                LockFault::Lost => NotHeld::Lost(fault.to_string()),
                LockFault::Unknown(_) => NotHeld::Unknown(fault.to_string()),
            }),
        };
        Some(held)
    }

    /// Where the lock is, as people name it.
    pub(super) fn place(&self) -> &'static str {
        match self {
            Self::Beside(_) => "the folder owners_dir",
            Self::OnFile(_) => "the share of the disk's file",
        }
    }
}
