//! virtio-blk requests: a chain becomes what the disk is asked for.
//!
//! ```text
//!   readable │ type u32 │ reserved u32 │ sector u64 │ data out ... │
//!   writable │ data in ...                                │ status u8 │
//! ```
//!
//! Where one segment ends and the next begins means nothing. The header, and what a discard
//! names, is read from guest memory once; sectors are of 512 bytes whatever the disk's are.
//!
//! Invariants of an [`Ask`]: it lies within the disk, is a multiple of its sector, is not empty,
//! changes nothing that is read-only; the data segments left in the chain have exactly its length.

use crate::area::{GuestAddress, GuestMemory, Unmapped};
use crate::chain::{Chain, Segment, Segments};
use crate::cursor::Cursor;
use crate::limits::{PAYLOAD_BYTES_MAX, RANGE_SECTORS_MAX, SERIAL_BYTES};
use units::{Bytes, Offset, SECTOR_BYTES};

const HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;

const TYPE_READ: u32 = 0;
const TYPE_WRITE: u32 = 1;
const TYPE_FLUSH: u32 = 4;
const TYPE_GET_ID: u32 = 8;
const TYPE_DISCARD: u32 = 11;
const TYPE_WRITE_ZEROES: u32 = 13;

/// In a range's flags: the space may be freed.
const FLAG_UNMAP: u32 = 1;

/// How a request ended, in its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Failed, or was not possible.
    Failed = 1,
    /// Not a kind of request that the disk knows.
    Unsupported = 2,
}

/// What requests are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Size of the disk; a multiple of its sector.
    pub size: Bytes,
    /// The smallest unit of address and length, in bytes: 512 or 4096.
    pub sector: u32,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Whether discards do anything.
    pub can_discard: bool,
}

/// What is asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read into the writable segments.
    Read {
        /// Where on the disk.
        offset: Offset,
        /// How much.
        length: Bytes,
    },
    /// Write the readable segments.
    Write {
        /// Where on the disk.
        offset: Offset,
        /// How much.
        length: Bytes,
    },
    /// Make what was answered durable.
    Flush,
    /// The bytes are no longer needed.
    Discard {
        /// Where on the disk.
        offset: Offset,
        /// How much.
        length: Bytes,
    },
    /// The bytes read as zeroes from now on.
    WriteZeroes {
        /// Where on the disk.
        offset: Offset,
        /// How much.
        length: Bytes,
        /// Whether the space may be freed.
        may_unmap: bool,
    },
    /// The serial number, into the writable segments: [`SERIAL_BYTES`] at most.
    Serial,
}

/// A request, taken from a chain whose segments are only data now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the status goes.
    pub status: GuestAddress,
    /// Bytes of data that the guest has room for, before the status.
    pub room: u64,
    /// What is asked, or what it is answered with at once.
    pub ask: Result<Ask, Status>,
}

/// Why a chain is no request at all: there is no way to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    /// It has no whole header.
    #[error("a request has no header")]
    Header,
    /// It has no room for a status.
    #[error("a request has no room for its status")]
    Status,
    /// Its header is not in memory.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
}

impl Call {
    /// Takes header and status off a chain.
    ///
    /// # Errors
    /// [`BadCall`].
    pub fn read(
        chain: &mut Chain,
        memory: &impl GuestMemory,
        terms: &Terms,
    ) -> Result<Self, BadCall> {
        let status = take_last_byte(&mut chain.writable).ok_or(BadCall::Status)?;
        let mut header = [0; HEADER_BYTES];
        if !take_front(&mut chain.readable, memory, &mut header)? {
            return Err(BadCall::Header);
        }
        let mut fields = Cursor::new(&header);
        // The array has room for all of them.
        let kind = fields.u32().unwrap_or_default();
        let _reserved = fields.u32();
        let sector = fields.u64().unwrap_or_default();
        let (out, room) = (total(&chain.readable), total(&chain.writable));
        let ask = match kind {
            TYPE_READ => {
                range(sector, room, terms).map(|(offset, length)| Ask::Read { offset, length })
            }
            TYPE_WRITE => changing(terms)
                .and_then(|()| range(sector, out, terms))
                .map(|(offset, length)| Ask::Write { offset, length }),
            TYPE_FLUSH => Ok(Ask::Flush),
            TYPE_GET_ID => Ok(Ask::Serial),
            TYPE_DISCARD | TYPE_WRITE_ZEROES => freeing(kind, chain, memory, terms)?,
            _ => Err(Status::Unsupported),
        };
        Ok(Self { status, room, ask })
    }
}

