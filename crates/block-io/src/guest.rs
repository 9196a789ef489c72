//! What a guest asks of its disk, in the words that every front end and the cache share.

use crate::Slice;
use units::{Bytes, Offset};

/// What a guest asks. Offsets and lengths are in bytes and multiples of 512.
#[derive(Debug)]
pub enum Verb {
    /// Read bytes.
    Read {
        /// Where on the disk.
        offset: Offset,
        /// How much; not zero.
        length: Bytes,
    },
    /// Write bytes; with `fua` they are durable when the reply comes.
    Write {
        /// Where on the disk.
        offset: Offset,
        /// The bytes; not empty.
        data: Slice,
        /// Whether the reply implies durability.
        fua: bool,
    },
    /// Make every write that was answered before this request durable.
    Flush,
    /// The guest no longer needs these bytes.
    Discard {
        /// Where on the disk.
        offset: Offset,
        /// How much; not zero.
        length: Bytes,
    },
    /// Afterwards these bytes read as zero.
    WriteZeroes {
        /// Where on the disk.
        offset: Offset,
        /// How much; not zero.
        length: Bytes,
        /// Whether the origin may deallocate the range.
        may_unmap: bool,
        /// Whether the reply implies durability.
        fua: bool,
    },
    /// Bring these bytes into the cache; answered when they are there or could not be read.
    Prefetch {
        /// Where on the disk.
        offset: Offset,
        /// How much; not zero.
        length: Bytes,
    },
}
