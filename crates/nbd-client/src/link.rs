//! One connection in the transmission phase: requests become bytes, bytes become answers.
//!
//! One send at most is in flight, of everything that was queued when the one before it ended. So
//! requests that come while the kernel is busy share a system call.
//!
//! ```text
//!   Open ──── cannot send ────► Closing ─────┬─► Ended
//!     └────── nonsense arrives ► Garbled ────┘
//! ```
//!
//! A link is *lost* when its stream ends, breaks, or carries what no server may send, and when the
//! server says that it is shutting down. It is never lost because an answer is slow. A link that is
//! lost before its stream has ended gets no more requests and stays until it ends, or until nothing
//! on it can change the disk any more: [`crate::work`] says why that matters.

use crate::guard::{Guard, holds};
use crate::operation::{Piece, PieceKind, Request};
use crate::work::Work;
use crate::{LinkId, limits};
use block_io::{BufPool, OriginDone, Slice};
use nbd_protocol::client::{Event, Expected, Replies, Violation};
use nbd_protocol::{CommandFlags, Cookie, Errno, RequestHeader, wire};
use std::collections::VecDeque;
use units::{Instant, Map, Offset};

#[derive(Debug)]
enum Out {
    Header([u8; RequestHeader::BYTES]),
    Payload(Slice),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Open,
    /// Nothing more is sent; answers still count.
    Closing,
    /// What arrives means nothing any more; only its end counts.
    Garbled,
    Ended,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    id: LinkId,
    pool: BufPool,
    replies: Replies,
    flights: Map<Cookie, Piece>,
    /// Changes that were answered, and of which nobody has been told.
    answered: Vec<u64>,
    next_cookie: u64,
    queue: VecDeque<Out>,
    sending: bool,
    state: State,
    /// Why it is not open.
    why: Option<String>,
    has_answered: bool,
}

impl Link {
    /// A connection on which nothing has been asked. `structured` is from the handshake; cookies
    /// count up from `first_cookie`.
    pub(crate) fn new(id: LinkId, structured: bool, first_cookie: u64, pool: &BufPool) -> Self {
        Self {
            id,
            pool: pool.clone(),
            replies: Replies::new(structured),
            flights: Map::default(),
            answered: Vec::new(),
            next_cookie: first_cookie,
            queue: VecDeque::new(),
            sending: false,
            state: State::Open,
            why: None,
            has_answered: false,
        }
    }

    pub(crate) fn id(&self) -> LinkId {
        self.id
    }

    /// Why the connection gets no more requests, if so it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Whether nothing that was sent here can change the disk any more, and no answer is worth
    /// waiting for. A flush that fails changes it, too: the server may give up what comes by another
    /// connection.
    pub(crate) fn is_spent(&self) -> bool {
        match self.state {
            State::Open | State::Closing => self.flights.is_empty(),
            State::Garbled => self.has_only_reads() || !holds(Guard::NonsenseIsDrained),
            State::Ended => true,
        }
    }

    fn has_only_reads(&self) -> bool {
        let mut pieces = self.flights.values();
        pieces.all(|piece| piece.kind == PieceKind::Read)
    }

    /// Requests that may still be sent.
    pub(crate) fn room(&self) -> usize {
        limits::REQUESTS_PER_LINK_MAX - self.flights.len()
    }

