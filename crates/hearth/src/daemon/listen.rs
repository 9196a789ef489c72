//! What the daemon listens on: the admin socket, the metrics' address, the NBD server's sockets.

use super::settings;
use super::socket::SocketError;
use super::sockets::{Place, Sockets};
use crate::api::types::Listener;
use crate::config::{Config, DaemonConfig, NbdUri, NbdUriAddress, Switch};
use frontend::nbd::{self, BindError, TlsError, TlsOffer};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

/// Why the daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenError {
    /// A unix socket of ours.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A listener of the NBD server.
    #[error(transparent)]
    Nbd(#[from] BindError),
    /// Certificates or keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The metrics' address, or an inherited socket.
    #[error("cannot listen on {address}")]
    Io {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The admin socket, and its path.
pub(super) fn admin(
    daemon: &DaemonConfig,
    sockets: &Arc<Sockets>,
) -> Result<(UnixListener, Place), ListenError> {
    let path = &daemon.admin_socket;
    let mode = if daemon.admin_group.is_some() {
        0o660
    } else {
        0o600
    };
    let (listener, place) = sockets.unix(path, mode, daemon.admin_group.as_deref())?;
    let listener = UnixListener::from_std(listener).map_err(|source| ListenError::Io {
        address: path.display().to_string(),
        source,
    })?;
    Ok((listener, place))
}

/// The address that Prometheus asks, if there is one.
pub(super) async fn metrics(daemon: &DaemonConfig) -> Result<Option<TcpListener>, ListenError> {
    let Some(address) = daemon.metrics_address.0.as_ref() else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|source| ListenError::Io {
        address: address.to_string(),
        source,
    })
}

/// A listener of the NBD server, what it offers, and how it is shown.
pub(super) struct NbdListener {
    pub(super) listener: nbd::Listener,
    pub(super) offer: TlsOffer,
    pub(super) shown: Listener,
    /// Its path, if it has one.
    pub(super) place: Option<Place>,
}

/// The NBD server's listeners.
pub(super) async fn nbd(
    config: &Config,
    sockets: &Arc<Sockets>,
) -> Result<Vec<NbdListener>, ListenError> {
    let offer = settings::tls(&config.nbd)?;
    let mut listeners = Vec::new();
    if let Switch::On(path) = &config.nbd.unix_socket.0 {
        let offer = if config.nbd.tls.unix_socket {
            offer.clone()
        } else {
            TlsOffer::Off
        };
        let nbd = &config.nbd;
        let (mode, group) = (nbd.unix_socket_mode.0.get(), &nbd.unix_socket_group);
        let (listener, place) = sockets.unix(&path.0, mode, group.as_deref())?;
        let listener = nbd::Listener::of_unix(listener, &path.0)?;
        let shown = shown(unix_uri(&path.0), &offer);
        listeners.push(NbdListener {
            listener,
            offer,
            shown,
            place: Some(place),
        });
    }
    if let Switch::On(address) = &config.nbd.tcp_address.0 {
        let inherited = sockets.tcp(*address);
        let is_new = inherited.is_none();
        let listener = match inherited {
            Some(listener) => nbd::Listener::of_tcp(listener)?,
            None => nbd::Listener::tcp(*address).await?,
        };
        sockets.keep_tcp(*address, &listener, is_new);
        let bound = listener.address().parse().unwrap_or(*address);
        let shown = shown(tcp_uri(bound), &offer);
        listeners.push(NbdListener {
            listener,
            offer,
            shown,
            place: None,
        });
    }
    Ok(listeners)
}

fn shown(uri: NbdUriAddress, offer: &TlsOffer) -> Listener {
    Listener {
        address: NbdUri {
            address: uri,
            export: String::new(),
        }
        .to_string(),
        tls_required: matches!(offer, TlsOffer::Require(_)),
    }
}

fn unix_uri(path: &Path) -> NbdUriAddress {
    NbdUriAddress::Unix(path.to_owned())
}

fn tcp_uri(address: SocketAddr) -> NbdUriAddress {
    NbdUriAddress::Tcp {
        host: address.ip().to_string(),
        port: address.port(),
    }
}
