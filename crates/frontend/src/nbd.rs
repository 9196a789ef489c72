//! The NBD server: listeners and handshakes on tokio, the transmission phase on the shard.

mod connection;
mod intake;
mod negotiated;
mod outbox;
mod slots;

pub use connection::{Connection, Incoming, Verb};
pub use nbd_protocol::server::{Found, Refusal, TlsPolicy};
pub use nbd_protocol::{Export, Terms};
pub use negotiated::{Admission, Negotiated, export};
pub use slots::RequestKey;
