//! What a VM attaches to over NBD, and the words that every front end shares with its disk:
//! [`Incoming`], [`Verb`], [`RequestKey`]. The other front end is the crate `vhost-user`.
//!
//! ```text
//!  client ── unix, TCP ──► nbd::Server          on tokio: accept, limits, handshake, TLS
//!                              │ nbd::Negotiated (a plain socket, after NBD_OPT_GO)
//!                              ▼
//!                          nbd::Connection      on the shard's thread and ring: the hot path
//!                              │ Incoming          ▲ reply()
//!                              ▼                   │
//!                          whatever the shard serves a disk with
//! ```
//!
//! This crate knows nothing of caches: it turns bytes into requests that are within the
//! export's terms and results into bytes.

pub mod budget;
pub mod limits;
pub mod nbd;

pub use block_io::Verb;
pub use nbd::{Incoming, RequestKey};
