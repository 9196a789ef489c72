//! One connection in the transmission phase, on a shard's ring.
//!
//! One receive is always in flight; one send at most, of everything that was queued when the
//! one before it ended. So requests that come while the kernel is busy share a system call.
//!
//! A link is *lost* when its stream ends, breaks, or carries what no server may send. It is
//! never lost because an answer is slow: see [`super::work`] for why that matters.

use super::dial::Connected;
use super::limits;
use super::operation::{Piece, PieceKind, Request};
use super::work::Work;
use block_io::{Buf, BufPool, IoError, OriginDone, Slice};
use nbd_protocol::client::{Event, Expected, Replies};
use nbd_protocol::{CommandFlags, Cookie, RequestHeader, wire};
use ring::{Op, Ring, Source, SourceId};
use rustix::net::{SendFlags, Shutdown};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::{Bytes, Instant, Map};

const RECEIVE: u64 = 0;
const SEND: u64 = 1;

enum Out {
    Header([u8; RequestHeader::BYTES]),
    Payload(Slice),
}

/// One connection.
pub(super) struct Link {
    source: Source,
    socket: Rc<OwnedFd>,
    pool: BufPool,
    replies: Replies,
    flights: Map<Cookie, Piece>,
    next_cookie: u64,
    queue: VecDeque<Out>,
    sending: bool,
    lost: Option<String>,
    /// Answers so far.
    answers: u64,
}

impl Link {
    /// Takes over a connection.
    pub(super) fn new(connected: Connected, ring: &Ring, pool: &BufPool) -> Self {
        let link = Self {
            source: ring.source(),
            socket: Rc::new(connected.socket),
            pool: pool.clone(),
            replies: Replies::new(connected.terms.structured),
            flights: Map::default(),
            next_cookie: 1,
            queue: VecDeque::new(),
            sending: false,
            lost: None,
            answers: 0,
        };
        link.receive(pool.take(limits::RECEIVE_BYTES));
        link
    }

    pub(super) fn source(&self) -> SourceId {
        self.source.id()
    }

    /// Why the connection is over, if it is.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Whether nothing is expected from the server.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    /// Requests that may still be sent.
    pub(super) fn room(&self) -> usize {
        limits::REQUESTS_PER_LINK_MAX - self.flights.len()
    }

    /// Whether the server has ever answered here.
    pub(super) fn has_answered(&self) -> bool {
        self.answers > 0
    }

    /// Queues a request; [`Link::push`] sends it.
    pub(super) fn request(&mut self, request: Request) {
        let cookie = Cookie(self.next_cookie);
        self.next_cookie += 1;
        let expected = match request.piece.kind {
            PieceKind::Read => Expected::Read {
                offset: Bytes::new(request.offset),
                length: request.piece.length,
            },
            PieceKind::Change | PieceKind::Flush(_) => Expected::Nothing,
        };
        self.replies.expect(cookie, expected);
        self.flights.insert(cookie, request.piece);
        let header = RequestHeader {
            flags: request.flags,
            kind: request.command,
            cookie,
            offset: request.offset,
            length: request.piece.length,
        };
        self.queue.push_back(Out::Header(header.encode()));
        if let Some(payload) = request.payload {
            self.queue.push_back(Out::Payload(payload));
        }
    }

    /// Sends what is queued, unless a send is in flight.
    pub(super) fn push(&mut self) {
        if self.sending || self.queue.is_empty() || self.lost.is_some() {
            return;
        }
        let count = self.queue.len().min(limits::SEND_SLICES);
        let headers = self.queue.range(..count);
        let headers = headers.filter(|out| matches!(out, Out::Header(_))).count();
        let mut buf = self.pool.take(headers * RequestHeader::BYTES);
        let mut filled = 0;
        for out in self.queue.range(..count) {
            if let Out::Header(header) = out {
                buf[filled..filled + header.len()].copy_from_slice(header);
                filled += header.len();
            }
        }
        let headers = buf.freeze();
        let mut at = 0;
        let slices = self.queue.drain(..count).map(|out| match out {
            Out::Header(header) => {
                at += header.len();
                headers.slice(at - header.len()..at)
            }
            Out::Payload(payload) => payload,
        });
        let slices = slices.collect();
        self.send(slices);
    }

