//! Connections between hosts whose disks roam.
//!
//! ```text
//!   host a                                              host b
//!   Link ── dials, is dialed ──► TLS 1.3, both show a certificate ──► preface ──► Link
//!    │ send(peer, frame)                                                           │
//!    └─────────────────────────── frames, in their order ──────────────────────────┴─► Event::Said
//! ```
//!
//! There is one connection for each pair of hosts, whichever of both could reach the other. Each side dials; where
//! both succeed the connection that the lower [instance](link_protocol::Preface::instance) has dialed is kept. A connection that
//! is lost is dialed again for as long as the link is there.
//!
//! A peer is who its certificate says, signed by the authority of the configuration, and nobody else: neither an
//! address nor a name that it gives counts. Who is not among the peers is told nothing and gets no memory but for
//! the handshake.
//!
//! What frames mean is not known here: see `link_protocol`.

#![forbid(unsafe_code)]

mod connection;
mod error;
mod identity;
mod limits;
mod link;

pub use error::LinkError;
pub use identity::{Identity, IdentityError};
pub use limits::Times;
pub use link::{Event, Link, NotLinked, Peer, PeerId, PeerStatus};
