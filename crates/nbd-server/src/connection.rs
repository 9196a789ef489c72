//! One client in its transmission phase, on a shard's thread and ring.
//!
//! The shard's loop drives it:
//!
//! ```text
//!  source ready ─► poll(&mut incoming) ─► requests to the disk
//!  disk answers ─► reply(key, result)  ┐ any number, then
//!                  poll(&mut incoming) ◄ once: all replies of the turn leave in one send
//!  State::Finished ─► drop it
//! ```
//!
//! ```text
//!  Open ── DISC, end of stream, close() ──► Draining ── all answered and sent ──► Finished
//!    └──── hung up, error, nonsense ──────► Broken ──── all answered ───────────► Finished
//! ```
//!
//! Invariants:
//! - What a client has asked for before its goodbye is carried out, also when it hangs up.
//! - At most one receive and one send are in flight, and one poll for a hang-up; replies are gathered meanwhile.
//! - Every [`Incoming`] is answered by exactly one [`reply`](frontend::Connection::reply), also when its client
//!   has gone; only then is the connection finished.
//! - At a limit nothing is received: the socket's buffer fills and the client waits.

use crate::intake::{Intake, Taken};
use crate::limits::UNSENT_SLICES_MAX;
use crate::negotiated::{Admission, Negotiated};
use crate::outbox::Outbox;
use crate::parting::{HungUp, Parting, ends_with_goodbye, is_hung_up};
use block_io::{BufPool, IoError, Payload, Slice, Verb};
use frontend::budget::Account;
use frontend::limits::{ConnectionLimits, weight_of_range};
use frontend::{Connection as _, InFlight, Incoming, RequestKey, State, Weight};
use nbd_protocol::{Command, Cookie, Errno, Terms};
use ring::{Completion, Op, Ring, Source, SourceId};
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Offset;

/// Why a client is cut off that does not do its part.
#[derive(Debug, thiserror::Error)]
#[error("it kept memory that others wait for, and did not send or receive the rest")]
struct Stalled;

const TOKEN_RECV: u64 = 0;
const TOKEN_SEND: u64 = 1;
const TOKEN_HANG_UP: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more requests are taken; replies still go out.
    Draining,
    /// Nothing goes in or out; requests at the disk are waited for.
    Broken,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// With this much data from there.
    Data { offset: Offset, length: u32 },
    /// With success or failure.
    Word,
    /// With success or failure, but a flush comes first.
    WordAfterFlush,
}

/// A request at the disk.
#[derive(Clone, Copy, Debug)]
struct Asked {
    cookie: Cookie,
    answer: Answer,
}

/// A client's connection. [`frontend::Connection`] says how it is driven.
pub struct Connection {
    source: Source,
    socket: Rc<OwnedFd>,
    export: String,
    terms: Terms,
    pool: BufPool,
    limits: ConnectionLimits,
    intake: Intake,
    outbox: Outbox,
    requests: InFlight<Asked>,
    phase: Phase,
    receiving: bool,
    sending: bool,
    parting: Parting,
    /// Nobody receives any more, whatever was said before.
    has_hung_up: bool,
    account: Account,
    /// Requests taken and answers sent: see [`debt`](frontend::Connection::debt).
    progress: u64,
    _admission: Admission,
}

impl Connection {
    /// Takes over a client. Call [`poll`](frontend::Connection::poll) next: requests may have arrived already.
    pub fn new(
        negotiated: Negotiated,
        ring: &Ring,
        pool: &BufPool,
        limits: ConnectionLimits,
    ) -> Self {
        let terms = negotiated.terms;
        let (source, socket) = (ring.source(), Rc::new(negotiated.socket));
        let fd = Rc::clone(&socket);
        source.submit(TOKEN_HANG_UP, Op::PollHangUp { fd });
        Self {
            source,
            socket,
            export: negotiated.export,
            terms,
            pool: pool.clone(),
            limits,
            intake: Intake::new(pool, &negotiated.leftover),
            outbox: Outbox::new(pool, terms.structured),
            requests: InFlight::default(),
            phase: Phase::Open,
            receiving: false,
            sending: false,
            parting: Parting::default(),
            has_hung_up: false,
            account: Account::default(),
            progress: 0,
            _admission: negotiated.admission,
        }
    }

    /// The same, taking its memory from a budget that it shares with others. Poll it when its account
    /// is told that it was granted room.
    #[must_use]
    pub fn charging(mut self, account: Account) -> Self {
        self.account = account;
        self
    }

    /// The export's name as the client wrote it.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// Tells the account what is held: what was answered and sent is given back.
    fn settle(&self) {
        let held =
            self.requests.weight().memory + self.outbox.bytes() + self.intake.memory() as u64;
        self.account.settle(held);
    }

