//! The NBD server: listeners and handshakes on tokio, the transmission phase on the shard.

mod census;
mod connection;
mod greetings;
mod identity;
mod intake;
mod listener;
mod negotiated;
mod outbox;
mod pipe;
mod psk;
mod server;
mod session;
mod slots;
mod tls;

pub use connection::{Connection, Incoming};
pub use identity::Identity;
pub use listener::{BindError, Listener, UnixSocket};
pub use nbd_protocol::server::{Found, Refusal};
pub use nbd_protocol::{Export, Terms};
pub use negotiated::{Admission, Negotiated, export};
pub use server::{Client, Exports, Listed, Server};
pub use slots::RequestKey;
pub use tls::{Tls, TlsError, TlsOffer};
