//! What an operation is about, and the same operation elsewhere.

use block_io::OriginVerb;
use std::ops::Range;
use units::{Bytes, Offset, SECTOR_BYTES};

/// A sector that is to change.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub offset: Offset,
    pub bytes: Vec<u8>,
}

/// The operation as seen from `from`, if it is one that may be lied about.
pub(crate) fn shifted(verb: OriginVerb, from: Offset) -> Result<OriginVerb, OriginVerb> {
    match verb {
        OriginVerb::Read {
            offset,
            length,
            buf,
        } if offset >= from => Ok(OriginVerb::Read {
            offset: Offset::after(offset - from),
            length,
            buf,
        }),
        OriginVerb::Write {
            offset,
            data,
            fua: false,
        } if offset >= from => Ok(OriginVerb::Write {
            offset: Offset::after(offset - from),
            data,
            fua: false,
        }),
        other => Err(other),
    }
}

/// Where it writes data.
pub(crate) fn write_offset(verb: &OriginVerb) -> Option<Offset> {
    match verb {
        OriginVerb::Write { offset, .. } => Some(*offset),
        _ => None,
    }
}

/// What [`shifted`] has moved, where it was.
pub(crate) fn shifted_back(verb: OriginVerb, from: Offset) -> OriginVerb {
    match verb {
        OriginVerb::Read {
            offset,
            length,
            buf,
        } => OriginVerb::Read {
            offset: offset + from.from_start(),
            length,
            buf,
        },
        OriginVerb::Write { offset, data, fua } => OriginVerb::Write {
            offset: offset + from.from_start(),
            data,
            fua,
        },
        other => other,
    }
}

/// The range that it is about; none of a flush.
pub(crate) fn range_of(verb: &OriginVerb) -> Option<(Offset, Offset)> {
    let (offset, length) = match verb {
        OriginVerb::Read { offset, length, .. }
        | OriginVerb::Discard { offset, length }
        | OriginVerb::WriteZeroes { offset, length, .. } => (*offset, *length),
        OriginVerb::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
        OriginVerb::Flush => return None,
    };
    Some((offset, offset + length))
}

/// The sectors that a change writes; none if it is no change.
pub(crate) fn pieces_of(verb: &OriginVerb) -> Option<Vec<Piece>> {
    let zeroes;
    let (offset, bytes) = match verb {
        OriginVerb::Read { .. } | OriginVerb::Flush => return None,
        OriginVerb::Write { offset, data, .. } => (*offset, &data[..]),
        OriginVerb::Discard { offset, length } | OriginVerb::WriteZeroes { offset, length, .. } => {
            zeroes = vec![0; length.to_usize()];
            (*offset, &zeroes[..])
        }
    };
    let sector = Bytes::new(SECTOR_BYTES).to_usize();
    let pieces = (0..)
        .zip(bytes.chunks(sector))
        .map(|(number, bytes)| Piece {
            offset: offset + Bytes::new(number * SECTOR_BYTES),
            bytes: bytes.to_vec(),
        });
    Some(pieces.collect())
}

/// Whether two places have something in common.
pub(crate) fn overlap(a: &Range<Offset>, b: &Range<Offset>) -> bool {
    a.start < b.end && b.start < a.end
}
