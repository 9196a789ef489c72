//! Why an origin cannot be opened.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use units::Bytes;

/// Why an origin cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, device or server cannot be reached at all; it may be later.
    #[error("cannot reach origin {origin}")]
    Unreachable {
        /// The origin as its specification prints.
        origin: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open for writing; ours would be a second writer.
    #[error("origin {origin} is in use by {by}")]
    InUse {
        /// The origin as its specification prints.
        origin: String,
        /// By whom, as far as is known.
        by: Cow<'static, str>,
    },
    /// The server answered, and refuses or breaks the protocol.
    #[error("origin {origin} refused: {reason}")]
    Refused {
        /// The origin as its specification prints.
        origin: String,
        /// The server's words, or what was wrong with them.
        reason: String,
    },
    /// It has a size that no disk can have.
    #[error("origin {origin} is {size} long, which is not a positive multiple of {sector}")]
    Size {
        /// The origin as its specification prints.
        origin: String,
        /// Its size.
        size: Bytes,
        /// The unit it has to be a multiple of.
        sector: Bytes,
    },
    /// It cannot be remembered which changes are in flight, or known which were.
    #[error("cannot keep the record of changes in flight to origin {origin} in {}", path.display())]
    Record {
        /// The origin as its specification prints.
        origin: String,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is open for reading only and the disk is to be written.
    #[error("origin {origin} is read-only, the disk is not")]
    ReadOnly {
        /// The origin as its specification prints.
        origin: String,
    },
}
