//! The real NBD client between a modelled core and a modelled server.
//!
//! ```text
//!   core: reads, changes, flushes, many over each other
//!     │ submit      ▲ done                      ┌── checker
//!   nbd_client::Client ──effects──► streams of bytes ──► server ──► disk (volatile and durable)
//!                      ◄──events── (cut anywhere)    ◄──
//!        connections that break, crashes that forget, shutdowns, standstill, errors, failed
//!        flushes, nonsense, a disk that comes back shorter
//! ```
//!
//! The server carries requests out sector by sector, in any order and late, and answers in any
//! order. When a connection breaks it goes on with what it has received up to the end of that
//! stream; a crash ends everything at once and forgets what was not flushed. One seed decides all.

mod checker;
mod connection;
mod disk;
mod faults;
mod guest;
mod server;
mod settings;

pub use settings::Settings;

use crate::trace::Trace;
use crate::{Failure, Marks, Options, Outcome, Violation};
use block_io::{BufPool, OriginDone, OriginVerb};
use checker::{Checker, Doing};
use nbd_client::{Client, Effect, LinkId, Report};
use server::{Server, bytes_of, value_of};
use std::panic::AssertUnwindSafe;
use units::{Duration, Instant, Prng};

/// Sectors of the disk: few, so that operations meet.
pub(crate) const SECTORS: usize = 12;

/// Nothing may take so many times the time limit of a request when all faults have ended.
const PATIENCE: u64 = 40;

/// Runs the world of a seed. On a failure runs it again to record its trace.
///
/// # Errors
/// The first violation, or a panic of the client, with the trace that led to it.
pub fn run(options: Options) -> Result<Outcome, Box<Failure>> {
    match attempt(options, options.trace) {
        Err(_) if !options.trace => attempt(options, true),
        result => result,
    }
}

fn attempt(options: Options, keep_lines: bool) -> Result<Outcome, Box<Failure>> {
    let mut world = NbdWorld::new(options.seed, keep_lines);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(Ok(())) => {
            return Ok(Outcome {
                digest: world.trace.digest(),
                marks: world.marks,
                operations: world.asked,
                trace: world.trace.into_lines(),
            });
        }
        Ok(Err(violation)) => violation,
        Err(panic) => Violation::new("assert", crate::message_of(&*panic)),
    };
    Err(Box::new(Failure {
        violation,
        trace: world.trace.into_lines(),
    }))
}

/// A connection as the client's side sees it.
struct Stream {
    link: LinkId,
    connection: u64,
    /// Handed over by the client, not yet taken by the stream.
    sending: Option<Vec<u8>>,
    ended: bool,
}

#[allow(
    clippy::struct_excessive_bools,
    reason = "each comes and goes on its own"
)]
struct NbdWorld {
    settings: Settings,
    dice: Prng,
    now: Instant,
    client: Client,
    server: Server,
    streams: Vec<Stream>,
    pool: BufPool,
    checker: Checker,
    trace: Trace,
    marks: Marks,
    asked: u64,
    dialling: bool,
    /// The server has fewer sectors than the disk.
    short: bool,
    /// When the server is there again, works again, or has ended its shutdown.
    fault_ends: Instant,
    faults: bool,
    done: Vec<OriginDone>,
    /// The client has been told that the server has another disk.
    other: bool,
}

