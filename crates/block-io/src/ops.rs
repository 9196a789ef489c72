//! Operations that the core asks of the shell, and their outcomes.

use crate::{Buf, IoError, Place, Slice};
use units::{Bytes, DiskSlot, Offset};

/// Names one operation in flight. Its issuer chooses it and knows it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One operation on the flash device.
#[derive(Debug)]
pub struct FlashOp {
    /// Comes back with the completion.
    pub token: Token,
    /// What to do.
    pub verb: FlashVerb,
}

/// What to do on the flash device. Offsets and lengths are multiples of 4 KiB.
#[derive(Debug)]
pub enum FlashVerb {
    /// Fill the first `length` bytes of `buf` from `offset`.
    Read {
        /// Where on the device, in bytes.
        offset: Offset,
        /// How much.
        length: Bytes,
        /// Comes back with the completion, on failure too.
        buf: Buf,
    },
    /// Fill memory that is not ours from `offset`. A failure may be the memory's rather than the
    /// device's, and leaves any bytes there.
    ReadInto {
        /// Where on the device, in bytes.
        offset: Offset,
        /// What to fill; comes back with the completion, on failure too.
        place: Place,
    },
    /// Write `data` at `offset`. With `durable` the completion means that these bytes survive
    /// a power cut; without it they may be lost or torn until a later flush.
    Write {
        /// Where on the device, in bytes.
        offset: Offset,
        /// What to write.
        data: Slice,
        /// Whether completion implies durability of these bytes.
        durable: bool,
    },
    /// Make every write that completed before this was submitted durable.
    Flush,
}

/// The outcome of a [`FlashOp`].
#[derive(Debug)]
pub struct FlashDone {
    /// The operation's token.
    pub token: Token,
    /// The buffer of a read; none for writes and flushes.
    pub buf: Option<Buf>,
    /// The memory of a read into what is not ours.
    pub place: Option<Place>,
    /// Whole success or failure: a short transfer is a failure.
    pub result: Result<(), IoError>,
}

impl FlashDone {
    /// How much a read may have brought; zero for writes and flushes.
    pub fn read_bytes(&self) -> Bytes {
        let buf = self.buf.as_ref().map_or(0, Buf::len);
        let place = self.place.as_ref().map_or(0, Place::len);
        Bytes::new((buf + place) as u64)
    }
}

/// One operation on a disk's origin.
#[derive(Debug)]
pub struct OriginOp {
    /// Comes back with the completion.
    pub token: Token,
    /// Whose origin.
    pub disk: DiskSlot,
    /// What to do.
    pub verb: OriginVerb,
}

/// What to do on an origin. Offsets and lengths are in bytes, within the origin's size, at
/// its alignment (512 bytes at the finest).
#[derive(Debug)]
pub enum OriginVerb {
    /// Fill the first `length` bytes of `buf` from `offset`.
    Read {
        /// Where on the origin, in bytes.
        offset: Offset,
        /// How much.
        length: Bytes,
        /// Comes back with the completion, on failure too.
        buf: Buf,
    },
    /// Write the payload at `offset`; with `fua` it is durable at completion.
    Write {
        /// Where on the origin, in bytes.
        offset: Offset,
        /// What to write.
        data: Slice,
        /// Whether completion implies durability of these bytes.
        fua: bool,
    },
    /// Make every write that completed before this was submitted durable.
    Flush,
    /// The guest no longer needs these bytes; what they read afterwards is the origin's choice.
    Discard {
        /// Where on the origin, in bytes.
        offset: Offset,
        /// How much.
        length: Bytes,
    },
    /// Afterwards these bytes read as zero.
    WriteZeroes {
        /// Where on the origin, in bytes.
        offset: Offset,
        /// How much.
        length: Bytes,
        /// Whether the origin may deallocate the range.
        may_unmap: bool,
        /// Whether completion implies durability.
        fua: bool,
    },
}

impl OriginVerb {
    /// Whether an origin of this geometry can be asked this: whole sectors, within its size,
    /// not empty, a buffer that is long enough, and nothing written where that is refused.
    ///
    /// # Errors
    /// [`IoError::Invalid`] or, for a write to what is read-only, [`IoError::NotPermitted`].
    pub fn check(&self, geometry: &OriginGeometry) -> Result<(), IoError> {
        let Some((offset, length)) = self.range() else {
            return Ok(());
        };
        if let Self::Read { buf, .. } = self
            && length.get() > buf.len() as u64
        {
            return Err(IoError::Invalid);
        }
        let sector = geometry.sector.get();
        let whole = offset.is_multiple_of(sector) && length.is_multiple_of(sector);
        let within = offset
            .checked_add(length)
            .is_some_and(|end| end.from_start() <= geometry.size);
        if !whole || !within || length.is_zero() {
            return Err(IoError::Invalid);
        }
        if self.is_change() && geometry.read_only {
            return Err(IoError::NotPermitted);
        }
        Ok(())
    }

    /// Where it is and how long, in bytes; `None` for a flush.
    pub fn range(&self) -> Option<(Offset, Bytes)> {
        match self {
            Self::Read { offset, length, .. }
            | Self::Discard { offset, length }
            | Self::WriteZeroes { offset, length, .. } => Some((*offset, *length)),
            Self::Write { offset, data, .. } => Some((*offset, Bytes::new(data.len() as u64))),
            Self::Flush => None,
        }
    }

    /// Whether bytes may be others afterwards.
    pub const fn is_change(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Discard { .. } | Self::WriteZeroes { .. } => true,
            Self::Read { .. } | Self::Flush => false,
        }
    }

    /// The buffer of a read, for an operation that ends before it began.
    pub fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Read { buf, .. } => Some(buf),
            Self::Write { .. } | Self::Flush | Self::Discard { .. } | Self::WriteZeroes { .. } => {
                None
            }
        }
    }
}

/// The outcome of an [`OriginOp`].
#[derive(Debug)]
pub struct OriginDone {
    /// The operation's token.
    pub token: Token,
    /// The buffer of a read; none for the others.
    pub buf: Option<Buf>,
    /// Whole success or failure: a short transfer is a failure.
    pub result: Result<(), IoError>,
    /// What was read may be lost, although a flush has succeeded since: it has bytes of a change that was
    /// given up, and was carried out too late for that flush. Only a flush that is submitted from now on
    /// makes them durable.
    pub volatile: bool,
    /// What was read is not to be kept: it is read where it was each time.
    pub passes: bool,
}

impl OriginOp {
    /// Its outcome, if it ends before it began.
    pub fn ended(self, result: Result<(), IoError>) -> OriginDone {
        OriginDone::plain(self.token, self.verb.into_buf(), result)
    }
}

impl OriginDone {
    /// An outcome of which nothing more is to be said.
    pub const fn plain(token: Token, buf: Option<Buf>, result: Result<(), IoError>) -> Self {
        Self {
            token,
            buf,
            result,
            volatile: false,
            passes: false,
        }
    }
}

/// What an origin is and can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginGeometry {
    /// Size in bytes, a multiple of 512.
    pub size: Bytes,
    /// Smallest unit of address and length, in bytes: 512 or 4096.
    pub sector: Bytes,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether [`OriginVerb::Discard`] does anything.
    pub can_discard: bool,
}
