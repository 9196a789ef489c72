//! Reaching a server: connect, then the handshake, with one time limit on both.
//!
//! This blocks and so never runs on a shard's thread: the first time it runs where the disk is
//! being attached, later on a short-lived thread of its own that hands the connections over.

use super::limits;
use super::negotiate::{negotiate, time_left};
use super::secured::SecuredSocket;
use super::stream::Socket;
use super::tls::Secured;
use super::wire::{Carrier, Connected, DialError};
use crate::late::Keeper;
use crate::{NbdAddress, NbdSpec};
use nbd_protocol::{Terms, TransmissionFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Instant;

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl From<Errno> for DialError {
    fn from(error: Errno) -> Self {
        Self::Unreachable(error.into())
    }
}

/// A socket that is through with its handshake.
struct Negotiated {
    socket: OwnedFd,
    session: Option<Secured>,
    terms: Terms,
}

impl Negotiated {
    /// Nobody can go on with a connection that is encrypted, so the keeper gets none of these.
    fn into_carrier(self, keeper: Option<&Keeper>) -> Box<dyn Carrier> {
        let socket = self.socket;
        if let Some(session) = self.session {
            return Box::new(SecuredSocket { socket, session });
        }
        let kept = keeper.map(|keeper| keeper.keep(&socket));
        Box::new(Socket { socket, kept })
    }
}

/// Makes all connections: one, and more if the server says that they are coherent. If it lets
/// in fewer than are wished for, those have to do. The keeper gets a copy of each.
///
/// # Errors
/// If there is not even one.
pub(super) fn connect_all(
    spec: &NbdSpec,
    keeper: Option<&Keeper>,
) -> Result<Vec<Connected>, DialError> {
    let deadline = Instant::now() + spec.connect_timeout.to_std();
    let first = connect_one(spec, deadline)?;
    let several = first
        .terms
        .export
        .flags
        .has(TransmissionFlags::CAN_MULTI_CONN);
    let count = if several {
        usize::from(spec.connections).clamp(1, limits::LINKS_MAX)
    } else {
        1
    };
    let terms = first.terms;
    let mut all = vec![first];
    while all.len() < count {
        match connect_one(spec, deadline) {
            // One that sees another disk, or another way of serving it, must not be mixed in.
            Ok(next) if next.terms == terms => all.push(next),
            Ok(_) | Err(_) => break,
        }
    }
    let connected = all.into_iter().map(|one| Connected {
        terms: one.terms,
        carrier: one.into_carrier(keeper),
    });
    Ok(connected.collect())
}

fn connect_one(spec: &NbdSpec, deadline: Instant) -> Result<Negotiated, DialError> {
    let socket = match &spec.address {
        NbdAddress::Unix(path) => connect_unix(path, deadline)?,
        NbdAddress::Tcp { host, port } => connect_tcp(host, *port, deadline)?,
    };
    if matches!(spec.address, NbdAddress::Tcp { .. }) {
        watch_tcp(&socket, spec)?;
    }
    let (terms, session) = negotiate(&socket, spec, deadline)?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(Negotiated {
        socket,
        session,
        terms,
    })
}

/// A blocking connect to a unix socket waits without limit while the server's queue is full,
/// so this one does not block and tries again.
fn connect_unix(path: &Path, deadline: Instant) -> Result<OwnedFd, DialError> {
    let address = SocketAddrUnix::new(path)?;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) => {
                rustix::io::ioctl_fionbio(&socket, false)?;
                return Ok(socket);
            }
            Err(Errno::AGAIN) => {
                time_left(deadline)?;
                thread::sleep(limits::QUEUE_FULL_PAUSE.to_std());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> Result<OwnedFd, DialError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time_left(deadline)?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Lets the kernel find out that the far side is gone without a word.
fn watch_tcp(socket: &OwnedFd, spec: &NbdSpec) -> Result<(), DialError> {
    let millis = spec.request_timeout.as_nanos() / 1_000_000;
    let millis = u32::try_from(millis).unwrap_or(u32::MAX).max(1);
    sockopt::set_tcp_user_timeout(socket, millis)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, limits::KEEPALIVE_IDLE.to_std())?;
    sockopt::set_tcp_keepintvl(socket, limits::KEEPALIVE_PAUSE.to_std())?;
    sockopt::set_tcp_keepcnt(socket, limits::KEEPALIVE_COUNT)?;
    Ok(())
}
