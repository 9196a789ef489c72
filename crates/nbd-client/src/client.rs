//! The session with a server: its connections, and what happens when one is lost.

use crate::cut::Cut;
use crate::effect::{Effect, LinkId, Report, SentChange};
use crate::geometry::geometry;
use crate::guard::{Guard, holds};
use crate::limits;
use crate::link::Link;
use crate::operation::Request;
use crate::work::Work;
use block_io::{BufPool, IoError, OriginDone, OriginGeometry, OriginOp, Token};
use nbd_protocol::Terms;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant};

/// How long a client waits.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a request may wait for its answer, reconnects included.
    pub request_timeout: Duration,
    /// The longest pause between two attempts to reconnect.
    pub reconnect_pause_max: Duration,
    /// How long a server may go on with a change after its connection has ended.
    pub settle_time: Duration,
    /// Where the cookies of requests begin. Nobody else may have the same ones: what answers a
    /// former session of this process or another one is told apart by them.
    pub first_cookie: u64,
}

#[derive(Debug)]
enum Session {
    Up(Vec<Link>),
    /// A link was lost: the others finish what they have.
    Draining(Vec<Link>),
    /// The next attempt to connect is due then.
    Waiting(Instant),
    /// Somebody is connecting.
    Dialling,
    /// The server came back with another disk: all requests fail. It is looked again then.
    Other(Instant),
}

impl Session {
    fn links(&mut self) -> &mut [Link] {
        match self {
            Self::Up(links) | Self::Draining(links) => links,
            Self::Waiting(_) | Self::Dialling | Self::Other(_) => &mut [],
        }
    }
}

/// An export of a server, across its restarts.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    geometry: OriginGeometry,
    pool: BufPool,
    work: Work,
    cut: Cut,
    session: Session,
    links_made: u64,
    /// Before the attempt after the next.
    pause: Duration,
    /// Ended without a word to the server; handed out by the next poll.
    ended: Vec<OriginDone>,
    effects: VecDeque<Effect>,
}

impl Client {
    /// A client whose connections have these terms, and what it calls them, in the same order. The
    /// geometry is that of the first.
    ///
    /// # Panics
    /// If there is no connection.
    pub fn new(
        connections: &[Terms],
        geometry: OriginGeometry,
        settings: Settings,
        pool: &BufPool,
    ) -> (Self, Vec<LinkId>) {
        let terms = connections.first().expect("there is a connection");
        let mut client = Self {
            settings,
            geometry,
            pool: pool.clone(),
            work: Work::new(
                terms,
                geometry.read_only,
                settings.request_timeout,
                pool.clone(),
            ),
            cut: Cut::default(),
            session: Session::Dialling,
            links_made: 0,
            pause: Duration::ZERO,
            ended: Vec::new(),
            effects: VecDeque::new(),
        };
        let names = client.connect(connections);
        (client, names)
    }

    fn connect(&mut self, connections: &[Terms]) -> Vec<LinkId> {
        let first = self.links_made;
        let named = (first..).map(LinkId).zip(connections);
        let links = named.map(|(id, terms)| {
            let range = id.0.wrapping_mul(limits::COOKIES_PER_LINK);
            let cookie = self.settings.first_cookie.wrapping_add(range);
            Link::new(id, terms.structured, cookie, &self.pool)
        });
        let links: Vec<Link> = links.collect();
        self.links_made += links.len() as u64;
        let names = links.iter().map(Link::id).collect();
        self.session = Session::Up(links);
        names
    }

    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    /// The server's number for the failure of an operation that has ended, once; `None` if it was not the
    /// server that failed it.
    pub fn error_number(&mut self, token: Token) -> Option<i32> {
        self.work.error_number(token)
    }

    /// Whether the server can be reached, as far as is known.
    pub fn is_connected(&self) -> bool {
        matches!(self.session, Session::Up(_))
    }

    /// Changes of former sessions may still happen, most likely not after `patience`: no operation of
    /// their ranges is sent before [`Client::late_change_is_over`].
    pub fn expect_late_changes(&mut self, changes: &[SentChange], patience: Instant) {
        self.work.expect_late_changes(changes, patience);
    }

    /// A change of a former session cannot happen any more.
    pub fn late_change_is_over(&mut self, cookie: u64) {
        self.work.late_change_is_over(cookie);
    }

