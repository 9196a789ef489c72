//! What a server can do, and so how a change is sent to it.

use crate::limits;
use crate::unstable::Change;
use nbd_protocol::{CommandFlags, Terms, TransmissionFlags, wire};

/// What the server can do, as far as it decides what to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    flags: TransmissionFlags,
    /// Largest payload, a multiple of the server's smallest block.
    piece_bytes: u32,
    /// Largest range without payload, likewise.
    range_bytes: u32,
}

impl Abilities {
    pub(crate) fn of(terms: &Terms) -> Self {
        let unit = terms.export.blocks.minimum;
        let whole = |bytes: u32| bytes - bytes % unit;
        Self {
            flags: terms.export.flags,
            piece_bytes: whole(terms.export.blocks.maximum.min(limits::PIECE_BYTES_MAX)),
            range_bytes: whole(limits::RANGE_BYTES_MAX),
        }
    }

    pub(crate) const fn flush(&self) -> bool {
        self.flags.has(TransmissionFlags::SEND_FLUSH)
    }

    pub(crate) const fn fua(&self) -> bool {
        self.flags.has(TransmissionFlags::SEND_FUA)
    }

    pub(crate) const fn trim(&self) -> bool {
        self.flags.has(TransmissionFlags::SEND_TRIM)
    }

    /// How a read is sent.
    pub(crate) const fn read(&self) -> Way {
        Way {
            command: wire::command::READ,
            flags: CommandFlags::NONE,
            bytes_max: self.piece_bytes,
            payload: Payload::Nothing,
        }
    }

    /// How a change is sent.
    pub(crate) fn change(&self, change: &Change, fua: bool) -> Way {
        let flags = CommandFlags::NONE.with_if(fua && self.fua(), CommandFlags::FUA);
        let write = Way {
            command: wire::command::WRITE,
            flags,
            bytes_max: self.piece_bytes,
            payload: Payload::Own,
        };
        match change {
            Change::Write(_) => write,
            Change::Discard => Way {
                command: wire::command::TRIM,
                bytes_max: self.range_bytes,
                payload: Payload::Nothing,
                ..write
            },
            Change::Zeroes { may_unmap }
                if self.flags.has(TransmissionFlags::SEND_WRITE_ZEROES) =>
            {
                Way {
                    command: wire::command::WRITE_ZEROES,
                    flags: flags.with_if(!may_unmap, CommandFlags::NO_HOLE),
                    bytes_max: self.range_bytes,
                    payload: Payload::Nothing,
                }
            }
            Change::Zeroes { .. } => Way {
                bytes_max: self.piece_bytes.min(limits::ZERO_BYTES),
                payload: Payload::Zeroes,
                ..write
            },
        }
    }
}

/// How a piece of an operation is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) command: u16,
    pub(crate) flags: CommandFlags,
    /// Most bytes in one request.
    pub(crate) bytes_max: u32,
    pub(crate) payload: Payload,
}

/// What follows a request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Nothing,
    /// Its part of the data that are to be written.
    Own,
    /// As many zeroes.
    Zeroes,
}
