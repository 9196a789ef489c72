//! The NBD protocol without I/O: bytes in, bytes and events out.
//!
//! ```text
//!            handshake                          transmission
//!   server::Handshake  ⇄  client::Handshake     RequestHeader → Command   (server reads)
//!   pauses when it needs an export,             reply::*                  (server writes)
//!   TLS, or is done                             client::Replies           (client reads)
//! ```
//!
//! Both handshakes speak *fixed newstyle*: the server greets, the client haggles over options,
//! and one option (`GO`, or the old `EXPORT_NAME`) ends in transmission. Whoever owns the socket
//! feeds received bytes in, sends the bytes that come out, and does what an event asks for.
//!
//! All numbers on the wire are big-endian. Every length that a peer sends is checked against
//! [`limits`] before anything is kept for it, and no byte sequence makes this crate panic.

#![forbid(unsafe_code)]

pub mod client;
mod cursor;
mod errno;
mod export;
pub mod limits;
pub mod psk;
pub mod reply;
mod request;
pub mod server;
pub mod wire;

pub use errno::Errno;
pub use export::{BlockSizes, Export, TransmissionFlags};
pub use request::{Command, CommandFlags, Cookie, NotARequest, RequestHeader, Terms};
