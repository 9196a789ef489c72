//! Replies as a client reads them, in whatever pieces they arrive.
//!
//! ```text
//!            ┌─────────────── next reply or chunk ◄──────────────┐
//!   Head ────┤ simple: 16 bytes ── a read that succeeded ─► Data ─┤
//!            └ chunk: 20 bytes ── its fixed part ─┬─────────► Data ─┤
//!                                                 └ hole, error ────┘
//! ```
//!
//! Invariants:
//! - Each expected cookie ends in exactly one [`Event::Done`]; a reply to any other cookie is
//!   a violation.
//! - A read ends in success only when each of its bytes was given exactly once, by data or by
//!   a hole. A short answer is a violation, never a success.
//! - No more than a header and an error's text is held here: data are lent to the caller from
//!   the bytes that it hands in.
//!
//! After a [`Violation`] the stream is lost: nothing that follows can be trusted.

use crate::cursor::Cursor;
use crate::reply::{CHUNK_BYTES, SIMPLE_BYTES};
use crate::{Cookie, Errno, limits, wire};
use units::{Map, Offset};

/// What the reply to a request looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Data of a read.
    Read {
        /// Where it was asked from.
        offset: Offset,
        /// How much was asked for, in bytes.
        length: u32,
    },
    /// No data: everything else.
    Nothing,
}

/// What a stretch of received bytes means.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes of a read.
    Data {
        /// Whose.
        cookie: Cookie,
        /// Where they belong, counted from the start of what was asked for.
        at: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A part of a read that is all zeroes.
    Zeroes {
        /// Whose.
        cookie: Cookie,
        /// Where they belong, counted from the start of what was asked for.
        at: u32,
        /// How many.
        length: u32,
    },
    /// A request has ended. The cookie may be used again.
    Done {
        /// Whose.
        cookie: Cookie,
        /// How it went. Bytes given before a failure mean nothing.
        result: Result<(), Errno>,
    },
}

/// The server sent what no server may send; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server breaks the protocol: {what}")]
pub struct Violation {
    /// What was wrong.
    pub what: &'static str,
}

const fn violation<T>(what: &'static str) -> Result<T, Violation> {
    Err(Violation { what })
}

#[derive(Debug)]
struct Pending {
    expected: Expected,
    /// What of a read has been given: disjoint, in order, not touching each other.
    given: Vec<(u32, u32)>,
    failed: Option<Errno>,
}

/// Runs of a read that may be given out of order before we stop keeping count of them. Servers
/// send one run for each extent, in order, and runs in order merge.
const GIVEN_RUNS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Collecting a header, or a chunk's header and fixed part.
    Head,
    Data {
        cookie: Cookie,
        at: u32,
        left: u32,
        done: bool,
    },
    /// All of a reply has been read and its end is still to be told.
    End(Cookie),
}

/// Reads the replies of one connection.
#[derive(Debug)]
pub struct Replies {
    structured: bool,
    pending: Map<Cookie, Pending>,
    state: State,
    held: Vec<u8>,
}

impl Replies {
    /// A connection on which nothing has been asked. `structured` is from the handshake.
    pub fn new(structured: bool) -> Self {
        Self {
            structured,
            pending: Map::default(),
            state: State::Head,
            held: Vec::new(),
        }
    }

    /// Says that a request is about to be sent.
    ///
    /// # Panics
    /// If the cookie is in flight already.
    pub fn expect(&mut self, cookie: Cookie, expected: Expected) {
        let before = self.pending.insert(
            cookie,
            Pending {
                expected,
                given: Vec::new(),
                failed: None,
            },
        );
        assert!(before.is_none(), "a cookie in flight is not used again");
    }

