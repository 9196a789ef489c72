//! An export of an NBD server as an origin: the sockets of an [`nbd_client::Client`].
//!
//! ```text
//!   submit, poll ─► Client ─ effects ─► Stream ═══ socket ═══ server
//!                     ▲                   │
//!                     └──── what arrives ─┘
//!                     ▲
//!                     └──── a thread connects, when the client asks for it
//! ```
//!
//! The client decides what is sent, and what happens when a connection is lost; here it is done.
//!
//! What carries the bytes need not be a socket: see `Remote`.
//!
//! A flush goes over one connection and vouches for the writes of all: more than one is opened
//! only if the server promises exactly that (`NBD_FLAG_CAN_MULTI_CONN`).

mod dial;
mod kind;
mod limits;
mod negotiate;
mod secured;
mod socket;
mod stream;
mod tls;
mod wire;

use crate::late::{self, Hold, Keeper};
use crate::{Condition, Keeping, NbdSpec, OpenError, Origin, Sources};
use block_io::{BufPool, FailureKind, IoError, OriginDone, OriginGeometry, OriginOp, Token};
use events::EventKind;
use nbd_client::{Client, Effect, LinkId, Report, Settings, Unfit};
use nbd_protocol::Terms;
use ring::{Mailbox, Ring};
use std::fmt;
use std::sync::Arc;
use std::thread;
use units::{Bytes, Duration, Instant};
pub(crate) use wire::{Carrier, Connected, DialError, Remote, Sending, Times, Wire};

/// Connections that are through with their handshakes; it can move to its shard's thread.
#[derive(Debug)]
pub struct Dialled {
    remote: Arc<dyn Remote>,
    geometry: OriginGeometry,
    connections: Vec<Connected>,
    hold: Option<Hold>,
}

impl Dialled {
    /// Connections of which the first one's terms hold for all.
    pub(crate) fn new(
        remote: Arc<dyn Remote>,
        connections: Vec<Connected>,
        hold: Option<Hold>,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        let geometry = geometry(&connections[0].terms, read_only, &remote.to_string())?;
        Ok(Self {
            remote,
            geometry,
            connections,
            hold,
        })
    }

    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.geometry
    }
}

/// Connects and negotiates. Blocks up to the specification's time limit.
///
/// # Errors
/// [`OpenError`], each variant naming the origin.
pub fn dial(
    spec: &NbdSpec,
    read_only: bool,
    keeping: Option<&Keeping>,
) -> Result<Dialled, OpenError> {
    let origin = spec.to_string();
    // First: a server may let in nobody else while it has the connections of before.
    let hold = keeping.map(|keeping| Hold::new(keeping, spec, read_only));
    let hold = hold.transpose()?;
    let keeper = hold.as_ref().and_then(Hold::keeper);
    let connections = match dial::connect_all(spec, keeper) {
        Ok(connections) => connections,
        Err(error) => return Err(error.of(origin)),
    };
    Dialled::new(Arc::new(spec.clone()), connections, hold, read_only)
}

fn geometry(terms: &Terms, read_only: bool, origin: &str) -> Result<OriginGeometry, OpenError> {
    let origin = origin.to_owned();
    nbd_client::geometry(terms, read_only).map_err(|unfit| match unfit {
        Unfit::Coarse(minimum) => OpenError::Refused {
            origin,
            reason: format!("its smallest block of {minimum} bytes is larger than 4KiB"),
        },
        Unfit::Size { size, sector } => OpenError::Size {
            origin,
            size,
            sector,
        },
        Unfit::ReadOnly => OpenError::ReadOnly { origin },
    })
}

impl Remote for NbdSpec {
    fn connect_all(&self, keeper: Option<&Keeper>) -> Result<Vec<Connected>, DialError> {
        dial::connect_all(self, keeper)
    }

    fn times(&self) -> Times {
        Times {
            reconnect_pause_max: self.reconnect_pause_max,
            request_timeout: self.request_timeout,
            settle_time: self.settle_time,
        }
    }
}

