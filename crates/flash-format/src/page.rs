//! The 4 KiB page of metadata: common header, seal, and the ways in which it can be wrong.

use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;

/// A page of metadata.
pub type PageBytes = [u8; PAGE_BYTES];

/// Bytes of the common header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes behind the common header.
pub(crate) const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

/// What kind of page it is, as its first eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Magic(pub(crate) [u8; 8]);

impl Magic {
    pub(crate) const SUPERBLOCK: Self = Self(*b"HEARTHsb");
    pub(crate) const JOURNAL: Self = Self(*b"HEARTHjn");
    pub(crate) const CHECKPOINT: Self = Self(*b"HEARTHcp");
    pub(crate) const CHUNK: Self = Self(*b"HEARTHck");
    pub(crate) const DIRTY_CHUNK: Self = Self(*b"HEARTHdk");
    pub(crate) const FOOTER: Self = Self(*b"HEARTHft");
}

/// The header that every page of metadata starts with.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    /// Kind of page.
    pub(crate) magic: [u8; 8],
    /// Which cache; a new one with each format.
    pub(crate) uuid: U128,
    /// Orders pages of one kind: journal sequence, checkpoint number, segment generation,
    /// superblock sequence.
    pub(crate) sequence: U64,
    /// Where it belongs: page within checkpoint, segment number; zero elsewhere.
    pub(crate) place: U32,
    /// Place within that: page within the segment.
    pub(crate) part: U32,
    /// Entries that follow.
    pub(crate) count: U32,
    /// Meaning depends on the kind; zero elsewhere.
    pub(crate) extra: U64,
    /// Meaning depends on the kind; zero elsewhere.
    pub(crate) more: U64,
    /// crc32c of the other 4,092 bytes of the page.
    pub(crate) crc: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
const CRC_OFFSET: usize = HEADER_BYTES - 4;

/// Where every counter on flash ends: sequences, generations, numbers of checkpoints. Counting
/// once a nanosecond reaches it in a century, so a larger one is forged, and whoever counts on
/// from a smaller one need not think of overflow.
pub(crate) const COUNTER_END: u64 = 1 << 62;

/// Why a page is not what was expected in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not carry the mark of its kind: never written, or overwritten.
    #[error("no page of this kind")]
    Absent,
    /// Its checksum is wrong: torn or rotten.
    #[error("checksum mismatch")]
    Checksum,
    /// It is whole but belongs to another cache, place or time: stale or misdirected.
    #[error("it belongs to another place or time")]
    Misplaced,
    /// It is whole but says what cannot be.
    #[error("impossible content")]
    Impossible,
}

/// crc32c (Castagnoli; CRC-32/ISCSI) of a block or page.
///
/// # Panics
/// Never: the checksum has 32 bits.
pub fn checksum(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(
        crc_fast::CrcAlgorithm::Crc32Iscsi,
        bytes,
    ))
    .expect("a 32-bit checksum")
}

fn page_checksum(page: &PageBytes) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&page[..CRC_OFFSET]);
    digest.update(&page[HEADER_BYTES..]);
    u32::try_from(digest.finalize()).expect("a 32-bit checksum")
}

/// Puts `header` and its checksum on a page whose body is complete.
pub(crate) fn seal(page: &mut PageBytes, header: Header) {
    page[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    let crc = page_checksum(page);
    page[CRC_OFFSET..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// The header of a page of this kind, if its checksum is right.
pub(crate) fn open(page: &PageBytes, magic: Magic) -> Result<Header, Damage> {
    let (header, _) = Header::read_from_prefix(page).map_err(|_| Damage::Absent)?;
    if header.magic != magic.0 {
        return Err(Damage::Absent);
    }
    if header.crc.get() != page_checksum(page) {
        return Err(Damage::Checksum);
    }
    if header.sequence.get() >= COUNTER_END {
        return Err(Damage::Impossible);
    }
    Ok(header)
}

/// A header of this kind with everything else zero.
pub(crate) fn header(magic: Magic, uuid: u128, sequence: u64) -> Header {
    Header {
        magic: magic.0,
        uuid: U128::new(uuid),
        sequence: U64::new(sequence),
        place: U32::ZERO,
        part: U32::ZERO,
        count: U32::ZERO,
        extra: U64::ZERO,
        more: U64::ZERO,
        crc: U32::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        // Check value of CRC-32/ISCSI for the ASCII digits, from the catalogue of parametrised CRCs.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn every_flipped_bit_shows() {
        let mut page = [7; PAGE_BYTES];
        seal(&mut page, header(Magic::CHUNK, 1, 2));
        assert!(open(&page, Magic::CHUNK).is_ok());
        for byte in [0, 9, 30, 59, 60, 63, 64, 4095] {
            page[byte] ^= 1;
            assert!(open(&page, Magic::CHUNK).is_err(), "byte {byte}");
            page[byte] ^= 1;
        }
        assert_eq!(open(&page, Magic::FOOTER).err(), Some(Damage::Absent));
    }
}