    fn send(&mut self, slices: Vec<Slice>) {
        self.sending = true;
        let socket = Rc::clone(&self.socket);
        self.source.submit(SEND, Op::Send { socket, slices });
    }

    fn receive(&self, buf: Buf) {
        let socket = Rc::clone(&self.socket);
        let end = buf.len();
        let start = 0;
        let op = Op::Recv {
            socket,
            buf,
            start,
            end,
        };
        self.source.submit(RECEIVE, op);
    }

    /// Takes in what the ring has for this link.
    pub(super) fn poll(&mut self, work: &mut Work, now: Instant, done: &mut Vec<OriginDone>) {
        while let Some(completion) = self.source.pop() {
            match (completion.token, completion.result) {
                (RECEIVE, Ok(0)) => self.lose("the server closed the connection"),
                (RECEIVE, Ok(count)) => {
                    let Some(buf) = completion.buf else {
                        continue;
                    };
                    match self.take_in(&buf[..count], work, now, done) {
                        Ok(()) => self.receive(buf),
                        Err(violation) => self.lose(&violation.to_string()),
                    }
                }
                (SEND, Ok(count)) => self.sent(count, completion.slices),
                (SEND, Err(error)) if is_interruption(&error) => self.send(completion.slices),
                (_, Err(error)) => match completion.buf {
                    Some(buf) if is_interruption(&error) => self.receive(buf),
                    _ => self.lose(&error.to_string()),
                },
                (_, Ok(_)) => {}
            }
        }
    }

    /// A send has ended; what the kernel did not take goes first in the next.
    fn sent(&mut self, mut count: usize, slices: Vec<Slice>) {
        let mut rest = Vec::new();
        for slice in slices {
            let taken = count.min(slice.len());
            count -= taken;
            if taken < slice.len() {
                rest.push(slice.slice(taken..slice.len()));
            }
        }
        self.sending = false;
        if rest.is_empty() {
            self.push();
        } else if self.lost.is_none() {
            self.send(rest);
        }
    }

    fn take_in(
        &mut self,
        mut bytes: &[u8],
        work: &mut Work,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Result<(), nbd_protocol::client::Violation> {
        while let Some(event) = self.replies.next(&mut bytes)? {
            match event {
                Event::Data { cookie, at, bytes } => {
                    work.place(&self.flights[&cookie], at, bytes);
                }
                Event::Zeroes { cookie, at, length } => {
                    work.place_zeroes(&self.flights[&cookie], at, length);
                }
                Event::Done { cookie, result } => {
                    let piece = self.flights.remove(&cookie);
                    let piece = piece.expect("replies end only what was asked here");
                    self.answers += 1;
                    work.answered(&piece, result.map_err(IoError::from), now, done);
                }
            }
        }
        Ok(())
    }

    fn lose(&mut self, why: &str) {
        if self.lost.is_none() {
            self.lost = Some(why.to_owned());
            self.queue.clear();
        }
    }
}

fn is_interruption(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

impl Drop for Link {
    /// Ends the stream, so that the server does not wait for the ring to let go of the socket;
    /// says goodbye first if nothing is in flight. Whoever drops a link with requests in flight
    /// makes the server write to nobody, at which nbdkit 1.32 now and then fails an assertion
    /// of its own and is gone: better to let them end first.
    fn drop(&mut self) {
        if self.lost.is_none() && !self.sending && self.is_idle() {
            let goodbye = RequestHeader {
                flags: CommandFlags::NONE,
                kind: wire::command::DISC,
                cookie: Cookie(self.next_cookie),
                offset: 0,
                length: 0,
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // A courtesy: whoever does not get it sees the end of the stream.
            let _ = rustix::net::send(&self.socket, &goodbye.encode(), flags);
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}
