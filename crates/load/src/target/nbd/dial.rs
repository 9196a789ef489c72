//! Reaching an NBD server: connect, then the handshake, with one time limit on both.

use super::super::{Address, Geometry, NbdAddress, Needs, Prepared};
use crate::LoadError;
use crate::limits::{CONNECT_TIME_MAX, DEPTH_MAX, ERASE_BYTES_MAX};
use nbd_protocol::client::{Handshake, HandshakeError, Step, Wishes};
use nbd_protocol::{Terms, TransmissionFlags, limits};
use rustix::net::sockopt::{self, Timeout};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// A connection that is through with its handshake.
pub(crate) struct Connected {
    pub(super) socket: OwnedFd,
    pub(super) terms: Terms,
}

/// Connects once for each job.
pub(in super::super) fn open(
    address: &Address,
    server: &NbdAddress,
    export: &str,
    needs: &Needs,
) -> Result<(Geometry, Vec<Prepared>), LoadError> {
    let deadline = Instant::now() + CONNECT_TIME_MAX.to_std();
    let mut all: Vec<Connected> = Vec::new();
    for _job in 0..needs.jobs {
        let next = connect(address, server, export, deadline)?;
        if let Some(first) = all.first() {
            if first.terms != next.terms {
                return Err(address.refused("each connection sees another disk"));
            }
            let several = first.terms.export.flags;
            if needs.writes && !several.has(TransmissionFlags::CAN_MULTI_CONN) {
                let what = "the server does not promise that several connections see one disk";
                return Err(LoadError::unfit(what, "--numjobs 1 and a larger --iodepth"));
            }
        }
        all.push(next);
    }
    let terms = all[0].terms;
    let flags = terms.export.flags;
    let geometry = Geometry {
        size: terms.export.size.get(),
        unit: terms.export.blocks.minimum,
        request_max: terms.export.blocks.maximum.min(limits::PAYLOAD_BYTES_MAX),
        erase_max: ERASE_BYTES_MAX,
        depth_max: DEPTH_MAX,
        read_only: flags.has(TransmissionFlags::READ_ONLY),
        can_trim: flags.has(TransmissionFlags::SEND_TRIM),
        can_zero: flags.has(TransmissionFlags::SEND_WRITE_ZEROES),
        can_flush: flags.has(TransmissionFlags::SEND_FLUSH),
    };
    Ok((geometry, all.into_iter().map(Prepared::Nbd).collect()))
}

fn connect(
    address: &Address,
    server: &NbdAddress,
    export: &str,
    deadline: Instant,
) -> Result<Connected, LoadError> {
    if export.len() > limits::NAME_BYTES_MAX {
        return Err(address.refused("no export has a name as long as that"));
    }
    match server {
        NbdAddress::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(|error| address.unreachable(error))?;
            negotiate(address, stream, export, deadline)
        }
        NbdAddress::Tcp { host, port } => {
            let stream = connect_tcp(host, *port, deadline);
            let stream = stream.map_err(|error| address.unreachable(error))?;
            negotiate(address, stream, export, deadline)
        }
    }
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn negotiate<S: Read + Write + Into<OwnedFd>>(
    address: &Address,
    mut stream: S,
    export: &str,
    deadline: Instant,
) -> Result<Connected, LoadError>
where
    for<'a> &'a S: std::os::fd::AsFd,
{
    let lost = |error| address.unreachable(error);
    let mut handshake = Handshake::new(Wishes {
        export: export.to_owned(),
        tls: false,
    });
    let mut buf = [0; 4096];
    loop {
        let step = handshake.step();
        stream.write_all(&handshake.take_output()).map_err(lost)?;
        match step {
            Step::NeedBytes => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(lost(io::ErrorKind::TimedOut.into()));
                }
                let limited = sockopt::set_socket_timeout(&stream, Timeout::Recv, Some(left));
                limited.map_err(|errno| lost(errno.into()))?;
                let count = stream.read(&mut buf).map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => lost(io::ErrorKind::TimedOut.into()),
                    _ => lost(error),
                })?;
                if count == 0 {
                    return Err(address.refused("it closed the connection during the handshake"));
                }
                handshake.receive(&buf[..count]);
            }
            Step::Ready(terms) if handshake.into_leftover().is_empty() => {
                let unlimited = sockopt::set_socket_timeout(&stream, Timeout::Recv, None);
                unlimited.map_err(|errno| lost(errno.into()))?;
                let socket = stream.into();
                return Ok(Connected { socket, terms });
            }
            Step::Ready(_) => return Err(address.refused("it answers before it is asked")),
            Step::StartTls => return Err(address.refused("it starts TLS unasked")),
            Step::Failed(error) => return Err(refusal(address, &error)),
        }
    }
}

fn refusal(address: &Address, error: &HandshakeError) -> LoadError {
    match error {
        HandshakeError::Refused { kind, .. }
            if *kind == nbd_protocol::wire::option_reply::ERR_TLS_REQD =>
        {
            LoadError::unfit(
                format!("{address} wants TLS, which hearth bench does not speak"),
                "a listener without TLS: a unix socket on the same host",
            )
        }
        error => address.refused(error.to_string()),
    }
}
