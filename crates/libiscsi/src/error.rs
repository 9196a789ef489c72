//! What goes wrong.

use crate::sense::Outcome;
use std::ffi::NulError;

/// What goes wrong with a session.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library is not there.
    #[error(
        "libiscsi cannot be used ({0}): install the package libiscsi7, or what has libiscsi.so there"
    )]
    Library(&'static str),
    /// The target cannot be reached, or does not let us in; the library's words.
    #[error("{0}")]
    Login(String),
    /// A command failed.
    #[error("{what}: {outcome}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// What the target said.
        outcome: Outcome,
    },
    /// The target answered what means nothing.
    #[error("{0}: the target's answer is too short")]
    Short(&'static str),
    /// The unit's blocks are none that a disk can have.
    #[error("its blocks have {0} bytes; 512, 1024, 2048 and 4096 can be used")]
    Blocks(u32),
    /// A text has a zero byte.
    #[error("a name with a zero byte")]
    Name(#[from] NulError),
}
