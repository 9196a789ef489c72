//! The link of a host to its peers: who is dialed, who is let in, and which connection is kept.

use crate::connection::{self, Incoming};
use crate::error::LinkError;
use crate::identity::{Identity, IdentityError, is_of, peer_name};
use crate::limits::{EVENTS_QUEUED, FRAMES_QUEUED, HANDSHAKES_MAX, Times};
use events::EventKind;
use link_protocol::{Frame, Preface};
use rustls::pki_types::ServerName;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;
use units::errors::chain;

/// A host that disks may go to and come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// A DNS name in its certificate: nothing else identifies it.
    pub name: String,
    /// Where it is dialed: an address or a name, with a port.
    pub address: String,
}

/// A peer by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(usize);

/// What happens on the link. Of one peer they alternate: linked, what it says, lost.
#[derive(Debug)]
pub enum Event {
    /// A connection to the peer is there.
    Linked {
        /// Which peer.
        peer: PeerId,
        /// The version of the protocol that both speak.
        version: u16,
    },
    /// The peer says something.
    Said {
        /// Which peer.
        peer: PeerId,
        /// What.
        frame: Frame,
    },
    /// The connection is lost, with whatever was under way on it.
    Lost {
        /// Which peer.
        peer: PeerId,
    },
}

/// The peer cannot be told anything now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection to the peer")]
pub struct NotLinked;

/// How things stand with a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name and address.
    pub peer: Peer,
    /// The version that is spoken with it, if it is connected.
    pub version: Option<u16>,
    /// Since when it is connected, or is not: since the start, if it never was.
    pub since: Instant,
    /// How many connections there were.
    pub connections: u64,
    /// Why it is not connected, as far as is known.
    pub problem: Option<String>,
    /// What to do about that.
    pub remedy: Option<&'static str>,
}

/// The link of a host to its peers. Cloning shares it.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

struct Shared {
    identity: Identity,
    instance: u64,
    times: Times,
    peers: Vec<Known>,
    events: Sender<Event>,
    handshakes: Arc<Semaphore>,
}

struct Known {
    peer: Peer,
    name: ServerName<'static>,
    state: Mutex<State>,
    /// Told when its connection has ended.
    ended: Notify,
}

struct State {
    current: Option<Current>,
    /// How many connections there were.
    serial: u64,
    /// Since when there is a connection, or none.
    since: Instant,
    problem: Option<String>,
    remedy: Option<&'static str>,
}

/// The connection that is kept.
struct Current {
    serial: u64,
    version: u16,
    takes_traces: bool,
    /// Whether the lower instance has dialed it.
    is_preferred: bool,
    /// Of the peer.
    instance: u64,
    frames: Sender<Frame>,
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// A link that neither dials nor listens yet, and what happens on it. `instance` is drawn anew for each run of
    /// the daemon.
    ///
    /// # Errors
    /// [`IdentityError::PeerName`].
    pub fn new(
        identity: Identity,
        peers: Vec<Peer>,
        instance: u64,
        times: Times,
    ) -> Result<(Self, Receiver<Event>), IdentityError> {
        let (events, happens) = channel(EVENTS_QUEUED);
        let known = peers.into_iter().map(|peer| {
            Ok(Known {
                name: peer_name(&peer.name)?,
                peer,
                state: Mutex::new(State {
                    current: None,
                    serial: 0,
                    since: Instant::now(),
                    problem: None,
                    remedy: None,
                }),
                ended: Notify::new(),
            })
        });
        let shared = Shared {
            identity,
            instance,
            times,
            peers: known.collect::<Result<_, IdentityError>>()?,
            events,
            handshakes: Arc::new(Semaphore::new(HANDSHAKES_MAX)),
        };
        Ok((Self(Arc::new(shared)), happens))
    }

    /// The peer of this name.
    pub fn peer(&self, name: &str) -> Option<PeerId> {
        let mut peers = self.0.peers.iter();
        peers.position(|known| known.peer.name == name).map(PeerId)
    }

