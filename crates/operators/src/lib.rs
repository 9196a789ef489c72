//! Who may change something through the page of `[web]`.
//!
//! ```text
//!   hearth operator add NAME ─► Token, shown once ─► its SHA-256 in a line of the file
//!                                                          │ read again when the file has changed
//!   Authorization: Bearer TOKEN ─► SHA-256 ─► compared with each line ─► NAME, or a failed attempt ─► Failures
//!   a client's certificate ─► its names ─► `cert:NAME` of a line
//! ```
//!
//! A token has 256 bits of the system's random numbers. Nobody can guess one, so a plain hash of it keeps it secret: salt and
//! slow hashes protect passwords, which people choose. Invariants: a token is never kept or logged; a file that others may
//! write names no operators; a comparison takes the same time whichever byte differs.

#![forbid(unsafe_code)]

mod failures;
mod file;
mod roster;
mod token;
mod watched;

pub use failures::Failures;
pub use file::{FileError, OperatorsFile};
pub use roster::{Kind, Roster, RosterError};
pub use token::{Token, TokenHash};
pub use watched::Watched;
