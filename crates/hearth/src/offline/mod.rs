//! Caches on flash that no daemon is using: making them and examining them.
//!
//! The flash is locked as a daemon would lock it, so neither happens under one. Examining
//! reads only, with code of its own rather than the cache's recovery, so that one checks the
//! other.

mod check;
mod format;
mod probe;
pub mod recover;
mod tables;

pub use check::{CheckReport, Checked, DataReport, DiskReport, check};
pub use format::{Formatted, Present, format, present};

use flash_format::FormatError;
use std::io;
use std::path::PathBuf;
use units::Bytes;

/// Why flash cannot be formatted or examined.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// It cannot be opened, or a daemon is using it.
    #[error(transparent)]
    Open(#[from] device::uring::OpenError),
    /// It cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// The flash.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is on it cannot be made sense of.
    #[error(transparent)]
    Unreadable(cache::OpenError),
    /// The memory of its daemon cannot be looked at.
    #[error(transparent)]
    Memory(#[from] device::retained::RetainedError),
    /// What was found cannot be written elsewhere.
    #[error(transparent)]
    Target(recover::TargetError),
    /// A cache cannot be made like this.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The file system has no room for a file of this size.
    #[error("{} of {size} does not fit: its file system has {free} free", path.display())]
    NoRoom {
        /// The flash.
        path: PathBuf,
        /// The size that was asked for.
        size: Bytes,
        /// What it may take, what the file has already included.
        free: Bytes,
    },
    /// It does not exist, and no size was given to make it.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The flash.
        path: PathBuf,
    },
    /// A block device has its size.
    #[error("{} is a block device of another size", path.display())]
    DeviceSize {
        /// The flash.
        path: PathBuf,
    },
}