    /// Every peer, in the order of the configuration.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.0.peers.len()).map(PeerId)
    }

    /// How things stand with a peer.
    pub fn status_of(&self, peer: PeerId) -> PeerStatus {
        let known = &self.0.peers[peer.0];
        let state = known.state();
        PeerStatus {
            peer: known.peer.clone(),
            version: state.current.as_ref().map(|current| current.version),
            since: state.since,
            connections: state.serial,
            problem: state.problem.clone(),
            remedy: state.remedy,
        }
    }

    /// Whether a peer is connected and takes [`Message::Traced`](link_protocol::Message::Traced).
    pub fn takes_traces(&self, peer: PeerId) -> bool {
        let state = self.0.peers[peer.0].state();
        let current = state.current.as_ref();
        current.is_some_and(|current| current.takes_traces)
    }

    /// Says something to a peer; waits while much is under way to it. That it was sent does not mean that it
    /// arrives: then [`Event::Lost`] comes.
    ///
    /// # Errors
    /// [`NotLinked`].
    pub async fn send(&self, peer: PeerId, frame: Frame) -> Result<(), NotLinked> {
        let frames = {
            let state = self.0.peers[peer.0].state();
            let current = state.current.as_ref().ok_or(NotLinked)?;
            current.frames.clone()
        };
        frames.send(frame).await.map_err(|_| NotLinked)
    }

    /// Lets peers in, until this is dropped.
    pub async fn listen(self, listener: TcpListener) {
        loop {
            let Ok(place) = Arc::clone(&self.0.handshakes).acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the link cannot accept a connection");
                    sleep(self.0.times.pause_min).await;
                    continue;
                }
            };
            let link = self.clone();
            tokio::spawn(async move {
                let greeted = timeout(link.0.times.handshake_max, link.let_in(stream)).await;
                drop(place);
                match greeted.unwrap_or(Err(LinkError::Late)) {
                    Ok((peer, greeted)) => {
                        let ended = link.serve(peer, greeted).await;
                        link.tell(peer, &ended);
                    }
                    Err(error) => {
                        tracing::warn!(
                            reason = chain(&error),
                            "a connection to the link is refused"
                        );
                    }
                }
            });
        }
    }

    async fn let_in(&self, stream: TcpStream) -> Result<(PeerId, Greeted), LinkError> {
        stream.set_nodelay(true).map_err(LinkError::Broken)?;
        let accepted = self.0.identity.acceptor().accept(stream).await;
        let stream = accepted.map_err(LinkError::Tls)?;
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let mut peers = self.peers();
        let peer = certificate
            .and_then(|shown| peers.find(|peer| is_of(shown, &self.0.peers[peer.0].name)));
        let peer = peer.ok_or(LinkError::NoPeer)?;
        let greeted = self.greet(stream.into(), false).await?;
        Ok((peer, greeted))
    }

    /// Dials a peer whenever there is no connection to it, until this is dropped.
    pub async fn dial(self, peer: PeerId) {
        let (known, times) = (&self.0.peers[peer.0], self.0.times);
        let mut pause = times.pause_min;
        loop {
            // Asked before the look, so that an end after it is not missed.
            let ended = known.ended.notified();
            let is_linked = known.state().current.is_some();
            if is_linked {
                ended.await;
                pause = times.pause_min;
                continue;
            }
            let greeted = timeout(times.handshake_max, self.reach(known)).await;
            match greeted.unwrap_or(Err(LinkError::Late)) {
                Ok(greeted) => {
                    let ended = self.serve(peer, greeted).await;
                    self.tell(peer, &ended);
                    pause = times.pause_min;
                }
                Err(error) => self.tell(peer, &error),
            }
            let _ = timeout(pause, known.ended.notified()).await;
            pause = (pause * 2).min(times.pause_max);
        }
    }

    async fn reach(&self, known: &Known) -> Result<Greeted, LinkError> {
        let address = &known.peer.address;
        let stream =
            TcpStream::connect(address)
                .await
                .map_err(|source| LinkError::Unreachable {
                    address: address.clone(),
                    source,
                })?;
        stream.set_nodelay(true).map_err(LinkError::Broken)?;
        let connecting = self
            .0
            .identity
            .connector()
            .connect(known.name.clone(), stream);
        let stream = connecting.await.map_err(LinkError::Tls)?;
        self.greet(stream.into(), true).await
    }

    async fn greet(
        &self,
        mut stream: TlsStream<TcpStream>,
        is_dialed: bool,
    ) -> Result<Greeted, LinkError> {
        let ours = Preface::ours(self.0.instance);
        let (theirs, version) = connection::greet(&mut stream, ours).await?;
        Ok(Greeted {
            stream,
            version,
            takes_traces: theirs.takes_traces(),
            is_preferred: is_dialed == (self.0.instance < theirs.instance),
            instance: theirs.instance,
        })
    }

    /// Keeps a connection until it ends, or another one is kept. Returns why.
    async fn serve(&self, peer: PeerId, greeted: Greeted) -> LinkError {
        let (frames, mut to_send) = channel(FRAMES_QUEUED);
        let (from, mut to) = tokio::io::split(greeted.stream);
        let mut incoming = Incoming::new(from);
        let new = Current {
            serial: 0,
            version: greeted.version,
            takes_traces: greeted.takes_traces,
            is_preferred: greeted.is_preferred,
            instance: greeted.instance,
            frames,
        };
        let Some(serial) = self.keep(peer, new).await else {
            return LinkError::Replaced;
        };
        let listening = async {
            loop {
                let said = match incoming.next(self.0.times).await {
                    Ok(frame) => self.said(peer, serial, frame).await,
                    Err(ended) => return ended,
                };
                if let Err(ended) = said {
                    return ended;
                }
            }
        };
        let ended = tokio::select! {
            ended = listening => ended,
            ended = connection::write(&mut to, self.0.times, &mut to_send) => ended,
        };
        self.lose(peer, serial).await;
        ended
    }

    /// Makes a connection the one that is kept, unless the present one is preferred. Returns its serial number.
    async fn keep(&self, peer: PeerId, mut new: Current) -> Option<u64> {
        // Room first: what is told, is told in the order in which it happens.
        let mut room = self.0.events.reserve_many(2).await.ok()?;
        let known = &self.0.peers[peer.0];
        let mut state = known.state();
        if let Some(current) = &state.current {
            let is_same_run = current.instance == new.instance;
            if is_same_run && current.is_preferred && !new.is_preferred {
                return None;
            }
            room.next()?.send(Event::Lost { peer });
        }
        state.serial += 1;
        new.serial = state.serial;
        let version = new.version;
        state.since = Instant::now();
        (state.problem, state.remedy) = (None, None);
        // Dropping the other one's sender ends it.
        state.current = Some(new);
        room.next()?.send(Event::Linked { peer, version });
        tracing::info!(
            event = EventKind::PeerLinked.word(),
            peer = known.peer.name,
            version,
            "linked"
        );
        Some(state.serial)
    }

    /// Tells what a peer has said, if its connection is still the one that is kept.
    async fn said(&self, peer: PeerId, serial: u64, frame: Frame) -> Result<(), LinkError> {
        let room = self.0.events.reserve().await;
        let Ok(room) = room else {
            return Err(LinkError::Closed);
        };
        let state = self.0.peers[peer.0].state();
        match &state.current {
            Some(current) if current.serial == serial => {
                room.send(Event::Said { peer, frame });
                Ok(())
            }
            _ => Err(LinkError::Replaced),
        }
    }

    /// A connection has ended.
    async fn lose(&self, peer: PeerId, serial: u64) {
        let Ok(room) = self.0.events.reserve().await else {
            return;
        };
        let known = &self.0.peers[peer.0];
        let mut state = known.state();
        if state
            .current
            .as_ref()
            .is_some_and(|current| current.serial == serial)
        {
            state.current = None;
            state.since = Instant::now();
            room.send(Event::Lost { peer });
            known.ended.notify_waiters();
        }
    }

    /// Notes why there is no connection; logs each reason once in a row.
    fn tell(&self, peer: PeerId, why: &LinkError) {
        let known = &self.0.peers[peer.0];
        let mut state = known.state();
        if state.current.is_some() {
            return;
        }
        let reason = chain(why);
        if state.problem.as_ref() != Some(&reason) {
            tracing::warn!(
                event = EventKind::PeerLost.word(),
                peer = known.peer.name,
                reason,
                "not linked"
            );
            (state.problem, state.remedy) = (Some(reason), why.remedy());
        }
    }
}

/// A connection whose other side is known.
struct Greeted {
    stream: TlsStream<TcpStream>,
    version: u16,
    takes_traces: bool,
    is_preferred: bool,
    instance: u64,
}
