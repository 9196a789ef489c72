//! One client's handshake, driven over a socket.

use super::census::{Census, Seat};
use super::server::{Client, Exports};
use super::tls::Stream;
use crate::limits::{HANDSHAKE_READ_BYTES, ServerLimits};
use nbd_protocol::server::{Agreed, CloseReason, Handshake, Refusal, Step};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How a stretch of the handshake ended.
pub(super) enum Ended {
    /// The client has chosen an export; requests follow, the first of them in `leftover`.
    Agreed {
        agreed: Agreed,
        seat: Seat,
        leftover: Vec<u8>,
    },
    /// TLS follows; then the handshake goes on.
    WantsTls(Handshake),
}

/// Why a session did not come to requests.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the connection was lost")]
    Lost(#[from] io::Error),
    #[error("the client closed the connection")]
    Gone,
    #[error(transparent)]
    Closed(#[from] CloseReason),
    #[error("the handshake took too long")]
    TooSlow,
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("the export has all the connections that it may have")]
    Full,
}

/// What a handshake asks.
pub(super) struct Desk<'a> {
    pub(super) exports: &'a dyn Exports,
    pub(super) census: &'a Census,
    pub(super) limits: &'a ServerLimits,
    pub(super) client: Client,
}

impl Desk<'_> {
    /// Goes on with `handshake` until it is agreed or wants TLS.
    pub(super) async fn negotiate(
        &self,
        stream: &mut (impl Stream + ?Sized),
        mut handshake: Handshake,
    ) -> Result<Ended, SessionError> {
        let mut buffer = vec![0; HANDSHAKE_READ_BYTES];
        loop {
            let step = handshake.step();
            let output = handshake.take_output();
            if !output.is_empty() {
                stream.write_all(&output).await?;
                stream.flush().await?;
            }
            match step {
                Step::NeedBytes => match stream.read(&mut buffer).await? {
                    0 => return Err(SessionError::Gone),
                    count => handshake.receive(&buffer[..count]),
                },
                Step::FindExport { name } => {
                    let found = self.exports.find(&name, &self.client);
                    handshake.answer(self.if_room(&name, found));
                }
                Step::ListExports => {
                    let listed = self.exports.list(&self.client);
                    let pairs = listed.iter();
                    handshake.list(pairs.map(|one| (&*one.name, &*one.description)));
                }
                Step::StartTls => return Ok(Ended::WantsTls(handshake)),
                Step::Transmit(agreed) => {
                    let limit = self.limits.connections_per_export;
                    // Another handshake may have taken the last place since the name was
                    // found; the client has its answer, so closing is all that is left.
                    let seat = self.census.sit(&agreed.name, limit);
                    let seat = seat.ok_or(SessionError::Full)?;
                    let leftover = handshake.into_leftover();
                    return Ok(Ended::Agreed {
                        agreed,
                        seat,
                        leftover,
                    });
                }
                Step::Close(reason) => return Err(SessionError::Closed(reason)),
            }
        }
    }

    fn if_room<T>(&self, name: &str, found: Result<T, Refusal>) -> Result<T, Refusal> {
        let limit = self.limits.connections_per_export;
        match found {
            Ok(_) if !self.census.has_room(name, limit) => Err(Refusal::Forbidden),
            found => found,
        }
    }
}
