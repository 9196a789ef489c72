//! What goes wrong.

use libc::c_int;
use std::ffi::NulError;
use std::io;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library is not there, or too old.
    #[error("librbd cannot be used ({0}): install the package librbd1")]
    Library(&'static str),
    /// The library refused.
    #[error("{what}: {source}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// The system's words for the library's number.
        source: io::Error,
    },
    /// A text has a zero byte.
    #[error("a name with a zero byte")]
    Name(#[from] NulError),
}

/// The outcome of a call that answers a negative number when it fails.
pub(crate) fn checked(what: &'static str, answer: c_int) -> Result<c_int, Error> {
    if answer >= 0 {
        return Ok(answer);
    }
    let source = io::Error::from_raw_os_error(answer.saturating_neg());
    Err(Error::Failed { what, source })
}