/// A serial number as a guest gets it: cut to what fits, padded with zeroes.
pub fn serial(text: &str) -> [u8; SERIAL_BYTES] {
    let mut bytes = [0; SERIAL_BYTES];
    let length = text.len().min(SERIAL_BYTES);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn changing(terms: &Terms) -> Result<(), Status> {
    if terms.read_only {
        return Err(Status::Failed);
    }
    Ok(())
}

/// A range of the disk; its length is that of the data.
fn range(sector: u64, length: u64, terms: &Terms) -> Result<(Offset, Bytes), Status> {
    if length > PAYLOAD_BYTES_MAX {
        return Err(Status::Failed);
    }
    within(sector, length, terms)
}

fn within(sector: u64, length: u64, terms: &Terms) -> Result<(Offset, Bytes), Status> {
    let unit = u64::from(terms.sector);
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Status::Failed)?;
    let end = offset.checked_add(length).ok_or(Status::Failed)?;
    let is_whole = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
    if length == 0 || !is_whole || end > terms.size.get() {
        return Err(Status::Failed);
    }
    Ok((Offset::new(offset), Bytes::new(length)))
}

/// A discard or write-zeroes. One range each, as the configuration space says.
fn freeing(
    kind: u32,
    chain: &mut Chain,
    memory: &impl GuestMemory,
    terms: &Terms,
) -> Result<Result<Ask, Status>, Unmapped> {
    if kind == TYPE_DISCARD && !terms.can_discard {
        return Ok(Err(Status::Unsupported));
    }
    if total(&chain.readable) != RANGE_BYTES as u64 {
        return Ok(Err(Status::Failed));
    }
    let mut bytes = [0; RANGE_BYTES];
    take_front(&mut chain.readable, memory, &mut bytes)?;
    let mut fields = Cursor::new(&bytes);
    // The array has room for all of them.
    let sector = fields.u64().unwrap_or_default();
    let sectors = fields.u32().unwrap_or_default();
    let flags = fields.u32().unwrap_or_default();
    // A discard has no flags; unknown ones ask for something that we do not do.
    let allowed = if kind == TYPE_DISCARD { 0 } else { FLAG_UNMAP };
    if flags & !allowed != 0 {
        return Ok(Err(Status::Unsupported));
    }
    if sectors > RANGE_SECTORS_MAX {
        return Ok(Err(Status::Failed));
    }
    let place =
        changing(terms).and_then(|()| within(sector, u64::from(sectors) * SECTOR_BYTES, terms));
    Ok(place.map(|(offset, length)| {
        if kind == TYPE_DISCARD {
            Ask::Discard { offset, length }
        } else {
            let may_unmap = flags & FLAG_UNMAP != 0;
            Ask::WriteZeroes {
                offset,
                length,
                may_unmap,
            }
        }
    }))
}

fn total(segments: &[Segment]) -> u64 {
    segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum()
}

fn take_last_byte(segments: &mut Segments) -> Option<GuestAddress> {
    let last = segments.last_mut()?;
    let at = GuestAddress(last.address.0 + u64::from(last.length) - 1);
    last.length -= 1;
    if last.length == 0 {
        segments.pop();
    }
    Some(at)
}

/// Takes bytes off the front. False: there were too few, and what is left is of no use.
fn take_front(
    segments: &mut Segments,
    memory: &impl GuestMemory,
    into: &mut [u8],
) -> Result<bool, Unmapped> {
    let mut filled = 0;
    let mut whole = 0;
    for segment in segments.iter_mut() {
        let left = u32::try_from(into.len() - filled).unwrap_or(u32::MAX);
        let count = segment.length.min(left);
        let end = filled + count as usize;
        memory.read(segment.address, &mut into[filled..end])?;
        filled = end;
        segment.length -= count;
        if segment.length > 0 {
            segment.address = GuestAddress(segment.address.0 + u64::from(count));
            break;
        }
        whole += 1;
        if filled == into.len() {
            break;
        }
    }
    segments.drain(..whole);
    Ok(filled == into.len())
}

#[cfg(test)]
mod tests;