    /// Bytes of changes that were given up and may still happen, of this session and former ones.
    pub fn late_bytes(&self) -> Bytes {
        Bytes::new(self.work.late_bytes())
    }

    /// Bytes of changes whose connection has ended before their answers, and that may still happen: they were sent
    /// again, and could undo what another host writes from now on.
    pub fn cut_bytes(&self) -> Bytes {
        Bytes::new(self.cut.bytes())
    }

    /// Takes an operation; [`Client::poll`] hands it back.
    pub fn submit(&mut self, op: OriginOp, now: Instant) {
        if let Err(error) = op.verb.check(&self.geometry) {
            self.ended.push(op.ended(Err(error)));
            return;
        }
        self.work.submit(op, now, &mut self.ended);
        self.pump();
    }

    /// Lets time pass: appends the operations that have ended, and sends what may be sent. To be
    /// called after events, and when [`Client::next_deadline`] has come.
    pub fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        done.append(&mut self.ended);
        self.advance(now, done);
        let over = self.cut.end(now);
        self.effects.extend(over.map(Effect::Answered));
        let error = if self.is_connected() {
            IoError::TimedOut
        } else {
            IoError::Disconnected
        };
        self.work.expire(now, error, done);
        self.pump();
    }

    /// Whoever drives the client stood still for so long, and took in nothing of what the server answered:
    /// that time counts against no operation. To be called before the next poll.
    pub fn stood_still(&mut self, time: Duration) {
        self.work.stood_still(time);
    }

    /// When [`Client::poll`] has to be called although nothing has happened.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.ended.is_empty() {
            return Some(Instant::ZERO);
        }
        let due = match &self.session {
            Session::Waiting(due) => Some(*due),
            Session::Other(due) => Some(self.work.next_deadline().map_or(*due, |_| Instant::ZERO)),
            Session::Up(_) | Session::Draining(_) | Session::Dialling => None,
        };
        let due = due.into_iter().chain(self.work.next_deadline());
        due.chain(self.cut.until()).min()
    }

    /// What is to be done next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Bytes have arrived over a connection.
    pub fn received(
        &mut self,
        link: LinkId,
        bytes: &[u8],
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) {
        let mut links = self.session.links().iter_mut();
        let found = links.find(|other| other.id() == link);
        let Some(found) = found else {
            return;
        };
        let is_nonsense = found.received(bytes, &mut self.work, now, done);
        let answered = found.take_answered().into_iter();
        self.effects.extend(answered.map(Effect::Answered));
        if is_nonsense {
            self.effects.push_back(Effect::HalfClose(link));
        }
    }

    /// All bytes of the last [`Effect::Send`] of a connection are on their way.
    pub fn sent(&mut self, link: LinkId) {
        if let Some(found) = self.find(link) {
            found.sent();
            let output = found.take_output();
            self.send(link, output);
        }
    }

    /// A connection can send no more. What it still receives counts, up to [`Client::ended`].
    pub fn broken(&mut self, link: LinkId, why: String) {
        if let Some(link) = self.find(link) {
            link.broken(why);
        }
    }

    /// A connection has come to the end of its stream, or can receive no more.
    pub fn ended(&mut self, link: LinkId, why: String) {
        if let Some(link) = self.find(link) {
            link.ended(why);
        }
    }

    /// There are new connections with these terms. Returns what they are called, in the same order;
    /// `None` if the server has another disk now and they are to be closed.
    ///
    /// # Panics
    /// If there is no connection, or [`Effect::Dial`] was not asked for.
    pub fn dialled(
        &mut self,
        connections: &[Terms],
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Option<Vec<LinkId>> {
        assert!(
            matches!(self.session, Session::Dialling),
            "who did not ask for connections gets none"
        );
        let terms = connections.first().expect("there is a connection");
        let same = geometry(terms, self.geometry.read_only)
            .is_ok_and(|g| g.size >= self.geometry.size && g.sector <= self.geometry.sector);
        if !same {
            let (was, is) = (self.geometry.size, terms.export.size);
            let report = Report::OtherDisk { was, is };
            self.effects.push_back(Effect::Report(report));
            let due = self.next_attempt(now).max(now + limits::OTHER_DISK_PAUSE);
            self.session = Session::Other(due);
            return None;
        }
        let report = Report::Connected {
            connections: connections.len(),
        };
        self.effects.push_back(Effect::Report(report));
        self.work.restart(terms, done);
        Some(self.connect(connections))
    }

    /// [`Effect::Dial`] came to nothing.
    pub fn not_reached(&mut self, now: Instant) {
        self.session = Session::Waiting(self.next_attempt(now));
    }

    /// The far side has become longer. It says what it has when it is asked anew, so the
    /// connections are made again.
    ///
    /// # Errors
    /// [`IoError::Invalid`] if the disk would become shorter, or end within a sector.
    pub fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
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

    /// Closes all connections. What is in flight may still happen, and is not handed back.
    pub fn close(&mut self) {
        self.effects.clear();
        for link in self.session.links() {
            let goodbye = link.goodbye();
            let link = link.id();
            self.effects.push_back(Effect::Close { link, goodbye });
        }
    }

    fn find(&mut self, link: LinkId) -> Option<&mut Link> {
        let mut links = self.session.links().iter_mut();
        links.find(|other| other.id() == link)
    }

    fn send(&mut self, link: LinkId, output: Option<Vec<block_io::Slice>>) {
        if let Some(slices) = output {
            self.effects.push_back(Effect::Send { link, slices });
        }
    }

    /// Sends what may be sent, each request over the connection with the least to do.
    fn pump(&mut self) {
        let Session::Up(links) = &mut self.session else {
            return;
        };
        if self.work.wants_restart() || links.iter().any(|link| link.lost().is_some()) {
            return;
        }
        let room = links.iter().map(Link::room).sum();
        let effects = &mut self.effects;
        let mut send = |request: Request| {
            let link = links.iter_mut().max_by_key(|link| link.room());
            let mut change = request.change();
            let cookie = link.expect("a session has a link").request(request);
            if let Some(change) = &mut change {
                change.cookie = cookie;
            }
            effects.extend(change.map(Effect::Remember));
        };
        self.work.issue(room, &mut send);
        for link in links {
            if let Some(slices) = link.take_output() {
                let link = link.id();
                self.effects.push_back(Effect::Send { link, slices });
            }
        }
    }

    /// Moves the session on as far as it goes without waiting.
    fn advance(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        loop {
            let next = match &mut self.session {
                Session::Up(links) => {
                    if links.iter().any(Link::has_answered) {
                        self.pause = Duration::ZERO;
                    }
                    let lost = links.iter().find_map(Link::lost).map(str::to_owned);
                    let lost = match lost {
                        None if self.work.wants_restart() => {
                            // The server works; it must not be asked again and again.
                            self.pause = self.pause.max(limits::REPEAT_PAUSE);
                            Some("a flush failed, its changes are to be repeated".to_owned())
                        }
                        lost => lost,
                    };
                    let Some(why) = lost else {
                        return;
                    };
                    let links = std::mem::take(links);
                    self.effects.push_back(Effect::Report(Report::Lost { why }));
                    Session::Draining(links)
                }
                Session::Draining(links) => {
                    for mut link in links
                        .extract_if(.., |link| link.is_spent() || !holds(Guard::DrainBeforeDial))
                    {
                        let mut answered = link.take_answered();
                        let until = now + self.settings.settle_time;
                        answered.extend(self.cut.begin(link.take_cut(), until));
                        self.effects
                            .extend(answered.into_iter().map(Effect::Answered));
                        let (link, goodbye) = (link.id(), link.goodbye());
                        self.effects.push_back(Effect::Close { link, goodbye });
                    }
                    if !links.is_empty() {
                        return;
                    }
                    Session::Waiting(self.next_attempt(now))
                }
                Session::Waiting(due) if *due <= now => {
                    self.effects.push_back(Effect::Dial);
                    Session::Dialling
                }
                Session::Other(due) => {
                    let due = *due;
                    self.work.fail_all(IoError::Failed, done);
                    if now < due {
                        return;
                    }
                    Session::Waiting(due)
                }
                Session::Waiting(_) | Session::Dialling => return,
            };
            self.session = next;
        }
    }

    /// When to try next: at once after the loss of a connection that worked, then after pauses
    /// that double.
    fn next_attempt(&mut self, now: Instant) -> Instant {
        let pause = self.pause;
        let doubled = Duration::from_nanos(pause.as_nanos().saturating_mul(2));
        let longest = self.settings.reconnect_pause_max;
        self.pause = doubled.max(limits::RECONNECT_PAUSE_MIN).min(longest);
        now + pause
    }
}
