//! Bytes from a client become requests.
//!
//! Small things arrive in the *inbox*, one buffer for as long as the connection lives; the
//! rest of a large payload is received straight into the aligned buffer that the write will be
//! made from. One receive is under way at a time.
//!
//! ```text
//!  inbox  |parsed.....|head: header 28|payload..|header|pa:tail          free|
//!                                                        └─ the rest ≥ DIRECT_BYTES_MIN:
//!  payload buffer                                        |pa|◄── next receive goes here ──|
//! ```
//!
//! Pure: whoever owns it does the receiving. Invariants:
//! - `head <= tail <= inbox length`; everything before `head` was consumed.
//! - No byte is looked at before it was received, none is consumed twice.
//! - What a client sends never panics; a stream that makes no sense is [`Taken::Lost`].

use crate::limits::{DIRECT_BYTES_MIN, INBOX_BYTES};
use block_io::{Buf, BufPool, Slice};
use nbd_protocol::{Command, Cookie, Errno, RequestHeader, Terms, limits::PAYLOAD_BYTES_MAX};

/// What could be taken from the bytes received so far.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Nothing: more bytes are needed.
    Starved,
    /// A request has begun that takes this much memory: [`Intake::admit`] goes on with it once there
    /// is room.
    Announced { memory: usize },
    /// A request within the terms, and a write's payload.
    Request {
        cookie: Cookie,
        command: Command,
        data: Option<Slice>,
    },
    /// A request that is answered with an error at once.
    Refused { cookie: Cookie, errno: Errno },
    /// The stream makes no sense from here on.
    Lost(Loss),
}

/// Why a stream makes no sense any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Loss {
    #[error("a request begins with {magic:#010x}")]
    NotARequest { magic: u32 },
    #[error("a payload of {length} bytes is more than anyone may send")]
    PayloadTooLong { length: u32 },
}

enum State {
    Header,
    /// A request waits for room.
    Announced(RequestHeader),
    /// A write's payload is being collected.
    Payload {
        cookie: Cookie,
        command: Command,
        /// Absent while it is being received into.
        buf: Option<Buf>,
        filled: usize,
        length: usize,
    },
    /// A refused write's payload is on its way to nowhere.
    Skip {
        cookie: Cookie,
        errno: Errno,
        left: usize,
    },
}

pub(crate) struct Intake {
    /// Absent while it is being received into.
    inbox: Option<Buf>,
    head: usize,
    tail: usize,
    state: State,
}