type DialResult = Result<Vec<Connected>, DialError>;

/// An export of an NBD server as an origin.
pub struct NbdOrigin {
    remote: Arc<dyn Remote>,
    ring: Ring,
    pool: BufPool,
    client: Client,
    streams: Vec<Box<dyn Wire>>,
    /// A thread is connecting.
    dialling: Option<Mailbox<DialResult>>,
    hold: Option<Hold>,
    /// When to look for late changes that are over.
    look: Option<Instant>,
}

impl NbdOrigin {
    /// Puts the connections on a shard's ring.
    pub fn new(dialled: Dialled, ring: &Ring, pool: &BufPool) -> Self {
        let times = dialled.remote.times();
        let settings = Settings {
            request_timeout: times.request_timeout,
            reconnect_pause_max: times.reconnect_pause_max,
            settle_time: times.settle_time,
            first_cookie: late::random(),
        };
        let terms = terms_of(&dialled.connections);
        let (mut client, links) = Client::new(&terms, dialled.geometry, settings, pool);
        let late = dialled.hold.as_ref().map_or(&[][..], Hold::late);
        if !late.is_empty() {
            client.expect_late_changes(late, ring.now() + times.settle_time);
        }
        let mut origin = Self {
            remote: dialled.remote,
            ring: ring.clone(),
            pool: pool.clone(),
            client,
            streams: Vec::new(),
            dialling: None,
            hold: dialled.hold,
            look: None,
        };
        origin.look_for_late_changes(ring.now());
        origin.adopt(links, dialled.connections);
        origin
    }

    fn adopt(&mut self, links: Vec<LinkId>, connections: Vec<Connected>) {
        let named = links.into_iter().zip(connections);
        let streams = named.map(|(link, one)| one.carrier.start(link, &self.ring, &self.pool));
        self.streams.extend(streams);
    }

    /// Lets requests go that waited for changes of former sessions which are over.
    fn look_for_late_changes(&mut self, now: Instant) {
        let Some(hold) = &mut self.hold else {
            return;
        };
        for cookie in hold.take_over_ones() {
            self.client.late_change_is_over(cookie);
        }
        let is_over = hold.late().is_empty();
        if is_over && self.look.is_some() {
            tracing::info!(origin = %self.remote, "no write of a former session can land any more");
        }
        self.look = (!is_over).then(|| now + limits::LATE_LOOK);
    }

    /// Carries out what the client asks for.
    fn act(&mut self, now: Instant) {
        while let Some(effect) = self.client.next_effect() {
            match effect {
                Effect::Remember(change) => {
                    if let Some(hold) = &mut self.hold {
                        hold.remember(change);
                    }
                }
                Effect::Answered(cookie) => {
                    if let Some(hold) = &mut self.hold {
                        hold.forget(cookie);
                    }
                }
                Effect::Send { link, slices } => {
                    let sending = self.stream(link).map(|stream| stream.send(slices));
                    if sending == Some(Sending::Done) {
                        self.client.sent(link);
                    }
                }
                Effect::HalfClose(link) => {
                    if let Some(stream) = self.stream(link) {
                        stream.half_close();
                    }
                }
                Effect::Close { link, goodbye } => {
                    if let (Some(stream), Some(goodbye)) = (self.stream(link), goodbye) {
                        stream.say(&goodbye);
                    }
                    self.streams.retain(|stream| stream.link() != link);
                }
                Effect::Dial => match self.start_dialling() {
                    Ok(mailbox) => self.dialling = Some(mailbox),
                    Err(error) => {
                        tracing::warn!(origin = %self.remote, %error, "cannot try to reconnect");
                        self.client.not_reached(now);
                    }
                },
                Effect::Report(report) => self.report(&report),
            }
        }
    }

    fn stream(&mut self, link: LinkId) -> Option<&mut Box<dyn Wire>> {
        self.streams.iter_mut().find(|stream| stream.link() == link)
    }

