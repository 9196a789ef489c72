//! One client's handshake, driven over a socket.

use crate::census::{Admission, Census};
use crate::exports::{Client, Exports};
use crate::limits::{HANDSHAKE_READ_BYTES, ServerLimits};
use crate::tls::Stream;
use nbd_protocol::server::{Agreed, CloseReason, Handshake, Refusal, Step};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// How a stretch of the handshake ended.
pub(crate) enum Ended {
    /// The client has chosen an export; requests follow, the first of them in `leftover`.
    Agreed {
        agreed: Agreed,
        place: Admission,
        leftover: Vec<u8>,
    },
    /// TLS follows; then the handshake goes on.
    WantsTls(Handshake),
}

/// Why a session did not come to requests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("the connection was lost")]
    Lost(#[from] io::Error),
    #[error("the client closed the connection")]
    Gone,
    #[error(transparent)]
    Closed(#[from] CloseReason),
    #[error("the handshake took too long")]
    TooSlow,
    #[error("the handshake was ended: its peer has the most of too many")]
    TooMany,
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
}

/// What a handshake asks.
pub(crate) struct Desk<'a> {
    pub(crate) exports: &'a dyn Exports,
    pub(crate) census: &'a Census,
    pub(crate) places: &'a Arc<Semaphore>,
    pub(crate) limits: &'a ServerLimits,
    pub(crate) client: Client,
}

impl Desk<'_> {
    /// Goes on with `handshake` until it is agreed or wants TLS.
    pub(crate) async fn negotiate(
        &self,
        stream: &mut (impl Stream + ?Sized),
        mut handshake: Handshake,
    ) -> Result<Ended, SessionError> {
        let mut buffer = vec![0; HANDSHAKE_READ_BYTES];
        // Taken before the client hears that it may come in, so that nobody is told so in vain.
        let mut place = None;
        loop {
            let step = handshake.step();
            if !matches!(step, Step::Transmit(_)) {
                // It only asked what the export is like.
                place = None;
            }
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
                    place = if found.is_ok() {
                        self.admit(&name).await
                    } else {
                        None
                    };
                    let admitted = place.as_ref().map(drop).ok_or(Refusal::Forbidden);
                    handshake.answer(found.and_then(|found| admitted.map(|()| found)));
                }
                Step::ListExports => {
                    let listed = self.exports.list(&self.client);
                    let pairs = listed.iter();
                    handshake.list(pairs.map(|one| (&*one.name, &*one.description)));
                }
                Step::StartTls => return Ok(Ended::WantsTls(handshake)),
                Step::Transmit(agreed) => {
                    let place = place.expect("an export was found and had room");
                    let leftover = handshake.into_leftover();
                    return Ok(Ended::Agreed {
                        agreed,
                        place,
                        leftover,
                    });
                }
                Step::Close(reason) => return Err(SessionError::Closed(reason)),
            }
        }
    }

    /// A place at an export, unless it has as many connections as it may have. If all exports together
    /// have, it waits for one of them to go, as long as the handshake may take.
    async fn admit(&self, export: &str) -> Option<Admission> {
        let seat = self
            .census
            .sit(export, self.limits.connections_per_export)?;
        let place = Arc::clone(self.places).acquire_owned().await;
        // Places are never closed, so there always is one.
        Some(Admission::counted(place.ok()?, seat))
    }
}
