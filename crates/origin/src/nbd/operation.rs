//! An operation that the core asked for, and the requests that it is cut into.

use super::abilities::Abilities;
use super::unstable::Change;
use block_io::{Buf, IoError, OriginVerb, Slice, Token};
use nbd_protocol::CommandFlags;
use units::Instant;

/// Names an operation for as long as the origin is open; ascending in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OpId(pub(super) u64);

/// A part of an operation that is one request on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) op: OpId,
    /// Where in the operation, in bytes.
    pub(super) at: u64,
    /// How much; nothing for a flush.
    pub(super) length: u32,
    pub(super) kind: PieceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Read,
    Change,
    /// With the mark that says which changes its success vouches for.
    Flush(u64),
}

/// A request that is to be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) piece: Piece,
    pub(super) command: u16,
    pub(super) flags: CommandFlags,
    pub(super) offset: u64,
    pub(super) payload: Option<Slice>,
}

/// Whom an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Core(Token),
    /// Repeats a change that the server may have forgotten.
    Repeat,
    /// A flush of our own, to bound what a reconnect repeats.
    Checkpoint,
}

#[derive(Debug)]
pub(super) enum Verb {
    Read(Buf),
    Change { change: Change, fua: bool },
    Flush,
}

impl Verb {
    /// Offset, length and the rest of what is asked.
    pub(super) fn of(verb: OriginVerb) -> (u64, u64, Self) {
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
    pub(super) fn is_moot(&self, able: &Abilities) -> bool {
        match self {
            Self::Flush => !able.flush(),
            Self::Change { change, .. } => matches!(change, Change::Discard) && !able.trim(),
            Self::Read(_) => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Op {
    pub(super) owner: Owner,
    pub(super) verb: Verb,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes of it that have become pieces.
    pub(super) issued: u64,
    /// Pieces in flight.
    pub(super) flying: u32,
    /// All pieces are done and the flush that stands for `FUA` is due or under way.
    pub(super) syncing: bool,
    pub(super) flush_issued: bool,
    pub(super) failed: Option<IoError>,
    /// None for our own.
    pub(super) deadline: Option<Instant>,
}