    /// True once nothing more will come of it.
    fn is_finished(&self) -> bool {
        let answered = self.requests.is_empty();
        match self.phase {
            Phase::Open => false,
            Phase::Draining => answered && !self.sending && self.outbox.bytes() == 0,
            Phase::Broken => answered,
        }
    }

    fn received(&mut self, completion: Completion) {
        self.receiving = false;
        let buf = completion.buf.expect("a receive returns its buffer");
        match completion.result {
            Ok(bytes) => {
                self.intake.give_back(buf, bytes);
                if bytes == 0 {
                    // The client may have closed one direction only and wait for its answers.
                    if self.parting == Parting::Stays {
                        self.parting = Parting::Ended;
                    }
                    self.close();
                }
            }
            Err(error) => {
                self.intake.give_back(buf, 0);
                if self.phase == Phase::Open {
                    self.fail("receiving", &error);
                }
            }
        }
    }

    fn sent(&mut self, completion: Completion) {
        self.sending = false;
        match completion.result {
            Ok(bytes) if self.phase != Phase::Broken => {
                self.outbox.sent(completion.slices, bytes);
                self.progress += u64::from(self.outbox.bytes() == 0);
            }
            Err(error) if self.phase != Phase::Broken => self.fail("sending", &error),
            Ok(_) | Err(_) => {}
        }
    }

    fn fail(&mut self, doing: &'static str, error: &dyn std::error::Error) {
        let export = &self.export;
        tracing::info!(export, doing, %error, "NBD client lost");
        self.phase = Phase::Broken;
        self.outbox.clear();
        self.intake.forget();
        self.account.withdraw();
        // The client learns of it at once rather than when the disk has answered.
        if let Err(error) = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both) {
            tracing::trace!(export, %error, "the socket was shut down already");
        }
    }

    /// A client that hangs up without a goodbye waits for nothing. That is known when everything that it has sent was
    /// read, or, of one that is not read at a limit, when no goodbye is unread.
    fn look_for_hang_up(&mut self) {
        let says_no_more = match self.parting {
            Parting::Ended => true,
            Parting::Goodbye => false,
            Parting::Stays => {
                !self.receiving && !ends_with_goodbye(self.intake.received(), &self.socket)
            }
        };
        if says_no_more {
            self.fail("answering", &HungUp);
        }
    }

    fn has_room(&self) -> bool {
        self.requests.len() < self.limits.requests
            && self.requests.weight().bytes + self.outbox.bytes() < self.limits.bytes.get()
            && self.outbox.waiting() < UNSENT_SLICES_MAX
    }

    fn take_requests(&mut self, incoming: &mut Vec<Incoming>) {
        if self.receiving {
            return;
        }
        while self.phase == Phase::Open {
            if !self.has_room() {
                return;
            }
            let mut taken = self.intake.take(&self.terms, &self.pool);
            if let Taken::Announced { memory } = taken {
                if !self.account.charge(memory as u64) {
                    // The shard polls again when there is room.
                    return;
                }
                self.progress += 1;
                taken = self.intake.admit(&self.terms, &self.pool);
            }
            match taken {
                Taken::Announced { .. } => unreachable!("it was admitted"),
                Taken::Starved => return self.receive(),
                Taken::Refused { cookie, errno } => self.outbox.failure(cookie, errno),
                Taken::Lost(loss) => self.fail("parsing", &loss),
                Taken::Request {
                    cookie,
                    command,
                    data,
                } => self.accept(cookie, command, data, incoming),
            }
        }
    }

    fn receive(&mut self) {
        let room = self.intake.lend().expect("no receive is under way");
        self.receiving = true;
        let op = Op::Recv {
            socket: Rc::clone(&self.socket),
            buf: room.buf,
            start: room.start,
            end: room.end,
        };
        self.source.submit(TOKEN_RECV, op);
    }

    fn send(&mut self) {
        if self.sending || self.phase == Phase::Broken {
            return;
        }
        if let Some(slices) = self.outbox.take() {
            self.sending = true;
            let socket = Rc::clone(&self.socket);
            self.source.submit(TOKEN_SEND, Op::Send { socket, slices });
        }
    }

    fn accept(
        &mut self,
        cookie: Cookie,
        command: Command,
        data: Option<Slice>,
        incoming: &mut Vec<Incoming>,
    ) {
        let (verb, (answer, bytes)) = match command {
            Command::Read { offset, length, .. } => {
                let bytes = length.get();
                let length_wire = u32::try_from(bytes).expect("a length came in 32 bits");
                let answer = Answer::Data {
                    offset,
                    length: length_wire,
                };
                (Verb::Read { offset, length }, (answer, bytes))
            }
            Command::Write {
                offset,
                length,
                fua,
            } => {
                let data = data.expect("a write has a payload");
                let verb = Verb::Write { offset, data, fua };
                (verb, (Answer::Word, length.get()))
            }
            Command::Flush => (Verb::Flush, (Answer::Word, 0)),
            Command::Trim {
                offset,
                length,
                fua,
            } => {
                let answer = if fua {
                    Answer::WordAfterFlush
                } else {
                    Answer::Word
                };
                let weight = weight_of_range(length).get();
                (Verb::Discard { offset, length }, (answer, weight))
            }
            Command::Cache { offset, length } => {
                let weight = weight_of_range(length).get();
                (Verb::Prefetch { offset, length }, (Answer::Word, weight))
            }
            Command::WriteZeroes { fast: true, .. } => {
                // Whether the origin zeroes fast is not known here; it is not offered either.
                return self.outbox.failure(cookie, Errno::NotSup);
            }
            Command::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
                fast: false,
            } => {
                let verb = Verb::WriteZeroes {
                    offset,
                    length,
                    may_unmap,
                    fua,
                };
                (verb, (Answer::Word, weight_of_range(length).get()))
            }
            Command::BlockStatus { length, .. } => {
                let length = u32::try_from(length.get()).expect("a length came in 32 bits");
                return self.outbox.all_allocated(cookie, length);
            }
            Command::Disconnect => {
                self.parting = Parting::Goodbye;
                return self.close();
            }
        };
        let memory = memory_of(&verb);
        let asked = Asked { cookie, answer };
        let key = self.requests.insert(asked, Weight { bytes, memory });
        incoming.push(Incoming { key, verb });
    }
}

