//! A session with a unit as the wire of an NBD client: requests become commands, their ends become answers.
//!
//! ```text
//!   request ─► pieces, each a command ─► libiscsi ─► socket
//!      ▲            ▲      │ unit attention: again, or a new session where the unit was reset
//!   answer ◄── last piece ended
//! ```

use super::remote::{Writer, take_leave};
use super::unit::Abilities;
use crate::nbd::{Sending, Wire};
use block_io::{Buf, BufPool, OriginDone, Slice};
use libiscsi::cdb::{self, Cdb, Durable};
use libiscsi::{Command, Data, Ended, Outcome, Running, Sense, Session};
use nbd_client::{Client, LinkId};
use nbd_protocol::{CommandFlags, Cookie, Errno, RequestHeader, reply, wire};
use ring::{Op, Ring, Source, SourceId};
use slab::Slab;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Instant;

const READABLE: u64 = 0;
const WRITABLE: u64 = 1;
const WAKE: u64 = 2;

/// Zeroes that are written at a time where the unit cannot zero a range.
const ZERO_BYTES: usize = 256 << 10;

/// A request of the client.
#[derive(Debug)]
struct Request {
    header: RequestHeader,
    /// Commands that have not ended.
    left: usize,
    result: Result<(), Errno>,
    /// What was read.
    read: Option<Buf>,
    /// The unit's cache is to be written when all of it has succeeded.
    flushes: bool,
}

/// A session with a unit, as the wire of an NBD client.
pub(super) struct Bridge {
    link: LinkId,
    origin: String,
    able: Abilities,
    writer: Option<Writer>,
    /// None when it is dropped.
    running: Option<Running>,
    source: Source,
    /// None where the connection was lost before it began.
    socket: Option<Rc<OwnedFd>>,
    /// What is polled for.
    polls: Polls,
    /// A header whose payload comes next.
    header: Option<RequestHeader>,
    requests: Slab<Request>,
    /// The unit has said so: it may have forgotten what it had not made durable.
    was_reset: bool,
    /// Why the connection is lost.
    lost: Option<String>,
    end: End,
    /// The unit knows no `WRITE SAME`.
    zeroes_by_writing: bool,
    pool: BufPool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Polls {
    readable: bool,
    writable: bool,
    wake: bool,
}

/// How far the end of the session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// Nothing more is asked; it ends with the last command.
    Draining,
    /// The client takes leave.
    Goodbye,
    /// The client knows.
    Told,
}

