//! An export of an NBD server as an origin.
//!
//! ```text
//!   submit ─► Work ─► Link ═══ socket ═══ server          Up
//!    poll  ◄─ Work ◄─ Link ═══ socket ═══                  │ a link is lost
//!                                                          ▼
//!        Up ◄── Dialling (a thread) ◄── Waiting ◄── Draining (the other links)
//!               │ refused, no answer       ▲
//!               └──────── longer pause ────┘
//!   shorter than it was ─► Other: everything fails, and it is looked again every second
//! ```
//!
//! The connections of an origin live and die together. When one is lost, the others get no
//! new requests, and once their answers are in (or they are lost too) all are made anew. Then
//! what the server may have forgotten is repeated (`unstable.rs`), then what was in flight
//! (`work.rs` says why that is safe). A guest notices nothing but the time it takes, unless it
//! takes longer than the request's time limit.
//!
//! A flush goes over one connection and vouches for the writes of all: more than one is opened
//! only if the server promises exactly that (`NBD_FLAG_CAN_MULTI_CONN`).

mod abilities;
mod dial;
mod limits;
mod link;
mod operation;
mod unstable;
mod work;

use crate::{NbdSpec, OpenError, Origin, Sources};
use block_io::{BufPool, IoError, OriginDone, OriginGeometry, OriginOp};
use dial::{Connected, DialError};
use link::Link;
use nbd_protocol::{Terms, TransmissionFlags};
use operation::Request;
use ring::{Mailbox, Ring};
use std::fmt;
use std::thread;
use units::{Bytes, Duration, Instant, SECTOR_BYTES};
use work::Work;

/// Connections that are through with their handshakes; it can move to its shard's thread.
#[derive(Debug)]
pub struct Dialled {
    spec: NbdSpec,
    geometry: OriginGeometry,
    connections: Vec<Connected>,
}

impl Dialled {
    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.geometry
    }
}

/// Connects and negotiates. Blocks up to the specification's time limit.
///
/// # Errors
/// [`OpenError`], each variant naming the origin.
pub fn dial(spec: &NbdSpec, read_only: bool) -> Result<Dialled, OpenError> {
    let origin = spec.to_string();
    let connections = match dial::connect_all(spec) {
        Ok(connections) => connections,
        Err(DialError::Unreachable(source)) => {
            return Err(OpenError::Unreachable { origin, source });
        }
        Err(DialError::Refused(reason)) => return Err(OpenError::Refused { origin, reason }),
    };
    let terms = connections[0].terms;
    let geometry = geometry(&terms, read_only, &origin)?;
    Ok(Dialled {
        spec: spec.clone(),
        geometry,
        connections,
    })
}

fn geometry(terms: &Terms, read_only: bool, origin: &str) -> Result<OriginGeometry, OpenError> {
    let minimum = u64::from(terms.export.blocks.minimum);
    let sector = match minimum {
        0..=SECTOR_BYTES => SECTOR_BYTES,
        _ if minimum <= units::BLOCK_BYTES => units::BLOCK_BYTES,
        _ => {
            return Err(OpenError::Refused {
                origin: origin.to_owned(),
                reason: format!("its smallest block of {minimum} bytes is larger than 4KiB"),
            });
        }
    };
    let (size, sector) = (terms.export.size, Bytes::new(sector));
    if size.is_zero() || !size.is_multiple_of(sector.get()) {
        return Err(OpenError::Size {
            origin: origin.to_owned(),
            size,
            sector,
        });
    }
    let flags = terms.export.flags;
    if flags.has(TransmissionFlags::READ_ONLY) && !read_only {
        return Err(OpenError::ReadOnly {
            origin: origin.to_owned(),
        });
    }
    Ok(OriginGeometry {
        size,
        sector,
        read_only,
        can_discard: flags.has(TransmissionFlags::SEND_TRIM),
    })
}

type DialResult = Result<Vec<Connected>, DialError>;

