//! What the daemon listens on: the admin socket, the metrics' address, the NBD server's sockets.

use super::error::ServeError;
use super::settings;
use super::socket::SocketError;
use super::sockets::{Place, Sockets};
use api::types::Listener;
use configuration::{Address, Config, DaemonConfig, NbdUri, NbdUriAddress, Switch};
use nbd_server::{self as nbd, BindError, TlsError, TlsOffer};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// The first pause before an address for operators that cannot be had is tried again; each doubles.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Why the daemon cannot listen where a key of the configuration says.
#[derive(Debug, thiserror::Error)]
#[error("{key}")]
pub(super) struct ListenError {
    key: &'static str,
    #[source]
    cause: Cause,
}

impl ListenError {
    /// The error, and what to do about it.
    pub(super) fn told(&self) -> ServeError {
        let error = ServeError::failed(self);
        match self.remedy() {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }

    fn remedy(&self) -> Option<String> {
        let key = self.key;
        let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        match &self.cause {
            Cause::Socket(SocketError::InUse { .. }) | Cause::Nbd(BindError::InUse { .. }) => Some(
                format!("stop the daemon that runs already, or give {key} another path"),
            ),
            Cause::Socket(SocketError::NotASocket { .. })
            | Cause::Nbd(BindError::NotASocket { .. }) => {
                Some(format!("move the file away, or give {key} another path"))
            }
            Cause::Io { source, .. } | Cause::Nbd(BindError::Refused { source, .. })
                if in_use(source) =>
            {
                Some(format!(
                    "ss -ltnp tells who listens there; stop that, or give {key} another port"
                ))
            }
            _ => None,
        }
    }
}

/// Names the key that says where to listen.
fn at<E: Into<Cause>>(key: &'static str) -> impl Fn(E) -> ListenError {
    move |error| ListenError {
        key,
        cause: error.into(),
    }
}

/// What is wrong with a place to listen.
#[derive(Debug, thiserror::Error)]
enum Cause {
    /// A unix socket of ours.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A listener of the NBD server.
    #[error(transparent)]
    Nbd(#[from] BindError),
    /// Certificates or keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin socket, once it is open.
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
    let key = "daemon.admin_socket";
    let (listener, place) = sockets
        .unix(path, mode, daemon.admin_group.as_deref())
        .map_err(at(key))?;
    let listener = UnixListener::from_std(listener).map_err(|source| {
        let address = path.display().to_string();
        at(key)(Cause::Io { address, source })
    })?;
    Ok((listener, place))
}

/// An address for operators or Prometheus, as soon as it can be had: no disk depends on it. `what` is what it is called.
pub(super) async fn tcp(what: &'static str, address: SocketAddr) -> TcpListener {
    let mut pause = PAUSE_MIN;
    let mut told = None;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                if told.is_some() {
                    tracing::info!(%address, "{what} is served");
                }
                return listener;
            }
            Err(error) => {
                // Told once for each reason, not for each attempt.
                if told != Some(error.kind()) {
                    tracing::error!(%address, %error,
                        "{what} cannot be listened on; disks are served, and it is tried again");
                    told = Some(error.kind());
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
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
    let offer = settings::tls(&config.nbd).map_err(at("nbd.tls"))?;
    let mut listeners = Vec::new();
    if let Switch::On(path) = &config.nbd.unix_socket.0 {
        let offer = if config.nbd.tls.unix_socket {
            offer.clone()
        } else {
            TlsOffer::Off
        };
        let nbd = &config.nbd;
        let (mode, group) = (nbd.unix_socket_mode.0.get(), &nbd.unix_socket_group);
        let key = "nbd.unix_socket";
        let opened = sockets.unix(&path.0, mode, group.as_deref());
        let (listener, place) = opened.map_err(at(key))?;
        let listener = nbd::Listener::of_unix(listener, &path.0).map_err(at(key))?;
        let shown = shown(unix_uri(&path.0), &offer);
        listeners.push(NbdListener {
            listener,
            offer,
            shown,
            place: Some(place),
        });
    }
    if let Switch::On(Address(address)) = config.nbd.tcp_address.0 {
        let inherited = sockets.tcp(address);
        let is_new = inherited.is_none();
        let listener = match inherited {
            Some(listener) => nbd::Listener::of_tcp(listener),
            None => nbd::Listener::tcp(address).await,
        };
        let listener = listener.map_err(at("nbd.tcp_address"))?;
        sockets.keep_tcp(address, &listener, is_new);
        let bound = listener.address().parse().unwrap_or(address);
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
            tls: false,
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