impl NbdWorld {
    fn new(seed: u64, keep_lines: bool) -> Self {
        let mut dice = Prng::new(seed);
        let settings = Settings::of(&mut dice);
        let mut server = Server::new(settings, dice.fork());
        let pool = BufPool::new();
        let terms = vec![settings.terms(SECTORS); settings.connections()];
        let geometry = nbd_client::geometry(&terms[0], false).expect("a disk of whole sectors");
        let limits = nbd_client::Settings {
            request_timeout: settings.request_timeout,
            reconnect_pause_max: Duration::from_millis(20),
            settle_time: Duration::ZERO,
            first_cookie: seed,
        };
        let (client, links) = Client::new(&terms, geometry, limits, &pool);
        let streams = links.into_iter().map(|link| Stream {
            link,
            connection: server.accept(),
            sending: None,
            ended: false,
        });
        Self {
            streams: streams.collect(),
            settings,
            now: Instant::from_nanos(1_000_000),
            client,
            server,
            pool,
            checker: Checker::default(),
            trace: Trace::new(keep_lines, true),
            marks: Marks::default(),
            asked: 0,
            dialling: false,
            short: false,
            fault_ends: Instant::ZERO,
            faults: true,
            done: Vec::new(),
            other: false,
            dice,
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        while self.asked < self.settings.operations {
            self.faults = true;
            self.step(true)?;
        }
        self.settle()?;
        self.ask(OriginVerb::Flush);
        self.settle()?;
        for _ in 0..2 {
            // The second time after a crash that forgets whatever it can.
            for sector in 0..SECTORS {
                self.ask_read(sector, 1);
            }
            self.settle()?;
            self.server.crash();
        }
        Ok(())
    }

    /// Goes on without faults until everything has ended.
    fn settle(&mut self) -> Result<(), Violation> {
        self.faults = false;
        self.server.fail(false);
        let began = self.now;
        let patience = self.settings.request_timeout.as_nanos() * PATIENCE;
        while self.checker.in_flight() > 0 || !self.client.is_connected() {
            self.step(false)?;
            if self.now > began + Duration::from_nanos(patience) {
                let oldest = self.checker.oldest();
                let what = format!("nothing moves; the oldest operation is of {oldest:?}");
                return Err(Violation::new("I8", what));
            }
        }
        Ok(())
    }

    /// Something happens here and there, and a little time passes.
    fn step(&mut self, asks: bool) -> Result<(), Violation> {
        self.now = self.now + Duration::from_micros(self.dice.below(800));
        if asks && self.checker.in_flight() < self.settings.depth && self.dice.one_in(2) {
            self.ask_something();
        }
        self.end_faults();
        if self.faults && self.dice.one_in(self.settings.fault_every) {
            self.fault();
        }
        let sectors = if self.short { SECTORS - 1 } else { SECTORS };
        self.server.work(&self.settings.terms(sectors));
        for index in 0..self.streams.len() {
            self.move_bytes(index);
        }
        if self.dialling && self.dice.one_in(4) {
            self.dial();
        }
        if self.dice.one_in(2)
            || self
                .client
                .next_deadline()
                .is_some_and(|due| due <= self.now)
        {
            self.client.poll(self.now, &mut self.done);
        }
        self.act();
        self.check()
    }

    /// Carries out what the client asks for.
    fn act(&mut self) {
        while let Some(effect) = self.client.next_effect() {
            match effect {
                // There is one session here.
                Effect::Remember(_) | Effect::Answered(_) => {}
                Effect::Send { link, slices } => {
                    let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
                    let bytes: Vec<u8> = bytes.collect();
                    let stream = self.streams.iter_mut().find(|one| one.link == link);
                    let stream = stream.expect("a connection that is sent to is open");
                    assert!(stream.sending.is_none(), "one send at a time");
                    stream.sending = Some(bytes);
                }
                Effect::HalfClose(link) => {
                    self.marks.hit("half-closed");
                    let stream = self.streams.iter_mut().find(|one| one.link == link);
                    let stream = stream.expect("a connection that is half-closed is open");
                    stream.sending = None;
                    self.server.half_close(stream.connection);
                }
                Effect::Close { link, .. } => {
                    let at = self.streams.iter().position(|one| one.link == link);
                    let at = at.expect("a connection is closed once");
                    let stream = self.streams.remove(at);
                    self.server.close(stream.connection);
                }
                Effect::Dial => self.dialling = true,
                Effect::Report(report) => self.note(&report),
            }
        }
    }

    fn note(&mut self, report: &Report) {
        self.trace.event(self.now, &[1], || format!("{report:?}"));
        self.marks.hit(match report {
            Report::Lost { .. } => "lost",
            Report::Connected { .. } => "connected again",
            Report::OtherDisk { .. } => "came back shorter",
        });
        match report {
            Report::OtherDisk { .. } => self.other = true,
            Report::Connected { .. } => self.other = false,
            Report::Lost { .. } => {}
        }
    }

    fn dial(&mut self) {
        self.dialling = false;
        if !self.server.takes_clients() {
            self.client.not_reached(self.now);
            return;
        }
        let sectors = if self.short { SECTORS - 1 } else { SECTORS };
        let terms = vec![self.settings.terms(sectors); self.settings.connections()];
        let Some(links) = self.client.dialled(&terms, self.now, &mut self.done) else {
            return;
        };
        for link in links {
            self.streams.push(Stream {
                link,
                connection: self.server.accept(),
                sending: None,
                ended: false,
            });
        }
    }

    /// Moves bytes of one connection in both directions, as many as the dice say.
    fn move_bytes(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        let (link, connection) = (stream.link, stream.connection);
        if let Some(bytes) = &mut stream.sending
            && self.dice.one_in(2)
        {
            let count = self.dice.below(bytes.len() as u64 + 1);
            let count = usize::try_from(count).expect("an index of the bytes");
            let count = if self.dice.one_in(3) {
                count
            } else {
                bytes.len()
            };
            let rest = bytes.split_off(count);
            let taken = std::mem::replace(bytes, rest);
            if !self.server.send(connection, &taken) {
                stream.sending = None;
                self.marks.hit("cannot send");
                self.client.broken(link, "broken pipe".to_owned());
            } else if bytes.is_empty() {
                stream.sending = None;
                self.client.sent(link);
            }
        }
        if stream.ended || self.dice.one_in(2) {
            return;
        }
        let count = usize::try_from(1 + self.dice.below(1500)).expect("a small number");
        match self.server.receive(connection, count) {
            Some(bytes) if bytes.is_empty() => {
                stream.ended = true;
                self.client.ended(link, "the end of the stream".to_owned());
            }
            Some(bytes) => {
                self.client.received(link, &bytes, self.now, &mut self.done);
            }
            None => {}
        }
    }

    /// Looks at what has ended.
    fn check(&mut self) -> Result<(), Violation> {
        for done in std::mem::take(&mut self.done) {
            let seen: Vec<u64> = done
                .buf
                .as_ref()
                .map_or(Vec::new(), |buf| buf.chunks(512).map(value_of).collect());
            let (token, result) = (done.token, done.result);
            let kind = result.err().map_or(0, |error| 1 + error as u64);
            self.trace.event(self.now, &[2, token.0, kind], || {
                format!("{} ended: {result:?} {seen:x?}", token.0)
            });
            if let Err(error) = result {
                self.marks.hit(match error {
                    block_io::IoError::TimedOut => "timed out",
                    block_io::IoError::Disconnected => "disconnected",
                    _ => "failed",
                });
            }
            let excuses = self.server.errors() + u64::from(self.other);
            let reasons = (self.now, self.settings.request_timeout, excuses);
            self.checker
                .ended(&done, &seen, self.server.disk(), reasons)?;
        }
        Ok(())
    }
}