impl Bridge {
    pub(super) fn new(
        link: LinkId,
        running: Running,
        able: Abilities,
        origin: String,
        writer: Option<Writer>,
        ring: &Ring,
        pool: &BufPool,
    ) -> Self {
        let listening = running.listening();
        let lost = match &listening {
            Ok(Some(_)) => None,
            Ok(None) => Some("the target closed the connection".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let mut bridge = Self {
            link,
            origin,
            able,
            writer,
            running: Some(running),
            source: ring.source(),
            socket: listening.ok().flatten().map(Rc::new),
            polls: Polls::default(),
            header: None,
            requests: Slab::new(),
            was_reset: false,
            lost,
            end: End::Open,
            zeroes_by_writing: false,
            pool: pool.clone(),
        };
        bridge.listen();
        bridge
    }

    /// Polls for what the library waits for, and wakes us for what has ended already.
    fn listen(&mut self) {
        let (Some(running), Some(socket)) = (&self.running, &self.socket) else {
            return self.wake();
        };
        if self.lost.is_some() {
            return self.wake();
        }
        let events = running.events();
        let poll = |token, op| self.source.submit(token, op);
        if events & libc::POLLIN != 0 && !self.polls.readable {
            self.polls.readable = true;
            poll(
                READABLE,
                Op::PollIn {
                    fd: Rc::clone(socket),
                },
            );
        }
        if events & libc::POLLOUT != 0 && !self.polls.writable {
            self.polls.writable = true;
            poll(
                WRITABLE,
                Op::PollOut {
                    fd: Rc::clone(socket),
                },
            );
        }
        if running.has_ended() {
            self.wake();
        }
    }

    fn wake(&mut self) {
        if !self.polls.wake && self.end != End::Told {
            self.polls.wake = true;
            self.source.submit(WAKE, Op::Nop);
        }
    }

    fn service(&mut self, events: i16) {
        let Some(running) = &mut self.running else {
            return;
        };
        if self.lost.is_none() {
            self.lost = running.service(events);
        }
    }

    fn begin(&mut self, header: RequestHeader, payload: Option<Slice>) {
        let unit = u64::from(self.able.block_bytes);
        let (block, count) = (header.offset / unit, header.length / self.able.block_bytes);
        let fua = header.flags.has(CommandFlags::FUA);
        let durable = if fua { Durable::Yes } else { Durable::Later };
        let length = header.length as usize;
        let commands = match header.kind {
            wire::command::READ => {
                let buf = self.pool.take(length);
                vec![(cdb::read(block, count), Data::In { buf, length })]
            }
            wire::command::WRITE => {
                let data = payload.map_or(Data::Nothing, Data::Out);
                vec![(cdb::write(block, count, durable), data)]
            }
            wire::command::FLUSH => vec![(cdb::synchronize(), Data::Nothing)],
            wire::command::TRIM => self.discard(block, count),
            wire::command::WRITE_ZEROES => {
                let may_unmap = !header.flags.has(CommandFlags::NO_HOLE);
                self.zero(block, count, may_unmap, durable)
            }
            // The client sends nothing else.
            _ => Vec::new(),
        };
        let key = self.requests.insert(Request {
            header,
            left: commands.len(),
            result: Ok(()),
            read: None,
            // The command that zeroes knows no force unit access.
            flushes: fua && header.kind == wire::command::WRITE_ZEROES,
        });
        for (cdb, data) in commands {
            self.submit(key, cdb, data);
        }
    }

    fn submit(&mut self, key: usize, cdb: Cdb, data: Data) {
        if let Some(running) = &mut self.running {
            running.submit(Command {
                tag: key as u64,
                cdb,
                data,
            });
        }
    }

    fn discard(&self, block: u64, count: u32) -> Vec<(Cdb, Data)> {
        let most = self.able.discard_blocks.unwrap_or(count).max(1);
        let pieces = pieces(block, count, most);
        let commands = pieces.map(|(block, count)| {
            let range = self.pool.copy_of(&cdb::unmap_range(block, count));
            (cdb::unmap(), Data::Out(range))
        });
        commands.collect()
    }

    fn zero(&self, block: u64, count: u32, may_unmap: bool, durable: Durable) -> Vec<(Cdb, Data)> {
        let unit = self.able.block_bytes as usize;
        if self.zeroes_by_writing {
            let most = u32::try_from(ZERO_BYTES / unit).unwrap_or(1).max(1);
            let zeroes = self.pool.copy_of(&vec![0; most as usize * unit]);
            let commands = pieces(block, count, most).map(|(block, count)| {
                let data = zeroes.slice(0..count as usize * unit);
                (cdb::write(block, count, durable), Data::Out(data))
            });
            return commands.collect();
        }
        let unmap = may_unmap && self.able.zeroes_unmap;
        let zeroes = self.pool.copy_of(&vec![0; unit]);
        let commands = pieces(block, count, self.able.zero_blocks).map(|(block, count)| {
            (
                cdb::write_same(block, count, unmap),
                Data::Out(zeroes.clone()),
            )
        });
        commands.collect()
    }

    /// A command has ended; its request, if that was the last one.
    fn landed(&mut self, one: Ended) -> Option<Request> {
        let Ended { command, outcome } = one;
        let Command { tag, cdb, data } = command;
        let key = usize::try_from(tag).expect("a slab's key");
        let is_taken = outcome == Outcome::ReservationConflict;
        if let (true, Some(writer)) = (is_taken, &self.writer) {
            writer.say_who_was_taken(&self.origin);
        }
        let mut verdict = judge(self.requests[key].header.kind, &cdb, outcome);
        if self.was_reset && !is_taken {
            verdict = Verdict::Lost;
            self.lost
                .get_or_insert_with(|| "the unit was reset".to_owned());
        }
        let result = match verdict {
            Verdict::Is(result) => result,
            Verdict::Again => {
                self.submit(key, cdb, data);
                return None;
            }
            Verdict::Otherwise => {
                self.zero_otherwise(key, &cdb);
                return None;
            }
            // Once more, since whoever takes the unit resets it, too: a write is refused then. If it is not, the session
            // ends, and with the next one everything is written again that the unit may have forgotten.
            Verdict::Reset => {
                self.was_reset = true;
                self.submit(key, cdb, data);
                return None;
            }
            // The end of the connection says so.
            Verdict::Lost => return None,
        };
        let request = &mut self.requests[key];
        request.left -= 1;
        request.result = request.result.and(result);
        if let Data::In { buf, .. } = data {
            request.read = Some(buf);
        }
        if request.left > 0 {
            return None;
        }
        if request.flushes && request.result.is_ok() {
            request.flushes = false;
            request.left = 1;
            self.submit(key, cdb::synchronize(), Data::Nothing);
            return None;
        }
        Some(self.requests.remove(key))
    }

    /// Writes the zeroes of a range that the unit could not zero.
    fn zero_otherwise(&mut self, key: usize, refused: &Cdb) {
        self.zeroes_by_writing = true;
        let (block, count) = cdb::range_of(refused);
        let fua = self.requests[key].header.flags.has(CommandFlags::FUA);
        let durable = if fua { Durable::Yes } else { Durable::Later };
        let commands = self.zero(block, count, false, durable);
        self.requests[key].left += commands.len() - 1;
        for (cdb, data) in commands {
            self.submit(key, cdb, data);
        }
    }

    fn is_drained(&self) -> bool {
        let idle = self
            .running
            .as_ref()
            .is_none_or(|running| running.in_flight() == 0);
        self.end == End::Draining && idle
    }
}

/// What is made of a command's end.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is the request's result, or a part of it.
    Is(Result<(), Errno>),
    /// It was not begun, and is asked again.
    Again,
    /// The unit does not know it.
    Otherwise,
    /// The unit may have forgotten what it has not made durable, and what it was told and has not answered.
    Reset,
    /// Nobody knows.
    Lost,
}

/// What the end of a command means for the request of this kind that it is a part of.
fn judge(kind: u16, cdb: &Cdb, outcome: Outcome) -> Verdict {
    Verdict::Is(match outcome {
        Outcome::Good => Ok(()),
        Outcome::Lost => return Verdict::Lost,
        Outcome::Busy => Err(Errno::Shutdown),
        Outcome::ReservationConflict => Err(Errno::Perm),
        Outcome::Aborted => return Verdict::Reset,
        Outcome::Other(_) => Err(Errno::Io),
        Outcome::Check(sense) => match sense.key {
            Sense::UNIT_ATTENTION if sense.tells_of_a_reset() => return Verdict::Reset,
            Sense::UNIT_ATTENTION => return Verdict::Again,
            Sense::NOT_READY | Sense::ABORTED_COMMAND => Err(Errno::Shutdown),
            Sense::DATA_PROTECT if sense.code == Sense::NO_SPACE => Err(Errno::NoSpc),
            Sense::DATA_PROTECT => Err(Errno::Perm),
            // Giving back is a hint.
            Sense::ILLEGAL_REQUEST if kind == wire::command::TRIM => Ok(()),
            Sense::ILLEGAL_REQUEST if cdb[0] == cdb::WRITE_SAME => return Verdict::Otherwise,
            Sense::ILLEGAL_REQUEST => Err(Errno::Inval),
            _ => Err(Errno::Io),
        },
    })
}

/// A range in pieces of at most `most` blocks.
fn pieces(block: u64, count: u32, most: u32) -> impl Iterator<Item = (u64, u32)> {
    let most = most.max(1);
    let starts = (0..count).step_by(most as usize);
    starts.map(move |at| (block + u64::from(at), most.min(count - at)))
}

impl Wire for Bridge {
    fn link(&self) -> LinkId {
        self.link
    }

