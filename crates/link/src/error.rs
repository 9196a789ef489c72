//! Why a connection is refused, or has ended.

use link_protocol::{NoCommonVersion, PrefaceError, Violation};
use std::io;

/// Why there is no connection, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer cannot be reached.
    #[error("{address} cannot be reached")]
    Unreachable {
        /// Its address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The TLS handshake failed: one side did not accept the other's certificate, or it is no TLS.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The certificate is valid, and names no peer.
    #[error("the certificate names none of the peers of the configuration")]
    NoPeer,
    /// It took too long.
    #[error("no answer in time")]
    Late,
    /// The other side does not speak the protocol.
    #[error(transparent)]
    Preface(#[from] PrefaceError),
    /// It speaks other versions of it.
    #[error(transparent)]
    Version(#[from] NoCommonVersion),
    /// It broke the protocol.
    #[error("the peer broke the protocol")]
    Violation(#[from] Violation),
    /// Nothing came from the peer for too long, or it takes nothing any more.
    #[error("the peer is silent")]
    Silent,
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The other of two connections to the peer is kept.
    #[error("there is another connection to the peer")]
    Replaced,
}