/// A disk that grows is no event: NBD has no word for it, and who connects later finds it.
impl frontend::Connection for Connection {
    fn id(&self) -> SourceId {
        self.source.id()
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn in_flight(&self) -> usize {
        self.requests.len()
    }

    fn poll(&mut self, incoming: &mut Vec<Incoming>) -> State {
        while let Some(completion) = self.source.pop() {
            match completion.token {
                TOKEN_RECV => self.received(completion),
                TOKEN_HANG_UP => self.has_hung_up = is_hung_up(&self.socket),
                _ => self.sent(completion),
            }
        }
        if self.phase == Phase::Open {
            self.take_requests(incoming);
        }
        if self.has_hung_up && self.phase != Phase::Broken && !self.is_finished() {
            self.look_for_hang_up();
        }
        self.send();
        self.settle();
        if self.is_finished() {
            State::Finished
        } else if self.phase == Phase::Broken && self.parting != Parting::Goodbye {
            State::HungUp
        } else {
            State::Open
        }
    }

    fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming> {
        let asked = self.requests.get_mut(key);
        if asked.answer == Answer::WordAfterFlush && result.is_ok() {
            asked.answer = Answer::Word;
            let verb = Verb::Flush;
            return Some(Incoming { key, verb });
        }
        let Asked { cookie, answer } = self.requests.remove(key);
        if self.phase == Phase::Broken {
            return None;
        }
        match (result, answer) {
            (Err(error), _) => self.outbox.failure(cookie, Errno::from(error)),
            (Ok(data), Answer::Data { offset, length }) => {
                self.outbox.data(cookie, offset, length, data);
            }
            (Ok(_), Answer::Word | Answer::WordAfterFlush) => self.outbox.success(cookie),
        }
        None
    }

    fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
            self.intake.forget();
            self.account.withdraw();
        }
    }

    fn debt(&self) -> Option<u64> {
        let owes = self.intake.awaits_payload() || self.outbox.bytes() > 0;
        (owes && self.phase != Phase::Broken && self.account.is_large()).then_some(self.progress)
    }

    fn cut_off(&mut self) {
        if self.phase != Phase::Broken {
            self.fail("waiting", &Stalled);
            self.settle();
        }
    }
}

/// What a request takes of the memory budget.
fn memory_of(verb: &Verb) -> u64 {
    let bytes = match verb {
        Verb::Read { length, .. } => length.to_usize(),
        Verb::Write { data, .. } => data.len(),
        Verb::Prefetch { .. } | Verb::Flush | Verb::Discard { .. } | Verb::WriteZeroes { .. } => {
            return 0;
        }
    };
    BufPool::bytes_taken(bytes) as u64
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The receive in flight holds the socket open until its cancellation is through; the
        // client should not have to wait for that.
        if let Err(error) = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both) {
            tracing::trace!(export = self.export, %error, "the socket was shut down already");
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("export", &self.export)
            .field("phase", &self.phase)
            .field("in_flight", &self.requests.len())
            .field("unsent", &self.outbox.bytes())
            .finish_non_exhaustive()
    }
}