/// Where the next bytes go: `buf[start..end]`.
pub(crate) struct Room {
    pub(crate) buf: Buf,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Intake {
    /// An intake that has received `leftover` already.
    pub(crate) fn new(pool: &BufPool, leftover: &[u8]) -> Self {
        let mut inbox = pool.take(INBOX_BYTES.max(leftover.len()));
        inbox[..leftover.len()].copy_from_slice(leftover);
        Self {
            inbox: Some(inbox),
            head: 0,
            tail: leftover.len(),
            state: State::Header,
        }
    }

    /// The next request in what has been received.
    pub(crate) fn take(&mut self, terms: &Terms, pool: &BufPool) -> Taken {
        let Some(inbox) = &self.inbox else {
            return Taken::Starved;
        };
        if let State::Announced(header) = &self.state {
            let memory = memory_of(header, terms);
            return Taken::Announced { memory };
        }
        if let State::Header = self.state {
            let received = &inbox[self.head..self.tail];
            let Some((bytes, _)) = received.split_first_chunk() else {
                return Taken::Starved;
            };
            let header = match RequestHeader::decode(bytes) {
                Ok(header) => header,
                Err(error) => {
                    let magic = error.magic;
                    return Taken::Lost(Loss::NotARequest { magic });
                }
            };
            self.head += RequestHeader::BYTES;
            let length = header.payload_bytes();
            if length > PAYLOAD_BYTES_MAX {
                return Taken::Lost(Loss::PayloadTooLong { length });
            }
            let memory = memory_of(&header, terms);
            if memory > 0 {
                self.state = State::Announced(header);
                return Taken::Announced { memory };
            }
            return self.begin(&header, terms, pool);
        }
        self.take_payload()
    }

    /// Goes on with the request that was announced: there is room for it.
    ///
    /// # Panics
    /// If none was.
    pub(crate) fn admit(&mut self, terms: &Terms, pool: &BufPool) -> Taken {
        match std::mem::replace(&mut self.state, State::Header) {
            State::Announced(header) => self.begin(&header, terms, pool),
            State::Header | State::Payload { .. } | State::Skip { .. } => {
                panic!("a request is announced before it is admitted")
            }
        }
    }

    fn begin(&mut self, header: &RequestHeader, terms: &Terms, pool: &BufPool) -> Taken {
        if header.payload_bytes() == 0 {
            return judge(header, terms);
        }
        self.expect_payload(header, terms, pool);
        self.take_payload()
    }

    /// What was received and not looked at yet.
    pub(crate) fn received(&self) -> &[u8] {
        let inbox = self.inbox.as_ref();
        inbox.map_or(&[], |inbox| &inbox[self.head..self.tail])
    }

    /// What the payload that is being collected takes of memory.
    pub(crate) fn memory(&self) -> usize {
        match self.state {
            State::Payload { length, .. } => BufPool::bytes_taken(length),
            State::Header | State::Announced(_) | State::Skip { .. } => 0,
        }
    }

    /// Gives up what is being collected: nothing is taken any more. Of a payload that is being received
    /// into, the memory goes with the intake.
    pub(crate) fn forget(&mut self) {
        if !matches!(self.state, State::Payload { buf: None, .. }) {
            self.state = State::Header;
        }
    }

    /// Whether the rest of a payload is to come.
    pub(crate) fn awaits_payload(&self) -> bool {
        matches!(self.state, State::Payload { .. })
    }

    fn expect_payload(&mut self, header: &RequestHeader, terms: &Terms, pool: &BufPool) {
        let cookie = header.cookie;
        let length = usize::try_from(header.payload_bytes()).expect("a payload fits in memory");
        self.state = match header.command(terms) {
            Ok(command) => State::Payload {
                cookie,
                command,
                buf: Some(pool.take(length)),
                filled: 0,
                length,
            },
            Err(errno) => State::Skip {
                cookie,
                errno,
                left: length,
            },
        };
    }

    /// Moves what the inbox has of the payload to where it belongs.
    fn take_payload(&mut self) -> Taken {
        let inbox = self.inbox.as_ref().expect("the inbox is here");
        let received = &inbox[self.head..self.tail];
        match &mut self.state {
            State::Header | State::Announced(_) => unreachable!("a payload is expected"),
            State::Skip { left, .. } => {
                let step = received.len().min(*left);
                self.head += step;
                *left -= step;
                if *left > 0 {
                    return Taken::Starved;
                }
            }
            State::Payload {
                buf,
                filled,
                length,
                ..
            } => {
                let step = received.len().min(*length - *filled);
                let buf = buf.as_mut().expect("the payload's buffer is here");
                buf[*filled..*filled + step].copy_from_slice(&received[..step]);
                self.head += step;
                *filled += step;
                if *filled < *length {
                    return Taken::Starved;
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Header) {
            State::Header | State::Announced(_) => unreachable!("a payload was expected"),
            State::Skip { cookie, errno, .. } => Taken::Refused { cookie, errno },
            State::Payload {
                cookie,
                command,
                buf,
                length,
                ..
            } => {
                let buf = buf.expect("the payload's buffer is here");
                Taken::Request {
                    cookie,
                    command,
                    data: Some(buf.freeze().slice(0..length)),
                }
            }
        }
    }

    /// Room for the next receive, after [`Taken::Starved`]; nothing if one is under way.
    pub(crate) fn lend(&mut self) -> Option<Room> {
        let mut inbox = self.inbox.take()?;
        if let State::Payload {
            buf,
            filled,
            length,
            ..
        } = &mut self.state
        {
            assert!(
                self.head == self.tail,
                "a starved payload took all there was"
            );
            if *length - *filled >= DIRECT_BYTES_MIN {
                self.inbox = Some(inbox);
                return buf.take().map(|buf| Room {
                    buf,
                    start: *filled,
                    end: *length,
                });
            }
        }
        inbox.copy_within(self.head..self.tail, 0);
        self.tail -= self.head;
        self.head = 0;
        let end = inbox.len();
        assert!(self.tail < end, "a starved inbox has room");
        Some(Room {
            buf: inbox,
            start: self.tail,
            end,
        })
    }

    /// Takes back what [`Intake::lend`] gave, with `received` more bytes in it.
    pub(crate) fn give_back(&mut self, returned: Buf, received: usize) {
        if let State::Payload {
            buf: buf @ None,
            filled,
            length,
            ..
        } = &mut self.state
        {
            *filled += received;
            assert!(*filled <= *length, "the kernel keeps to the room it got");
            *buf = Some(returned);
        } else {
            self.tail += received;
            assert!(self.tail <= returned.len(), "the kernel keeps to the room");
            self.inbox = Some(returned);
        }
    }
}

/// What a request takes of memory: a write's payload, a read's answer.
fn memory_of(header: &RequestHeader, terms: &Terms) -> usize {
    let Ok(Command::Read { length, .. } | Command::Write { length, .. }) = header.command(terms)
    else {
        return 0;
    };
    BufPool::bytes_taken(length.to_usize())
}

fn judge(header: &RequestHeader, terms: &Terms) -> Taken {
    let cookie = header.cookie;
    match header.command(terms) {
        Ok(command) => Taken::Request {
            cookie,
            command,
            data: None,
        },
        Err(errno) => Taken::Refused { cookie, errno },
    }
}

#[cfg(test)]
mod tests;
