//! Logical units of iSCSI targets (RFC 7143) by libiscsi, which is loaded when the first is opened.
//!
//! ```text
//!  any thread:    Session::login ─► command (inquiry, capacity, reservations), reset ─► Session
//!  one thread:    session.start() ─► Running ─ submit ─► socket ═══ target
//!                                       ▲                  │
//!                                       └── service ◄──────┘ whoever has it polls the socket
//! ```
//!
//! What a [`Session`] does blocks; what [`Running`] does never blocks. The library's own reconnection is off: a connection that is
//! lost stays lost, and each command that was under way ends as such. Commands are built here ([`cdb`]); the library carries them.

pub mod cdb;
mod context;
mod error;
mod library;
mod running;
mod sense;
mod session;

pub use error::Error;
pub use running::{Command, Data, Ended, Running};
pub use sense::{Outcome, Sense};
pub use session::{Credentials, Session, Target};