    /// Requests that have not ended.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Consumes bytes from the front of `input` up to the next event; `None` when `input` is
    /// used up.
    ///
    /// # Errors
    /// [`Violation`]; the connection must be closed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Violation> {
        loop {
            match self.state {
                State::End(cookie) => {
                    self.state = State::Head;
                    return self.end(cookie).map(Some);
                }
                State::Data {
                    cookie,
                    at,
                    left,
                    done,
                } => {
                    let count = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                    if count == 0 {
                        return Ok(None);
                    }
                    let (bytes, rest) = input.split_at(count as usize);
                    *input = rest;
                    self.state = match left - count {
                        0 if done => State::End(cookie),
                        0 => State::Head,
                        left => State::Data {
                            cookie,
                            at: at + count,
                            left,
                            done,
                        },
                    };
                    return Ok(Some(Event::Data { cookie, at, bytes }));
                }
                State::Head => {
                    let need = self.head_bytes()?;
                    if self.held.len() < need {
                        let count = input.len().min(need - self.held.len());
                        if count == 0 {
                            return Ok(None);
                        }
                        let (bytes, rest) = input.split_at(count);
                        self.held.extend_from_slice(bytes);
                        *input = rest;
                        continue;
                    }
                    let head = std::mem::take(&mut self.held);
                    let event = self.read_head(&head)?;
                    self.held = head;
                    self.held.clear();
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Bytes that the header being collected has, as far as can be told from what is held.
    fn head_bytes(&self) -> Result<usize, Violation> {
        let mut fields = Cursor::new(&self.held);
        let Some(magic) = fields.u32() else {
            return Ok(4);
        };
        match magic {
            wire::SIMPLE_REPLY_MAGIC => return Ok(SIMPLE_BYTES),
            wire::STRUCTURED_REPLY_MAGIC if self.structured => {}
            wire::STRUCTURED_REPLY_MAGIC => {
                return violation("a structured reply that was not agreed on");
            }
            _ => return violation("not a reply"),
        }
        let (_, kind, _, length) = (fields.u16(), fields.u16(), fields.u64(), fields.u32());
        let (Some(kind), Some(length)) = (kind, length) else {
            return Ok(CHUNK_BYTES);
        };
        let fixed = match (kind, length) {
            (wire::chunk::NONE, 0) => 0,
            (wire::chunk::OFFSET_DATA, 9..) => 8,
            (wire::chunk::OFFSET_HOLE, 12) => 12,
            (kind, 6..=limits::CHUNK_BYTES_MAX) if kind & wire::chunk::ERROR_BIT != 0 => {
                length as usize
            }
            _ => return violation("a chunk of an unknown type or the wrong length"),
        };
        Ok(CHUNK_BYTES + fixed)
    }

    /// Understands a header with its fixed part, complete as [`Replies::head_bytes`] says.
    fn read_head(&mut self, head: &[u8]) -> Result<Option<Event<'static>>, Violation> {
        let short = Violation {
            what: "a header cut short",
        };
        let mut fields = Cursor::new(head);
        if fields.u32().ok_or(short)? == wire::SIMPLE_REPLY_MAGIC {
            let error = Errno::from_wire(fields.u32().ok_or(short)?);
            let cookie = Cookie(fields.u64().ok_or(short)?);
            self.read_simple(cookie, error)?;
            return Ok(None);
        }
        let flags = fields.u16().ok_or(short)?;
        let kind = fields.u16().ok_or(short)?;
        let cookie = Cookie(fields.u64().ok_or(short)?);
        let length = fields.u32().ok_or(short)?;
        let done = flags & wire::chunk::FLAG_DONE != 0;
        let pending = self.pending_of(cookie)?;
        let mut event = None;
        match kind {
            wire::chunk::NONE if done => {}
            wire::chunk::NONE => return violation("an empty chunk that ends nothing"),
            wire::chunk::OFFSET_DATA => {
                let offset = fields.u64().ok_or(short)?;
                let left = length - 8;
                let at = pending.give(offset, left)?;
                self.state = State::Data {
                    cookie,
                    at,
                    left,
                    done,
                };
                return Ok(None);
            }
            wire::chunk::OFFSET_HOLE => {
                let offset = fields.u64().ok_or(short)?;
                let length = fields.u32().ok_or(short)?;
                let at = pending.give(offset, length)?;
                event = Some(Event::Zeroes { cookie, at, length });
            }
            _ => {
                let errno = Errno::from_wire(fields.u32().ok_or(short)?);
                let text = usize::from(fields.u16().ok_or(short)?);
                if fields.bytes(text).is_none() {
                    return violation("an error whose text is longer than its chunk");
                }
                // An error that says 'no error' is still one.
                let errno = errno.unwrap_or(Errno::Inval);
                pending.failed.get_or_insert(errno);
            }
        }
        if done {
            self.state = State::End(cookie);
        }
        Ok(event)
    }

    fn read_simple(&mut self, cookie: Cookie, error: Option<Errno>) -> Result<(), Violation> {
        let structured = self.structured;
        let pending = self.pending_of(cookie)?;
        if pending.failed.is_some() || !pending.given.is_empty() {
            return violation("a simple reply in the middle of a structured one");
        }
        self.state = match (pending.expected, error) {
            (_, Some(errno)) => {
                pending.failed = Some(errno);
                State::End(cookie)
            }
            (Expected::Nothing, None) => State::End(cookie),
            (Expected::Read { .. }, None) if structured => {
                return violation("a simple reply to a read, chunks having been agreed on");
            }
            (Expected::Read { offset, length }, None) => State::Data {
                cookie,
                at: pending.give(offset.get(), length)?,
                left: length,
                done: true,
            },
        };
        Ok(())
    }

    fn pending_of(&mut self, cookie: Cookie) -> Result<&mut Pending, Violation> {
        self.pending.get_mut(&cookie).ok_or(Violation {
            what: "a reply to nothing that was asked",
        })
    }

    fn end(&mut self, cookie: Cookie) -> Result<Event<'static>, Violation> {
        let pending = self.pending.remove(&cookie);
        let pending = pending.expect("a reply ends that was found when it began");
        let result = match (pending.failed, pending.expected) {
            (Some(errno), _) => Err(errno),
            (None, Expected::Nothing) => Ok(()),
            (None, Expected::Read { length, .. }) if pending.given == [(0, length)] => Ok(()),
            (None, Expected::Read { .. }) => {
                return violation("a read that ends with parts missing");
            }
        };
        Ok(Event::Done { cookie, result })
    }
}

impl Pending {
    /// Notes that a run of the read is given; returns where it begins in what was asked for.
    fn give(&mut self, offset: u64, count: u32) -> Result<u32, Violation> {
        let Expected::Read {
            offset: asked,
            length,
        } = self.expected
        else {
            return violation("data in the reply to a request that reads nothing");
        };
        let at = offset.checked_sub(asked.get());
        let Some(at) = at.and_then(|at| u32::try_from(at).ok()) else {
            return violation("data from before what was asked for");
        };
        let Some(end) = at.checked_add(count).filter(|end| *end <= length) else {
            return violation("data from beyond what was asked for");
        };
        if count == 0 {
            return violation("a run of no bytes");
        }
        let place = self.given.partition_point(|(start, _)| *start < at);
        let before = place.checked_sub(1).map(|i| self.given[i]);
        let behind = self.given.get(place).copied();
        if before.is_some_and(|(_, stop)| stop > at) || behind.is_some_and(|(start, _)| start < end)
        {
            return violation("the same bytes twice");
        }
        let joins_before = before.is_some_and(|(_, stop)| stop == at);
        let joins_behind = behind.is_some_and(|(start, _)| start == end);
        match (joins_before, joins_behind) {
            (true, true) => {
                self.given[place - 1].1 = self.given[place].1;
                self.given.remove(place);
            }
            (true, false) => self.given[place - 1].1 = end,
            (false, true) => self.given[place].0 = at,
            (false, false) if self.given.len() < GIVEN_RUNS_MAX => {
                self.given.insert(place, (at, end));
            }
            (false, false) => return violation("a read in too many scattered runs"),
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests;
