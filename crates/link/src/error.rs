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

impl LinkError {
    /// What to do about it; `None` where the connection comes back by itself or nobody knows.
    pub fn remedy(&self) -> Option<&'static str> {
        let certificates = "see that each host's certificate names it as its peer does, has not expired, and is signed \
            by the other's link.authority";
        Some(match self {
            Self::Unreachable { .. } => {
                "see that the peer's daemon runs and that its link.address is the peer's address here"
            }
            Self::Tls(_) | Self::NoPeer => certificates,
            // What TLS has against the other side comes as data that is invalid.
            Self::Broken(error) if error.kind() == io::ErrorKind::InvalidData => certificates,
            Self::Preface(_) => {
                "see that the peer's address is its link.address, and no other service's"
            }
            Self::Version(_) => "upgrade the older one of both hosts",
            Self::Late | Self::Silent | Self::Broken(_) => {
                "see that the network between both hosts passes the port of the link"
            }
            Self::Violation(_) => {
                "see that both hosts run the same version of Hearth, and report it"
            }
            Self::Closed => "see that the peer's daemon runs, and what it logs of the link",
            Self::Replaced => return None,
        })
    }
}
