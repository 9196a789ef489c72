//! Requests of the transmission phase: the header on the wire, and the command it stands for.
//!
//! ```text
//! | 0      4       6      8        16       24      28
//! | magic  | flags | type | cookie | offset | length |   and, for WRITE, `length` bytes
//! ```
//!
//! A header is read in two stages. [`RequestHeader::decode`] fails only where the stream itself
//! is lost; [`RequestHeader::command`] checks what is asked against what was agreed, and its
//! error is the reply. In between the reader learns from [`RequestHeader::payload_bytes`] how
//! much follows, right or wrong, so that it finds the next header.

use crate::export::wire_flags;
use crate::{Errno, Export, TransmissionFlags, wire};
use units::{Bytes, Offset};

wire_flags! {
    /// Flags of a request.
    CommandFlags {
        /// The write is durable before it is answered.
        FUA = 0;
        /// Zeroes are to be allocated.
        NO_HOLE = 1;
        /// The read is answered in one piece.
        DF = 2;
        /// One extent is enough.
        REQ_ONE = 3;
        /// Fail unless zeroes can be written faster than data.
        FAST_ZERO = 4;
    }
}

/// The client's name for a request in flight; the reply carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cookie(pub u64);

/// A request's header, its fields as they stand on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Flags, unknown ones included.
    pub flags: CommandFlags,
    /// Command number, see [`wire::command`].
    pub kind: u16,
    /// Comes back in the reply.
    pub cookie: Cookie,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u32,
}

/// The bytes are no request: the stream is lost and the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a request: it begins with {magic:#010x}")]
pub struct NotARequest {
    /// What stands where the magic number belongs.
    pub magic: u32,
}

/// What both sides agreed on in the handshake, as far as requests are judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The export.
    pub export: Export,
    /// Whether replies come in chunks.
    pub structured: bool,
    /// Whether `base:allocation` was chosen.
    pub base_allocation: bool,
}

/// A request that is within the terms: in bounds, aligned, understood, and not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
        /// Whether the answer must come in one piece.
        whole: bool,
    },
    /// Write the payload that follows the header.
    Write {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
        /// Whether it is durable before it is answered.
        fua: bool,
    },
    /// Finish what is in flight, then close; there is no reply.
    Disconnect,
    /// Make writes that were answered durable.
    Flush,
    /// The range is no longer needed.
    Trim {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
        /// Whether it is durable before it is answered.
        fua: bool,
    },
    /// The range will be read soon.
    Cache {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
    },
    /// The range reads as zeroes from now on.
    WriteZeroes {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
        /// Whether the range may become a hole.
        may_unmap: bool,
        /// Whether it is durable before it is answered.
        fua: bool,
        /// Whether to fail with [`Errno::NotSup`] unless it is faster than writing.
        fast: bool,
    },
    /// Describe the range's allocation.
    BlockStatus {
        /// Where, in bytes.
        offset: Offset,
        /// How much, in bytes.
        length: Bytes,
        /// Whether to answer with the first extent only.
        one: bool,
    },
}

impl RequestHeader {
    /// Length of a header on the wire.
    pub const BYTES: usize = 28;

