//! The sockets: ours, or the ones that systemd holds for us.

use super::service::Inherited;
use super::settings;
use super::socket::{self, SocketError, SocketPath};
use crate::api::types::Listener;
use crate::config::{Config, DaemonConfig, NbdUri, NbdUriAddress, Switch};
use crate::system::{GroupError, group_id};
use frontend::nbd::{self, BindError, TlsError, TlsOffer, UnixSocket};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
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
    /// A group of the configuration.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The metrics' address, or an inherited socket.
    #[error("cannot listen on {address}")]
    Io {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The admin socket, and its path if that is ours to remove.
pub(super) fn admin(
    daemon: &DaemonConfig,
    inherited: &mut Inherited,
) -> Result<(UnixListener, Option<SocketPath>), ListenError> {
    let path = &daemon.admin_socket;
    let (listener, ours) = if let Some(listener) = inherited.unix(path) {
        (listener, None)
    } else {
        let mode = if daemon.admin_group.is_some() {
            0o660
        } else {
            0o600
        };
        let (listener, ours) = socket::listen(path, mode, daemon.admin_group.as_deref())?;
        (listener, Some(ours))
    };
    let failed = |source| ListenError::Io {
        address: path.display().to_string(),
        source,
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    Ok((listener, ours))
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
}

/// The NBD server's listeners.
pub(super) async fn nbd(
    config: &Config,
    inherited: &mut Inherited,
) -> Result<Vec<NbdListener>, ListenError> {
    let offer = settings::tls(&config.nbd)?;
    let mut listeners = Vec::new();
    if let Switch::On(path) = &config.nbd.unix_socket.0 {
        let offer = if config.nbd.tls.unix_socket {
            offer.clone()
        } else {
            TlsOffer::Off
        };
        let listener = match inherited.unix(&path.0) {
            Some(listener) => nbd::Listener::inherited(listener)?,
            None => nbd::Listener::unix(&UnixSocket {
                path: path.0.clone(),
                mode: config.nbd.unix_socket_mode.0.get(),
                group: config
                    .nbd
                    .unix_socket_group
                    .as_deref()
                    .map(group_id)
                    .transpose()?,
            })?,
        };
        let shown = shown(unix_uri(&path.0), &offer);
        listeners.push(NbdListener {
            listener,
            offer,
            shown,
        });
    }
    if let Switch::On(address) = &config.nbd.tcp_address.0 {
        let listener = nbd::Listener::tcp(*address).await?;
        let bound = listener.address().parse().unwrap_or(*address);
        let shown = shown(tcp_uri(bound), &offer);
        listeners.push(NbdListener {
            listener,
            offer,
            shown,
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
