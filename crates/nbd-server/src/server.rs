//! Accepting clients, bringing them through the handshake, and handing them over.
//!
//! ```text
//!  accept ─► task: handshake (deadline) ─► place free? ──► Exports::connect(Negotiated)
//!              └ STARTTLS ─► TLS ─► handshake ─► place free? ─► socketpair ─┘ + pipe task
//! ```
//!
//! A client gets a place among the connections when it names its export, and gives it back when its
//! [`Admission`](crate::Admission) is dropped: after a handshake that failed later, or when the shard's
//! connection has ended. Until then it counts among the handshakes, whose number has a bound of its own
//! (`greetings.rs`), so that silent clients take no places.
//!
//! No export is touched before a client has come through: the handshake asks [`Exports`] for
//! names and sizes only.

use crate::census::Census;
use crate::exports::{Client, Exports};
use crate::greetings::Peer;
use crate::greetings::{Greeting, Greetings};
use crate::limits::{ACCEPT_PAUSE, ServerLimits};
use crate::listener::{Accepted, Listener, into_fd};
use crate::negotiated::Negotiated;
use crate::pipe;
use crate::session::{Desk, Ended, SessionError};
use crate::tls::{Secured, Tls, TlsOffer};
use nbd_protocol::server::{Handshake, TlsPolicy};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// An NBD server. Cloning shares it: one server has any number of listeners, and its limits
/// hold for all of them together.
#[derive(Clone)]
pub struct Server {
    exports: Arc<dyn Exports>,
    limits: ServerLimits,
    places: Arc<Semaphore>,
    census: Census,
    greetings: Greetings,
}

impl Server {
    /// A server of these exports.
    pub fn new(exports: Arc<dyn Exports>, limits: ServerLimits) -> Self {
        Self {
            exports,
            limits,
            places: Arc::new(Semaphore::new(limits.connections)),
            census: Census::default(),
            greetings: Greetings::default(),
        }
    }

    /// A server beside this one for the own socket of a single export: it has places of its own, as
    /// many as one export may have, so that nobody who connects elsewhere can take them.
    #[must_use]
    pub fn for_one_export(&self, exports: Arc<dyn Exports>) -> Self {
        let limits = ServerLimits {
            connections: self.limits.connections_per_export,
            ..self.limits
        };
        Self::new(exports, limits)
    }

    /// Connections now, without those in their handshake.
    pub fn connections(&self) -> usize {
        self.limits.connections - self.places.available_permits()
    }

    /// Serves a listener's clients until `stop` becomes true or its sender is gone. Handshakes
    /// under way end then; connections that were handed over, and the pipes under encrypted
    /// ones, live on until their shard closes them.
    pub async fn serve(&self, listener: Listener, tls: TlsOffer, mut stop: watch::Receiver<bool>) {
        tracing::info!(
            address = listener.address(),
            ?tls,
            "listening for NBD clients"
        );
        let mut handshakes = JoinSet::new();
        loop {
            tokio::select! {
                () = told(&mut stop) => break,
                Some(_) = handshakes.join_next() => {}
                accepted = listener.accept() => {
                    if let Some(accepted) = or_pause(&listener, accepted).await {
                        let (server, tls) = (self.clone(), tls.clone());
                        let greeting = self.greetings.begin(accepted.who());
                        handshakes.spawn(async move {
                            server.greet(accepted, greeting, &tls).await;
                        });
                    }
                }
            }
        }
        handshakes.shutdown().await;
        tracing::info!(address = listener.address(), "no longer listening");
    }

    async fn greet(&self, accepted: Accepted, mut greeting: Greeting, tls: &TlsOffer) {
        let peer = accepted.peer();
        let deadline = Instant::now() + self.limits.handshake.to_std();
        let session = self.session(accepted, tls, peer.clone());
        let ended = tokio::select! {
            ended = timeout_at(deadline, session) => match ended {
                Ok(ended) => ended,
                Err(_elapsed) => Err(SessionError::TooSlow),
            },
            () = greeting.is_ended() => Err(SessionError::TooMany),
        };
        match ended {
            Ok(()) => {}
            // Probes and `nbdinfo --list` end like this.
            Err(SessionError::Gone | SessionError::Closed(_)) => {
                tracing::debug!(peer, "NBD client left during the handshake");
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::info!(peer, error, "NBD client failed the handshake");
            }
        }
    }

    async fn session(
        &self,
        mut accepted: Accepted,
        tls: &TlsOffer,
        peer: String,
    ) -> Result<(), SessionError> {
        let policy = match tls {
            TlsOffer::Off => TlsPolicy::Off,
            TlsOffer::Allow(_) => TlsPolicy::Allow,
            TlsOffer::Require(_) => TlsPolicy::Require,
        };
        let mut desk = Desk {
            exports: &*self.exports,
            census: &self.census,
            places: &self.places,
            limits: &self.limits,
            client: Client {
                peer,
                process: match accepted.who() {
                    Peer::Process(pid, _) => pid,
                    Peer::Host(_) | Peer::Unknown => None,
                },
                secured: false,
                identity: None,
            },
        };
        accepted.tune()?;
        let handshake = Handshake::new(policy);
        let ended = match &mut accepted {
            Accepted::Unix(stream) => desk.negotiate(stream, handshake).await?,
            Accepted::Tcp(stream, _) => desk.negotiate(stream, handshake).await?,
        };
        let mut handshake = match ended {
            Ended::Agreed { .. } => {
                self.hand_over(&desk.client, ended, into_fd(accepted)?);
                return Ok(());
            }
            Ended::WantsTls(handshake) => handshake,
        };
        let (TlsOffer::Allow(tls) | TlsOffer::Require(tls)) = tls else {
            unreachable!("TLS starts only where it was offered");
        };
        let secured = secure(tls, accepted).await.map_err(SessionError::Tls)?;
        handshake.secured();
        desk.client.secured = true;
        desk.client.identity = secured.identity;
        let mut secured = secured.stream;
        let ended = desk.negotiate(&mut *secured, handshake).await?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let peer = desk.client.peer.clone();
        self.hand_over(&desk.client, ended, theirs.into());
        tokio::spawn(async move {
            if let Err(error) = pipe::carry(secured, ours).await {
                tracing::info!(peer, %error, "encrypted NBD session lost");
            }
        });
        Ok(())
    }

    fn hand_over(&self, client: &Client, ended: Ended, socket: OwnedFd) {
        let Ended::Agreed {
            agreed,
            place,
            leftover,
        } = ended
        else {
            unreachable!("TLS starts once in a session");
        };
        let Client { peer, secured, .. } = client;
        tracing::info!(peer, export = agreed.name, secured, "NBD client attached");
        let connection = Negotiated {
            socket,
            leftover,
            export: agreed.name,
            terms: agreed.terms,
            admission: place,
        };
        self.exports.connect(connection, client);
    }
}

/// A client, or a pause before the next attempt.
async fn or_pause<T>(listener: &Listener, accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(address = listener.address(), %error, "cannot accept");
            tokio::time::sleep(ACCEPT_PAUSE.to_std()).await;
            None
        }
    }
}

/// Waits for the word to stop, or the end of whoever could give it.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _either = stop.wait_for(|stop| *stop).await;
}

async fn secure(tls: &Tls, accepted: Accepted) -> io::Result<Secured> {
    match accepted {
        Accepted::Unix(stream) => tls.accept(stream).await,
        Accepted::Tcp(stream, _) => tls.accept(stream).await,
    }
}