enum Session {
    Up(Vec<Link>),
    /// A link was lost: the others finish what they have.
    Draining(Vec<Link>),
    /// The next attempt to connect is due then.
    Waiting(Instant),
    /// A thread is connecting.
    Dialling(Mailbox<DialResult>),
    /// The server came back with a shorter disk: all requests fail. It is looked again then.
    Other(Instant),
}

/// An export of an NBD server as an origin.
pub struct NbdOrigin {
    spec: NbdSpec,
    geometry: OriginGeometry,
    ring: Ring,
    pool: BufPool,
    work: Work,
    session: Session,
    /// Before the attempt after the next.
    pause: Duration,
    /// Ended without a word to the server; handed out by the next poll.
    ended: Vec<OriginDone>,
}

impl NbdOrigin {
    /// Puts the connections on a shard's ring.
    pub fn new(dialled: Dialled, ring: &Ring, pool: &BufPool) -> Self {
        let terms = dialled.connections[0].terms;
        let work = Work::new(&terms, dialled.spec.request_timeout, pool.clone());
        let links = dialled.connections.into_iter();
        let links = links.map(|connected| Link::new(connected, ring, pool));
        Self {
            geometry: dialled.geometry,
            spec: dialled.spec,
            ring: ring.clone(),
            pool: pool.clone(),
            work,
            session: Session::Up(links.collect()),
            pause: Duration::ZERO,
            ended: Vec::new(),
        }
    }

    /// Sends what may be sent, each request over the connection with the least to do.
    fn pump(&mut self) {
        let Session::Up(links) = &mut self.session else {
            return;
        };
        let room = links.iter().map(Link::room).sum();
        let mut send = |request: Request| {
            let link = links.iter_mut().max_by_key(|link| link.room());
            link.expect("a session has a link").request(request);
        };
        self.work.issue(room, &mut send);
        for link in links {
            link.push();
        }
    }

    /// Moves the session on as far as it goes without waiting.
    fn advance(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        loop {
            let next = match &mut self.session {
                Session::Up(links) => {
                    for link in &mut *links {
                        link.poll(&mut self.work, now, done);
                    }
                    if links.iter().any(Link::has_answered) {
                        self.pause = Duration::ZERO;
                    }
                    let lost = links.iter().find_map(Link::lost);
                    let lost = match lost {
                        None if self.work.wants_restart() => {
                            // The server works; it must not be asked again and again.
                            self.pause = self.pause.max(limits::REPEAT_PAUSE);
                            Some("a flush failed, its changes are to be repeated")
                        }
                        lost => lost,
                    };
                    let Some(why) = lost else {
                        return;
                    };
                    tracing::warn!(origin = %self.spec, why, "origin connection lost");
                    Session::Draining(std::mem::take(links))
                }
                Session::Draining(links) => {
                    for link in &mut *links {
                        link.poll(&mut self.work, now, done);
                    }
                    links.retain(|link| link.lost().is_none() && !link.is_idle());
                    if !links.is_empty() {
                        return;
                    }
                    Session::Waiting(self.next_attempt(now))
                }
                Session::Waiting(due) if *due <= now => match self.start_dialling() {
                    Ok(mailbox) => Session::Dialling(mailbox),
                    Err(error) => {
                        tracing::warn!(origin = %self.spec, %error, "cannot try to reconnect");
                        Session::Waiting(self.next_attempt(now))
                    }
                },
                Session::Dialling(mailbox) => {
                    let mut results = Vec::new();
                    mailbox.drain(&mut results);
                    match results.pop() {
                        Some(result) => self.dialled(result, now, done),
                        None if mailbox.is_closed() => Session::Waiting(self.next_attempt(now)),
                        None => return,
                    }
                }
                Session::Other(due) => {
                    let due = *due;
                    self.work.fail_all(IoError::Failed, done);
                    if now < due {
                        return;
                    }
                    Session::Waiting(due)
                }
                Session::Waiting(_) => return,
            };
            self.session = next;
        }
    }

