//! Sockets that clients connect to.
//!
//! A unix socket is bound under a temporary name, gets its mode and group, and is then renamed
//! into place: nobody can connect before the permissions are right, and a stale socket of a
//! process that died is replaced in one step. A socket on which somebody listens is never
//! taken away.

use crate::greetings::Peer;
use crate::limits::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES};
use rustix::fs::{Gid, Mode, chown};
use rustix::net::sockopt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where and how to listen on a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// The socket's path.
    pub path: PathBuf,
    /// Permission bits: who may connect is who may write.
    pub mode: u32,
    /// The group that owns it, by number; none leaves the process's own.
    pub group: Option<u32>,
}

/// Why a socket could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{} is in use: another process listens on it", path.display())]
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something that is no socket is in the way.
    #[error("{} is not a socket and is left alone", path.display())]
    NotASocket {
        /// Its path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on {address}")]
    Refused {
        /// Path or address.
        address: String,
        /// Why.
        source: io::Error,
    },
}

enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A socket that is being listened on. Dropping it removes a unix socket's path, unless
/// another process has put its own there.
pub struct Listener {
    kind: Kind,
    address: String,
    /// The path to remove at the end, and the inode that makes it ours.
    path: Option<(PathBuf, u64)>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix(listener) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A client that has just connected.
pub(crate) enum Accepted {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr),
}

impl Listener {
    /// Listens on a unix socket. Call it within the tokio runtime.
    ///
    /// # Errors
    /// If another process listens there, something else is in the way, or the system refuses.
    pub fn unix(socket: &UnixSocket) -> Result<Self, BindError> {
        let path = &socket.path;
        let refused = |source| BindError::Refused {
            address: path.display().to_string(),
            source,
        };
        check_vacant(path)?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&temporary).map_err(refused)?;
        let place = || -> io::Result<u64> {
            if let Some(group) = socket.group {
                chown(&temporary, None, Some(Gid::from_raw(group)))?;
            }
            rustix::fs::chmod(&temporary, Mode::from_raw_mode(socket.mode))?;
            let inode = fs::symlink_metadata(&temporary)?.ino();
            fs::rename(&temporary, path)?;
            Ok(inode)
        };
        let inode = place().map_err(|error| {
            // The first failure is the one to report.
            let _ignored = fs::remove_file(&temporary);
            refused(error)
        })?;
        Ok(Self {
            kind: Kind::Unix(listener),
            address: path.display().to_string(),
            path: Some((path.clone(), inode)),
        })
    }

    /// Takes over a unix socket that is listened on already; its path is the caller's and stays.
    /// Call it within the tokio runtime.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of_unix(
        listener: std::os::unix::net::UnixListener,
        path: &Path,
    ) -> Result<Self, BindError> {
        let refused = |source| BindError::Refused {
            address: path.display().to_string(),
            source,
        };
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self {
            kind: Kind::Unix(UnixListener::from_std(listener).map_err(refused)?),
            address: path.display().to_string(),
            path: None,
        })
    }

    /// Takes over a TCP socket that is listened on already. Call it within the tokio runtime.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn of_tcp(listener: std::net::TcpListener) -> Result<Self, BindError> {
        let refused = |source| BindError::Refused {
            address: "an inherited socket".to_owned(),
            source,
        };
        let address = listener.local_addr().map_err(refused)?.to_string();
        listener.set_nonblocking(true).map_err(refused)?;
        let kind = Kind::Tcp(TcpListener::from_std(listener).map_err(refused)?);
        Ok(Self {
            kind,
            address,
            path: None,
        })
    }

    /// Listens on a TCP address.
    ///
    /// # Errors
    /// If the system refuses, as when the address is in use.
    pub async fn tcp(address: SocketAddr) -> Result<Self, BindError> {
        let refused = |source| BindError::Refused {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?.to_string();
        Ok(Self {
            kind: Kind::Tcp(listener),
            address,
            path: None,
        })
    }

    /// Path, or address and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match &self.kind {
            Kind::Unix(listener) => Ok(Accepted::Unix(listener.accept().await?.0)),
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, peer))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, inode)) = self.path.take() else {
            return;
        };
        let ours = fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == inode);
        if ours && let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Whether the path is free, or held by a socket on which nobody listens.
fn check_vacant(path: &Path) -> Result<(), BindError> {
    let path_buf = || path.to_owned();
    let refused = |source| BindError::Refused {
        address: path.display().to_string(),
        source,
    };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(found) => found,
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path_buf() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(error)),
        Ok(_) => Err(BindError::InUse { path: path_buf() }),
    }
}

impl Accepted {
    /// Sets what the socket needs for our traffic.
    pub(crate) fn tune(&self) -> io::Result<()> {
        if let Self::Tcp(stream, _) = self {
            // Replies are gathered by us; waiting for more would only add delay.
            stream.set_nodelay(true)?;
            // A client whose host died says nothing, and would keep its place for ever.
            sockopt::set_socket_keepalive(stream, true)?;
            sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE.to_std())?;
            sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL.to_std())?;
            sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
        }
        Ok(())
    }

    /// Who it is, as far as it cannot choose.
    pub(crate) fn who(&self) -> Peer {
        match self {
            Self::Unix(stream) => match stream.peer_cred() {
                Ok(who) => Peer::Process(who.pid(), who.uid()),
                Err(_) => Peer::Unknown,
            },
            Self::Tcp(_, peer) => Peer::Host(peer.ip()),
        }
    }

    /// For people.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Unix(stream) => match stream.peer_cred() {
                Ok(who) => match who.pid() {
                    Some(pid) => format!("unix:pid={pid},uid={}", who.uid()),
                    None => format!("unix:uid={}", who.uid()),
                },
                Err(_) => "unix".to_owned(),
            },
            Self::Tcp(_, peer) => peer.to_string(),
        }
    }
}

/// The bare, blocking descriptor under a tokio socket: the ring waits for a blocking one.
pub(crate) fn into_fd(accepted: Accepted) -> io::Result<OwnedFd> {
    match accepted {
        Accepted::Unix(stream) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(stream.into())
        }
        Accepted::Tcp(stream, _) => {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(stream.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    fn socket(folder: &tempfile::TempDir) -> UnixSocket {
        UnixSocket {
            path: folder.path().join("nbd.sock"),
            mode: 0o640,
            group: None,
        }
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_listener() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        let listener = Listener::unix(&socket).unwrap();
        let found = fs::symlink_metadata(&socket.path).unwrap();
        assert_eq!(found.mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(listener);
        assert!(!socket.path.exists());
    }

    #[test]
    fn a_socket_that_is_listened_on_is_left_alone() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        let _first = Listener::unix(&socket).unwrap();
        let second = Listener::unix(&socket);
        assert!(matches!(second, Err(BindError::InUse { .. })));
        std::os::unix::net::UnixStream::connect(&socket.path).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        drop(std::os::unix::net::UnixListener::bind(&socket.path).unwrap());
        assert!(socket.path.exists());
        let _listener = Listener::unix(&socket).unwrap();
        std::os::unix::net::UnixStream::connect(&socket.path).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        fs::write(&socket.path, "precious").unwrap();
        let refused = Listener::unix(&socket);
        assert!(matches!(refused, Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&socket.path).unwrap(), "precious");
    }

    #[test]
    fn a_successors_socket_is_not_removed() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        let first = Listener::unix(&socket).unwrap();
        fs::remove_file(&socket.path).unwrap();
        let _second = Listener::unix(&socket).unwrap();
        drop(first);
        assert!(socket.path.exists());
    }
}
