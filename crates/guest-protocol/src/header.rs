//! The header of a frame.

use crate::limits::{BODY_BYTES_MAX, HEADER_BYTES};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What every frame begins with. It contains no zero byte, so padding is never taken for one.
pub(crate) const MAGIC: [u8; 4] = *b"HrGu";
/// The version of header and bodies that is spoken: the first.
pub(crate) const VERSION: u8 = 1;
/// Bytes of the header that the checksum covers: all before it.
const CHECKED_BYTES: usize = HEADER_BYTES - 4;

/// A header as it is on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u8,
    pub(crate) kind: u8,
    length: U16,
    sequence: U32,
    checksum: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

impl Header {
    /// The header of a body.
    ///
    /// # Panics
    /// If the body is longer than a frame's may be: the sender keeps to the limits.
    pub(crate) fn of(kind: u8, sequence: u32, body: &[u8]) -> Self {
        assert!(body.len() <= BODY_BYTES_MAX, "a body that is allowed");
        let length = u16::try_from(body.len()).expect("it was bounded");
        let mut header = Self {
            magic: MAGIC,
            version: VERSION,
            kind,
            length: U16::new(length),
            sequence: U32::new(sequence),
            checksum: U32::ZERO,
        };
        header.checksum = U32::new(header.checksum_with(body));
        header
    }

    pub(crate) fn body_bytes(&self) -> usize {
        usize::from(self.length.get())
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// Whether header and body are those that were sent together.
    pub(crate) fn is_of(&self, body: &[u8]) -> bool {
        self.checksum.get() == self.checksum_with(body)
    }

    fn checksum_with(&self, body: &[u8]) -> u32 {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.as_bytes()[..CHECKED_BYTES]);
        digest.update(body);
        u32::try_from(digest.finalize()).expect("a checksum of 32 bits")
    }
}