    /// When to try next: at once after the loss of a connection that worked, then after pauses
    /// that double.
    fn next_attempt(&mut self, now: Instant) -> Instant {
        let pause = self.pause;
        let doubled = Duration::from_nanos(pause.as_nanos().saturating_mul(2));
        let longest = self.spec.reconnect_pause_max;
        self.pause = doubled.max(limits::RECONNECT_PAUSE_MIN).min(longest);
        now + pause
    }

    fn start_dialling(&self) -> std::io::Result<Mailbox<DialResult>> {
        let (sender, mailbox) = ring::mailbox(&self.ring)?;
        let spec = self.spec.clone();
        let thread = thread::Builder::new().name("nbd-dial".to_owned());
        thread.spawn(move || {
            // If the origin was dropped meanwhile the connections are closed here.
            let _ = sender.send(dial::connect_all(&spec));
        })?;
        Ok(mailbox)
    }

    fn dialled(&mut self, result: DialResult, now: Instant, done: &mut Vec<OriginDone>) -> Session {
        let connections = match result {
            Ok(connections) => connections,
            Err(error) => {
                tracing::debug!(origin = %self.spec, %error, "origin not reached");
                return Session::Waiting(self.next_attempt(now));
            }
        };
        let terms = connections[0].terms;
        let same = geometry(&terms, self.geometry.read_only, "")
            .is_ok_and(|g| g.size >= self.geometry.size && g.sector <= self.geometry.sector);
        if !same {
            let (was, is) = (self.geometry.size, terms.export.size);
            tracing::error!(origin = %self.spec, %was, %is, "origin came back as another disk");
            return Session::Other(self.next_attempt(now).max(now + limits::OTHER_DISK_PAUSE));
        }
        tracing::info!(origin = %self.spec, connections = connections.len(), "origin connected");
        self.work.restart(&terms, done);
        let links = connections.into_iter();
        let links = links.map(|connected| Link::new(connected, &self.ring, &self.pool));
        Session::Up(links.collect())
    }
}

impl Origin for NbdOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        if let Err(error) = op.verb.check(&self.geometry) {
            self.ended.push(OriginDone {
                token: op.token,
                buf: op.verb.into_buf(),
                result: Err(error),
            });
            return;
        }
        self.work.submit(op, now, &mut self.ended);
        self.pump();
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        done.append(&mut self.ended);
        self.advance(now, done);
        let error = if self.connected() {
            IoError::TimedOut
        } else {
            IoError::Disconnected
        };
        self.work.expire(now, error, done);
        self.pump();
    }

    fn next_deadline(&self) -> Option<Instant> {
        if !self.ended.is_empty() {
            return Some(Instant::ZERO);
        }
        let due = match &self.session {
            Session::Waiting(due) => Some(*due),
            Session::Other(due) => Some(self.work.next_deadline().map_or(*due, |_| Instant::ZERO)),
            Session::Up(_) | Session::Draining(_) | Session::Dialling(_) => None,
        };
        due.into_iter().chain(self.work.next_deadline()).min()
    }

    fn sources(&self) -> Sources {
        match &self.session {
            Session::Up(links) | Session::Draining(links) => {
                links.iter().map(Link::source).collect()
            }
            Session::Dialling(mailbox) => Sources::from_iter([mailbox.id()]),
            Session::Waiting(_) | Session::Other(_) => Sources::new(),
        }
    }

    /// The server says what it has when it is asked anew, so the connections are made again.
    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        let sector = self.geometry.sector.get();
        if size < self.geometry.size || !size.is_multiple_of(sector) {
            return Err(IoError::Invalid);
        }
        if size > self.geometry.size {
            self.geometry.size = size;
            if let Session::Up(links) = &mut self.session {
                self.session = Session::Draining(std::mem::take(links));
            }
        }
        Ok(())
    }

    /// Who else writes to the export cannot be known.
    fn fingerprint(&self) -> Option<u128> {
        None
    }

    fn connected(&self) -> bool {
        matches!(self.session, Session::Up(_))
    }
}

impl fmt::Debug for NbdOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NbdOrigin({})", self.spec)
    }
}