    fn source(&self) -> SourceId {
        self.source.id()
    }

    fn send(&mut self, slices: Vec<Slice>) -> Sending {
        for slice in slices {
            if let Some(header) = self.header.take() {
                self.begin(header, Some(slice));
                continue;
            }
            let header = slice.first_chunk().map(RequestHeader::decode);
            let Some(Ok(header)) = header else {
                unreachable!("the client sends headers, each in one piece")
            };
            if header.payload_bytes() > 0 {
                self.header = Some(header);
            } else {
                self.begin(header, None);
            }
        }
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.events() & libc::POLLOUT != 0)
        {
            self.service(libc::POLLOUT);
        }
        self.listen();
        Sending::Done
    }

    fn say(&mut self, _goodbye: &[u8]) {
        self.end = End::Goodbye;
    }

    fn half_close(&mut self) {
        if self.end == End::Open {
            self.end = End::Draining;
            self.wake();
        }
    }

    /// Nobody keeps it.
    fn leave(&mut self) {}

    fn poll(&mut self, client: &mut Client, now: Instant, done: &mut Vec<OriginDone>) {
        let mut events = 0;
        while let Some(completion) = self.source.pop() {
            let mask = completion.result.unwrap_or(0);
            match completion.token {
                READABLE => self.polls.readable = false,
                WRITABLE => self.polls.writable = false,
                _ => {
                    self.polls.wake = false;
                    continue;
                }
            }
            events |= i16::try_from(mask).unwrap_or(0);
        }
        if events != 0 {
            self.service(events);
        }
        let ended = self.running.as_mut().map(Running::take_ended);
        for one in ended.into_iter().flatten() {
            let Some(request) = self.landed(one) else {
                continue;
            };
            let Request {
                header,
                result,
                read,
                ..
            } = request;
            let cookie: Cookie = header.cookie;
            client.received(self.link, &reply::simple(cookie, result), now, done);
            if let (Some(buf), Ok(())) = (read, result) {
                client.received(self.link, &buf[..header.length as usize], now, done);
            }
        }
        if self.is_drained() {
            self.lost
                .get_or_insert_with(|| "the session was given up".to_owned());
        }
        if let (Some(why), false) = (&self.lost, self.end == End::Told) {
            client.ended(self.link, why.clone());
            self.end = End::Told;
        }
        self.listen();
    }
}

