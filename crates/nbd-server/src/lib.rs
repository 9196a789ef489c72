//! What a VM attaches to over NBD: a front end, beside `vhost-user`.
//!
//! ```text
//!  client ── unix, TCP ──► Server          on tokio: accept, limits, handshake, TLS
//!                            │ Negotiated (a plain socket, after NBD_OPT_GO)
//!                            ▼
//!                          Connection      on the shard's thread and ring: the hot path
//!                            │ Incoming          ▲ reply()
//!                            ▼                   │
//!                          whatever the shard serves a disk with
//! ```
//!
//! This crate knows nothing of caches: it turns bytes into requests that are within the
//! export's terms and results into bytes.

mod census;
mod connection;
mod exports;
mod front_end;
mod greetings;
mod identity;
mod intake;
pub mod limits;
mod listener;
mod negotiated;
mod outbox;
mod parting;
mod pipe;
mod psk;
mod server;
mod session;
mod tls;
mod tls_error;

pub use connection::Connection;
pub use exports::{Client, Exports, Listed};
pub use front_end::FRONT_END;
pub use identity::Identity;
pub use listener::{BindError, Listener, UnixSocket};
pub use nbd_protocol::server::{Found, Refusal};
pub use nbd_protocol::{Export, Terms};
pub use negotiated::{Admission, Negotiated, export};
pub use server::Server;
pub use tls::{Tls, TlsOffer, read_certificates};
pub use tls_error::TlsError;
