//! Which disk, and where on it.

use crate::{BLOCK_BYTES, Offset};
use std::fmt;
use std::str::FromStr;

/// A disk's identity for as long as it lives, whatever host or cache serves it: 128 bits.
///
/// Written as 32 hexadecimal digits. A UUID is read, too ([RFC 9562], section 4).
///
/// [RFC 9562]: https://www.rfc-editor.org/rfc/rfc9562
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(u128);

impl DiskId {
    /// The id with these bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn to_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk:{:032x}", self.0)
    }
}

/// Why a text is not a disk id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a disk id: write 32 hexadecimal digits, or a UUID")]
pub struct ParseDiskIdError(String);

impl FromStr for DiskId {
    type Err = ParseDiskIdError;

    fn from_str(text: &str) -> Result<Self, ParseDiskIdError> {
        let wrong = || ParseDiskIdError(text.to_owned());
        let is_uuid =
            text.len() == 36 && UUID_HYPHENS.iter().all(|at| text.as_bytes()[*at] == b'-');
        let digits = if is_uuid {
            text.replace('-', "")
        } else {
            text.to_owned()
        };
        if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let bits = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
        Ok(Self(bits))
    }
}

/// Where a UUID has its hyphens.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A disk's place in one cache's disk table: a small number that stands for its [`DiskId`]
/// in every index entry and segment of that cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskSlot(u16);

impl DiskSlot {
    /// Disks that one cache can know at a time, attached or remembered.
    pub const COUNT: usize = 1024;

    /// The slot with this number.
    ///
    /// # Panics
    /// If the number is not below [`DiskSlot::COUNT`].
    pub const fn new(number: u16) -> Self {
        assert!(
            (number as usize) < Self::COUNT,
            "a disk slot is below DiskSlot::COUNT"
        );
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number as a table index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for DiskSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

/// A block's number on its disk: the block covers bytes `[4096 n, 4096 (n + 1))`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(u64);

impl BlockIndex {
    /// Bits that hold any block number: disks end at 256 TiB.
    pub const BITS: u32 = 36;

    /// The block with this number.
    ///
    /// # Panics
    /// If the number needs more than [`BlockIndex::BITS`] bits; disks that large are refused
    /// when they are attached.
    pub const fn new(number: u64) -> Self {
        assert!(
            number >> Self::BITS == 0,
            "a block number fits in BlockIndex::BITS"
        );
        Self(number)
    }

    /// The block in which a byte offset lies (rounds down).
    pub const fn containing(offset: Offset) -> Self {
        Self::new(offset.get() / BLOCK_BYTES)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Where the block begins on its disk.
    pub const fn start(self) -> Offset {
        Offset::new(self.0 * BLOCK_BYTES)
    }

    /// The block that follows.
    pub const fn next(self) -> Self {
        self.advance(1)
    }

    /// The block `count` further.
    pub const fn advance(self, count: u64) -> Self {
        Self::new(self.0 + count)
    }
}

impl fmt::Debug for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_id_is_printed_and_parsed_alike() {
        let id = DiskId::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(id.to_string(), "0123456789abcdef0011223344556677");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("0123".parse::<DiskId>().is_err());
        assert!(
            "+123456789abcdef0011223344556677"
                .parse::<DiskId>()
                .is_err()
        );
    }

    #[test]
    fn a_disk_id_may_be_a_uuid() {
        let id = DiskId::from_u128(0x6ab2_c7f0_31a5_4d0e_9d33_0f0a_52a1_c111);
        assert_eq!("6ab2c7f0-31a5-4d0e-9d33-0f0a52a1c111".parse(), Ok(id));
        for wrong in [
            "6ab2c7f031a5-4d0e-9d33-0f0a52a1c111",
            "6ab2c7f0-31a54d0e--9d33-0f0a52a1c111",
            "6ab2c7f0-31a5-4d0e-9d33-0f0a52a1c11-",
        ] {
            assert!(wrong.parse::<DiskId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_block_of_an_offset_rounds_down() {
        assert_eq!(
            BlockIndex::containing(Offset::new(4095)),
            BlockIndex::new(0)
        );
        assert_eq!(
            BlockIndex::containing(Offset::new(4096)).start(),
            Offset::new(4096)
        );
    }
}