impl Drop for Bridge {
    /// Who takes leave gives the unit back.
    fn drop(&mut self) {
        if self.end != End::Goodbye {
            return;
        }
        let writer = self.writer.take();
        match self.running.take().and_then(Session::resume) {
            Some(session) => take_leave(session, writer, &self.origin),
            None if writer.is_some() => tracing::warn!(
                origin = self.origin,
                "the unit stays reserved for this host: its target does not answer"
            ),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_write(outcome: Outcome) -> Verdict {
        judge(
            wire::command::WRITE,
            &cdb::write(0, 1, Durable::Later),
            outcome,
        )
    }

    #[test]
    fn a_unit_that_was_reset_is_told_again_what_it_may_have_forgotten() {
        let attention = |code| {
            let key = Sense::UNIT_ATTENTION;
            of_write(Outcome::Check(Sense { key, code }))
        };
        // Power on, a bus reset, a reset of the unit, commands that another initiator has cleared.
        for code in [0x2900, 0x2902, 0x2903, 0x2f00] {
            assert_eq!(attention(code), Verdict::Reset, "{code:#x}");
        }
        assert_eq!(of_write(Outcome::Aborted), Verdict::Reset);
        // Another size, other parameters, reservations that were preempted.
        for code in [0x2a09, 0x2a01, 0x2a03] {
            assert_eq!(attention(code), Verdict::Again, "{code:#x}");
        }
    }
}