    fn report(&self, report: &Report) {
        match report {
            Report::Lost { why } => {
                let kind = FailureKind::OriginLost;
                tracing::warn!(event = EventKind::OriginLost.word(),
                    kind = kind.name(), message_id = kind.message_id(),
                    origin = %self.remote, why, "origin connection lost");
            }
            Report::Connected { connections } => {
                tracing::info!(event = EventKind::OriginBack.word(),
                    origin = %self.remote, connections, "origin connected");
            }
            Report::OtherDisk { was, is } => {
                let kind = FailureKind::OriginChanged;
                tracing::error!(event = EventKind::OriginChanged.word(),
                    kind = kind.name(), message_id = kind.message_id(),
                    origin = %self.remote, %was, %is, "origin came back as another disk");
            }
        }
    }

    fn start_dialling(&self) -> std::io::Result<Mailbox<DialResult>> {
        let (sender, mailbox) = ring::mailbox(&self.ring)?;
        let remote = Arc::clone(&self.remote);
        let keeper = self.hold.as_ref().and_then(Hold::keeper).cloned();
        let thread = thread::Builder::new().name("origin-dial".to_owned());
        thread.spawn(move || {
            // If the origin was dropped meanwhile the connections are closed here.
            let _ = sender.send(remote.connect_all(keeper.as_ref()));
        })?;
        Ok(mailbox)
    }

    /// Hands over what the thread that connects has to say.
    fn poll_dialling(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let Some(mailbox) = &mut self.dialling else {
            return;
        };
        let mut results = Vec::new();
        mailbox.drain(&mut results);
        let result = results.pop();
        if result.is_none() && !mailbox.is_closed() {
            return;
        }
        self.dialling = None;
        match result {
            Some(Ok(connections)) => {
                let terms = terms_of(&connections);
                if let Some(links) = self.client.dialled(&terms, now, done) {
                    self.adopt(links, connections);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(origin = %self.remote, %error, "origin not reached");
                self.client.not_reached(now);
            }
            None => self.client.not_reached(now),
        }
    }
}

fn terms_of(connections: &[Connected]) -> Vec<Terms> {
    connections
        .iter()
        .map(|connected| connected.terms)
        .collect()
}

impl Origin for NbdOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.client.geometry()
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        self.client.submit(op, now);
        self.act(now);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        for stream in &mut self.streams {
            stream.poll(&mut self.client, now, done);
        }
        self.poll_dialling(now, done);
        if self.look.is_some_and(|look| look <= now) {
            self.look_for_late_changes(now);
        }
        self.client.poll(now, done);
        self.act(now);
    }

    fn stood_still(&mut self, time: Duration) {
        self.client.stood_still(time);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client
            .next_deadline()
            .into_iter()
            .chain(self.look)
            .min()
    }

    fn sources(&self) -> Sources {
        let streams = self.streams.iter().map(|stream| stream.source());
        streams
            .chain(self.dialling.iter().map(Mailbox::id))
            .collect()
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        self.client.grow(size)
    }

    /// Who else writes to the export cannot be known.
    fn fingerprint(&self) -> Option<u128> {
        None
    }

    fn condition(&self) -> Condition {
        Condition {
            connected: self.client.is_connected(),
            late: self.client.late_bytes(),
            cut: self.client.cut_bytes(),
        }
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.client.error_number(token)
    }
}

impl Drop for NbdOrigin {
    /// Connections on which a change was not answered stay with whoever keeps them: the next session
    /// learns there when it is over.
    fn drop(&mut self) {
        if !self.hold.as_ref().is_none_or(Hold::is_settled) {
            for stream in &mut self.streams {
                stream.leave();
            }
        }
        self.client.close();
        self.act(Instant::ZERO);
    }
}

impl fmt::Debug for NbdOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NbdOrigin({})", self.remote)
    }
}