    /// Reads a header.
    ///
    /// # Errors
    /// If it does not begin with the magic number.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, NotARequest> {
        let [m0, m1, m2, m3, f0, f1, k0, k1, rest @ ..] = *bytes;
        let [c0, c1, c2, c3, c4, c5, c6, c7, rest @ ..] = rest;
        let [o0, o1, o2, o3, o4, o5, o6, o7, length @ ..] = rest;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != wire::REQUEST_MAGIC {
            return Err(NotARequest { magic });
        }
        Ok(Self {
            flags: CommandFlags::from_wire(u16::from_be_bytes([f0, f1])),
            kind: u16::from_be_bytes([k0, k1]),
            cookie: Cookie(u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7])),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length: u32::from_be_bytes(length),
        })
    }

    /// The header on the wire.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_wire().to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes of payload that follow on the wire, whether or not the request makes sense.
    pub const fn payload_bytes(&self) -> u32 {
        if self.kind == wire::command::WRITE {
            self.length
        } else {
            0
        }
    }

    /// What is asked, checked against the terms.
    ///
    /// # Errors
    /// The error number to reply with. The payload, if there is one, still follows.
    pub fn command(&self, terms: &Terms) -> Result<Command, Errno> {
        self.check_flags(terms)?;
        match self.kind {
            wire::command::READ => {
                let (offset, length) = self.range(terms, Room::Payload(Errno::Inval))?;
                let whole = self.flags.has(CommandFlags::DF);
                Ok(Command::Read {
                    offset,
                    length,
                    whole,
                })
            }
            wire::command::DISC => Ok(Command::Disconnect),
            wire::command::FLUSH => {
                able(terms, TransmissionFlags::SEND_FLUSH)?;
                if self.offset != 0 || self.length != 0 {
                    return Err(Errno::Inval);
                }
                Ok(Command::Flush)
            }
            wire::command::CACHE => {
                able(terms, TransmissionFlags::SEND_CACHE)?;
                let (offset, length) = self.range(terms, Room::Any(Errno::Inval))?;
                Ok(Command::Cache { offset, length })
            }
            wire::command::BLOCK_STATUS => {
                if !terms.base_allocation {
                    return Err(Errno::Inval);
                }
                let (offset, length) = self.range(terms, Room::Any(Errno::Inval))?;
                let one = self.flags.has(CommandFlags::REQ_ONE);
                Ok(Command::BlockStatus {
                    offset,
                    length,
                    one,
                })
            }
            wire::command::WRITE | wire::command::TRIM | wire::command::WRITE_ZEROES => {
                self.change(terms)
            }
            _ => Err(Errno::Inval),
        }
    }

    /// A command that changes the disk.
    fn change(&self, terms: &Terms) -> Result<Command, Errno> {
        if terms.export.flags.has(TransmissionFlags::READ_ONLY) {
            return Err(Errno::Perm);
        }
        let fua = self.flags.has(CommandFlags::FUA);
        match self.kind {
            wire::command::WRITE => {
                let (offset, length) = self.range(terms, Room::Payload(Errno::NoSpc))?;
                Ok(Command::Write {
                    offset,
                    length,
                    fua,
                })
            }
            wire::command::TRIM => {
                able(terms, TransmissionFlags::SEND_TRIM)?;
                let (offset, length) = self.range(terms, Room::Any(Errno::Inval))?;
                Ok(Command::Trim {
                    offset,
                    length,
                    fua,
                })
            }
            _ => {
                able(terms, TransmissionFlags::SEND_WRITE_ZEROES)?;
                let (offset, length) = self.range(terms, Room::Any(Errno::NoSpc))?;
                Ok(Command::WriteZeroes {
                    offset,
                    length,
                    may_unmap: !self.flags.has(CommandFlags::NO_HOLE),
                    fua,
                    fast: self.flags.has(CommandFlags::FAST_ZERO),
                })
            }
        }
    }

    /// Flags that belong to another command, or that were never offered, are refused: whoever
    /// sends them counts on a meaning that we would not give them. `FUA` alone is allowed
    /// everywhere, as the protocol demands, and means nothing where nothing is written.
    fn check_flags(&self, terms: &Terms) -> Result<(), Errno> {
        let export = terms.export.flags;
        let own = match self.kind {
            wire::command::READ => CommandFlags::NONE.with_if(
                terms.structured && export.has(TransmissionFlags::SEND_DF),
                CommandFlags::DF,
            ),
            wire::command::WRITE_ZEROES => CommandFlags::NO_HOLE.with_if(
                export.has(TransmissionFlags::SEND_FAST_ZERO),
                CommandFlags::FAST_ZERO,
            ),
            wire::command::BLOCK_STATUS => CommandFlags::REQ_ONE,
            _ => CommandFlags::NONE,
        };
        let fua = export.has(TransmissionFlags::SEND_FUA);
        if self.flags.within(own.with_if(fua, CommandFlags::FUA)) {
            Ok(())
        } else {
            Err(Errno::Inval)
        }
    }

    fn range(&self, terms: &Terms, room: Room) -> Result<(Offset, Bytes), Errno> {
        let blocks = terms.export.blocks;
        let minimum = u64::from(blocks.minimum);
        let (offset, length) = (Offset::new(self.offset), Bytes::new(u64::from(self.length)));
        if length.is_zero() || !offset.is_multiple_of(minimum) || !length.is_multiple_of(minimum) {
            return Err(Errno::Inval);
        }
        let beyond = match room {
            Room::Payload(_) if self.length > blocks.maximum => return Err(Errno::Inval),
            Room::Payload(beyond) | Room::Any(beyond) => beyond,
        };
        match offset.checked_add(length) {
            Some(end) if end.from_start() <= terms.export.size => Ok((offset, length)),
            _ => Err(beyond),
        }
    }
}

fn able(terms: &Terms, flag: TransmissionFlags) -> Result<(), Errno> {
    if terms.export.flags.has(flag) {
        Ok(())
    } else {
        Err(Errno::Inval)
    }
}

/// Whether a command's length is bounded by the largest payload, and what to say of a range
/// that ends beyond the export.
#[derive(Clone, Copy)]
enum Room {
    Payload(Errno),
    Any(Errno),
}

#[cfg(test)]
mod tests;
