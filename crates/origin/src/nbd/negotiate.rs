//! The handshake with a server over a socket that blocks: in the clear, and behind TLS if that is wished for.

use super::tls::{self, Secured};
use super::wire::DialError;
use crate::{NbdAddress, NbdSpec};
use nbd_protocol::Terms;
use nbd_protocol::client::{Handshake, HandshakeError, Step, Wishes};
use openssl::ssl::ErrorCode;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The name that a server on a unix socket has in its certificate, unless another one is given.
const UNIX_NAME: &str = "localhost";

impl From<HandshakeError> for DialError {
    fn from(error: HandshakeError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A connection before its first request.
struct Talk<'a> {
    socket: &'a OwnedFd,
    deadline: Instant,
    session: Option<Secured>,
}

impl Talk<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), DialError> {
        let Some(session) = &mut self.session else {
            return send_all(self.socket, bytes, self.deadline);
        };
        session.write_all(bytes)?;
        let bytes = std::mem::take(&mut session.get_mut().outgoing);
        send_all(self.socket, &bytes, self.deadline)
    }

    fn receive(&mut self, buf: &mut [u8]) -> Result<usize, DialError> {
        let Some(session) = &mut self.session else {
            return receive(self.socket, buf, self.deadline);
        };
        let mut raw = [0; 4096];
        loop {
            match session.ssl_read(buf) {
                Ok(count) => return Ok(count),
                Err(error) if error.code() == ErrorCode::WANT_READ => {
                    let count = receive(self.socket, &mut raw, self.deadline)?;
                    session.get_mut().incoming.extend(&raw[..count]);
                }
                Err(error) => return Err(DialError::Refused(error.to_string())),
            }
        }
    }
}

/// Agrees with the server on what is served how.
pub(super) fn negotiate(
    socket: &OwnedFd,
    spec: &NbdSpec,
    deadline: Instant,
) -> Result<(Terms, Option<Secured>), DialError> {
    let mut handshake = Handshake::new(Wishes {
        export: spec.export.clone(),
        tls: spec.tls.is_some(),
    });
    let mut talk = Talk {
        socket,
        deadline,
        session: None,
    };
    let mut buf = [0; 4096];
    loop {
        let step = handshake.step();
        talk.send(&handshake.take_output())?;
        match step {
            Step::NeedBytes => {
                let count = talk.receive(&mut buf)?;
                handshake.receive(&buf[..count]);
            }
            Step::Ready(terms) => {
                if !handshake.into_leftover().is_empty() {
                    let reason = "the server answers before it is asked".to_owned();
                    return Err(DialError::Refused(reason));
                }
                return Ok((terms, talk.session));
            }
            Step::Failed(error) => return Err(error.into()),
            Step::StartTls => {
                talk.session = Some(secure(socket, spec, deadline)?);
                handshake.secured();
            }
        }
    }
}

fn secure(socket: &OwnedFd, spec: &NbdSpec, deadline: Instant) -> Result<Secured, DialError> {
    let Some(wanted) = &spec.tls else {
        let reason = "the server starts TLS unasked".to_owned();
        return Err(DialError::Refused(reason));
    };
    let host = match &spec.address {
        NbdAddress::Tcp { host, .. } => host,
        NbdAddress::Unix(_) => UNIX_NAME,
    };
    tls::secure(
        wanted,
        host,
        |bytes| send_all(socket, bytes, deadline),
        |buf| receive(socket, buf, deadline),
    )
}

/// How long there is still.
pub(super) fn time_left(deadline: Instant) -> io::Result<std::time::Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8], deadline: Instant) -> Result<(), DialError> {
    while !bytes.is_empty() {
        sockopt::set_socket_timeout(socket, Timeout::Send, Some(time_left(deadline)?))?;
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// At least one byte; the end of the stream is an error.
fn receive(socket: &OwnedFd, buf: &mut [u8], deadline: Instant) -> Result<usize, DialError> {
    loop {
        sockopt::set_socket_timeout(socket, Timeout::Recv, Some(time_left(deadline)?))?;
        match rustix::net::recv(socket, &mut *buf, RecvFlags::empty()) {
            Ok((_, 0)) => {
                let reason = "the server closed the connection during the handshake";
                return Err(DialError::Refused(reason.to_owned()));
            }
            Ok((_, count)) => return Ok(count),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