    /// Whether the server has ever answered here.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Queues a request; [`Link::take_output`] sends it. Returns its cookie.
    pub(crate) fn request(&mut self, request: Request) -> u64 {
        let cookie = Cookie(self.next_cookie);
        self.next_cookie = self.next_cookie.wrapping_add(1);
        let expected = match request.piece.kind {
            PieceKind::Read => Expected::Read {
                offset: Offset::new(request.offset),
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
        cookie.0
    }

    /// The changes that were answered since the last call, by their cookies.
    pub(crate) fn take_answered(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.answered)
    }

    /// The changes that will not be answered because the stream has ended: cookie and length, in bytes.
    pub(crate) fn take_cut(&mut self) -> Vec<(u64, u32)> {
        if self.state != State::Ended {
            return Vec::new();
        }
        let is_change = |_: &Cookie, piece: &mut Piece| piece.kind == PieceKind::Change;
        let flights = self.flights.extract_if(is_change);
        let mut cut: Vec<(u64, u32)> = flights
            .map(|(cookie, piece)| (cookie.0, piece.length))
            .collect();
        cut.sort_unstable();
        cut
    }

    /// What is to be sent now, unless a send is in flight.
    pub(crate) fn take_output(&mut self) -> Option<Vec<Slice>> {
        if self.sending || self.queue.is_empty() || self.state != State::Open {
            return None;
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
        self.sending = true;
        Some(slices.collect())
    }

    /// All of the last output has been taken by the stream.
    pub(crate) fn sent(&mut self) {
        self.sending = false;
    }

    /// Takes in bytes of the stream. True if they were the first that mean nothing.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        work: &mut Work,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> bool {
        if self.state >= State::Garbled {
            return false;
        }
        let Err(violation) = self.take_in(bytes, work, now, done) else {
            return false;
        };
        self.lose(State::Garbled, violation.to_string());
        true
    }

    fn take_in(
        &mut self,
        mut bytes: &[u8],
        work: &mut Work,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Result<(), Violation> {
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
                    if piece.kind == PieceKind::Change {
                        self.answered.push(cookie.0);
                    }
                    if result == Err(Errno::Shutdown) && holds(Guard::ShutdownIsLoss) {
                        let why = "the server is shutting down".to_owned();
                        self.why.get_or_insert(why);
                        work.refused(&piece, done);
                    } else {
                        self.has_answered = true;
                        work.answered(&piece, result, now, done);
                    }
                }
            }
        }
        Ok(())
    }

    /// Nothing more can be sent.
    pub(crate) fn broken(&mut self, why: String) {
        self.lose(State::Closing, why);
    }

    /// The stream has ended.
    pub(crate) fn ended(&mut self, why: String) {
        self.lose(State::Ended, why);
    }

    fn lose(&mut self, state: State, why: String) {
        self.state = self.state.max(state);
        self.why.get_or_insert(why);
        self.queue.clear();
    }

    /// The last words to a server that owes no answer; none where they cannot be said.
    pub(crate) fn goodbye(&self) -> Option<[u8; RequestHeader::BYTES]> {
        let can_say = self.state == State::Open && !self.sending && self.flights.is_empty();
        let goodbye = RequestHeader {
            flags: CommandFlags::NONE,
            kind: wire::command::DISC,
            cookie: Cookie(self.next_cookie),
            offset: 0,
            length: 0,
        };
        can_say.then(|| goodbye.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_order::OpId;

    /// A link that carried nonsense when this had been asked.
    fn garbled(kind: PieceKind, command: u16) -> Link {
        let mut link = Link::new(LinkId(1), false, 1, &BufPool::new());
        let piece = Piece {
            op: OpId::FIRST,
            at: 0,
            length: 512,
            kind,
        };
        link.request(Request {
            piece,
            command,
            flags: CommandFlags::NONE,
            offset: 0,
            payload: None,
        });
        link.lose(State::Garbled, "nonsense".to_owned());
        link
    }

    #[test]
    fn a_garbled_link_stays_until_a_flush_on_it_can_fail_no_more() {
        assert!(garbled(PieceKind::Read, wire::command::READ).is_spent());
        assert!(!garbled(PieceKind::Change, wire::command::TRIM).is_spent());
        let mut link = garbled(PieceKind::Flush(1), wire::command::FLUSH);
        assert!(
            !link.is_spent(),
            "it may give up what comes by another link"
        );
        link.ended("the end of the stream".to_owned());
        assert!(link.is_spent());
    }
}
