//! An operation that the core asked for, and the requests that it is cut into.

use crate::SentChange;
use crate::abilities::Abilities;
use crate::unstable::Change;
use block_io::{Buf, IoError, OriginVerb, Slice, Token};
use nbd_protocol::{CommandFlags, Errno};
use range_order::OpId;
use units::Instant;

/// A part of an operation that is one request on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) op: OpId,
    /// Where in the operation, in bytes.
    pub(crate) at: u64,
    /// How much; nothing for a flush.
    pub(crate) length: u32,
    pub(crate) kind: PieceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Read,
    Change,
    /// With the mark that says which changes its success vouches for.
    Flush(u64),
}

/// A request that is to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) piece: Piece,
    pub(crate) command: u16,
    pub(crate) flags: CommandFlags,
    pub(crate) offset: u64,
    pub(crate) payload: Option<Slice>,
}

impl Request {
    /// What it changes, without its cookie; nothing for a read or a flush.
    pub(crate) fn change(&self) -> Option<SentChange> {
        (self.piece.kind == PieceKind::Change).then_some(SentChange {
            cookie: 0,
            offset: self.offset,
            length: u64::from(self.piece.length),
        })
    }
}

/// Whom an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Core(Token),
    /// Repeats a change that the server may have forgotten.
    Repeat,
    /// A flush of our own, to bound what a reconnect repeats.
    Checkpoint,
    /// Nobody: a change that ran out of time and may still happen.
    Late,
}

#[derive(Debug)]
pub(crate) enum Verb {
    Read(Buf),
    Change {
        change: Change,
        fua: bool,
    },
    Flush,
    /// A change whose bytes the server has, or will never get.
    Given,
}

impl Verb {
    /// Offset, length and the rest of what is asked.
    pub(crate) fn of(verb: OriginVerb) -> (u64, u64, Self) {
        match verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => (offset.get(), length.get(), Self::Read(buf)),
            OriginVerb::Write { offset, data, fua } => {
                let length = data.len() as u64;
                let change = Change::Write(data);
                (offset.get(), length, Self::Change { change, fua })
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                let change = Change::Zeroes { may_unmap };
                (offset.get(), length.get(), Self::Change { change, fua })
            }
            OriginVerb::Discard { offset, length } => {
                let (change, fua) = (Change::Discard, false);
                (offset.get(), length.get(), Self::Change { change, fua })
            }
            OriginVerb::Flush => (0, 0, Self::Flush),
        }
    }

    /// Whether it succeeds by doing nothing. A server without flush has nothing volatile, or
    /// no word for it; and a discard is a hint.
    pub(crate) fn is_moot(&self, able: &Abilities) -> bool {
        match self {
            Self::Flush => !able.flush(),
            Self::Change { change, .. } => matches!(change, Change::Discard) && !able.trim(),
            Self::Read(_) | Self::Given => false,
        }
    }
}

/// What has become of the flush that an operation is, or that stands for `FUA` at the end of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushState {
    NotDue,
    Due,
    Sent,
}

impl FlushState {
    pub(crate) fn at_first(verb: &Verb) -> Self {
        match verb {
            Verb::Flush => Self::Due,
            Verb::Read(_) | Verb::Change { .. } | Verb::Given => Self::NotDue,
        }
    }
}

/// Why an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server has failed it.
    Server(Errno),
    /// It was given up without an answer of the server.
    GivenUp(IoError),
}

impl Failure {
    /// What the core is told.
    pub(crate) fn error(self) -> IoError {
        match self {
            Self::Server(errno) => errno.into(),
            Self::GivenUp(error) => error,
        }
    }

    /// The server's number.
    pub(crate) fn number(self) -> Option<i32> {
        match self {
            Self::Server(errno) => Some(errno.to_wire().cast_signed()),
            Self::GivenUp(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) owner: Owner,
    pub(crate) verb: Verb,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Bytes of it that have become pieces.
    pub(crate) issued: u64,
    /// Pieces in flight.
    pub(crate) flying: u32,
    /// A piece was refused because the server shuts down: nothing of it counts until it is sent again.
    pub(crate) refused: bool,
    /// A piece was sent, be it over connections that are gone.
    pub(crate) tried: bool,
    pub(crate) flush: FlushState,
    pub(crate) failed: Option<Failure>,
    /// None for our own.
    pub(crate) deadline: Option<Instant>,
}

impl Op {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }

    pub(crate) fn is_change(&self) -> bool {
        matches!(self.verb, Verb::Change { .. } | Verb::Given)
    }

    /// Whether a piece or a flush of it has not been sent.
    pub(crate) fn has_more(&self) -> bool {
        match self.flush {
            FlushState::NotDue => self.issued < self.length,
            FlushState::Due => true,
            FlushState::Sent => false,
        }
    }

    /// Whether it could still change the disk if nothing more of it were sent.
    pub(crate) fn may_land(&self) -> bool {
        self.is_change() && self.flush == FlushState::NotDue && self.flying > 0
    }

    /// Goes back to before anything was sent.
    pub(crate) fn rewind(&mut self) {
        self.issued = 0;
        self.flying = 0;
        self.refused = false;
        self.flush = FlushState::at_first(&self.verb);
        self.failed = None;
    }
}
