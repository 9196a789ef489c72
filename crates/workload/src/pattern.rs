//! What a verified block holds, so that a read tells whether it is the right one.
//!
//! ```text
//! | 0     4       8        16         24     32       36     40 ..
//! | magic | crc32c | offset | sequence | seed | length | zero | dice of seed, offset, sequence
//! ```
//!
//! The checksum covers everything behind it. Numbers are little-endian, offset and length in
//! bytes; the sequence counts the writes of this block, from one.

use crc_fast::{CrcAlgorithm, checksum};
use units::Prng;

const MAGIC: u32 = u32::from_le_bytes(*b"HBV1");
const CHECKED_FROM: usize = 8;
const HEADER_BYTES: usize = 40;

const _: () = assert!(HEADER_BYTES as u64 <= crate::limits::UNIT_BYTES_MIN);

/// Which write of which block this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Of the run that wrote it.
    pub seed: u64,
    /// Where the block belongs, in bytes.
    pub offset: u64,
    /// Which write of this block, from one.
    pub sequence: u64,
}

/// What is wrong with a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Nothing that a verified write leaves: zeroes, other data, or a header that was overwritten.
    #[error("no pattern: it begins with {0:#018x}")]
    NoPattern(u64),
    /// Parts of it are not what was written.
    #[error(
        "wrong bytes: its checksum is {is:#010x} instead of {said:#010x} (it says offset {offset}, write {sequence})"
    )]
    Checksum {
        /// What its bytes amount to.
        is: u32,
        /// What its header says.
        said: u32,
        /// Where it says that it belongs.
        offset: u64,
        /// Which write it says that it is.
        sequence: u64,
    },
    /// A block of another place.
    #[error("another block: it belongs to offset {0}")]
    Misplaced(u64),
    /// A block of another run, or of another block size.
    #[error("another run's block: seed {seed}, {length} bytes")]
    Foreign {
        /// That run's seed.
        seed: u64,
        /// That run's size of a verified block.
        length: u32,
    },
    /// An older or newer write of this block than the last one.
    #[error("write {found} of this block instead of write {expected}")]
    Stale {
        /// The last one.
        expected: u64,
        /// The one that is there.
        found: u64,
    },
}

fn crc(block: &[u8]) -> u32 {
    let sum = checksum(CrcAlgorithm::Crc32Iscsi, &block[CHECKED_FROM..]);
    u32::try_from(sum).expect("a crc32c has 32 bits")
}

fn word(block: &[u8], at: usize) -> u64 {
    let bytes = block[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("eight bytes"))
}

fn half(block: &[u8], at: usize) -> u32 {
    let bytes = block[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("four bytes"))
}

impl Stamp {
    /// Makes `block` that write of that block.
    ///
    /// # Panics
    /// If it is shorter than a sector.
    pub fn write(self, block: &mut [u8]) {
        assert!(block.len() >= HEADER_BYTES, "a block has room for a header");
        let length = u32::try_from(block.len()).expect("a block is shorter than 4 GiB");
        let mut dice = Prng::new(self.seed ^ self.offset.rotate_left(20) ^ self.sequence << 1);
        dice.fill(&mut block[HEADER_BYTES..]);
        block[8..16].copy_from_slice(&self.offset.to_le_bytes());
        block[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        block[24..32].copy_from_slice(&self.seed.to_le_bytes());
        block[32..36].copy_from_slice(&length.to_le_bytes());
        block[36..40].fill(0);
        let sum = crc(block);
        block[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Which write of the block at `offset` this is, by a run with this seed.
    ///
    /// # Errors
    /// [`Flaw`], if it is none.
    ///
    /// # Panics
    /// If it is shorter than a sector.
    pub fn read(block: &[u8], seed: u64, offset: u64) -> Result<Self, Flaw> {
        assert!(block.len() >= HEADER_BYTES, "a block has room for a header");
        if half(block, 0) != MAGIC {
            return Err(Flaw::NoPattern(u64::from_be_bytes(
                block[..8].try_into().expect("eight bytes"),
            )));
        }
        let found = Self {
            seed: word(block, 24),
            offset: word(block, 8),
            sequence: word(block, 16),
        };
        let (is, said) = (crc(block), half(block, 4));
        let length = half(block, 32);
        // A block that was cut out of a larger one has a sum over more bytes than these.
        let same_length = usize::try_from(length).is_ok_and(|length| length == block.len());
        if !same_length && found.seed != seed {
            return Err(Flaw::Foreign {
                seed: found.seed,
                length,
            });
        }
        if is != said {
            return Err(Flaw::Checksum {
                is,
                said,
                offset: found.offset,
                sequence: found.sequence,
            });
        }
        if found.seed != seed || !same_length {
            return Err(Flaw::Foreign {
                seed: found.seed,
                length,
            });
        }
        if found.offset != offset {
            return Err(Flaw::Misplaced(found.offset));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp {
        seed: 7,
        offset: 40960,
        sequence: 3,
    };

    fn block() -> Vec<u8> {
        let mut block = vec![0; 4096];
        STAMP.write(&mut block);
        block
    }

    #[test]
    fn a_block_says_what_it_is() {
        let block = block();
        assert_eq!(&block[..4], b"HBV1");
        assert_eq!(block[8..16], 40960_u64.to_le_bytes());
        assert_eq!(Stamp::read(&block, 7, 40960), Ok(STAMP));
    }

    #[test]
    fn each_kind_of_wrong_block_is_told_apart() {
        let block = block();
        assert_eq!(Stamp::read(&[0; 512], 7, 0), Err(Flaw::NoPattern(0)));
        assert_eq!(Stamp::read(&block, 7, 0), Err(Flaw::Misplaced(40960)));
        let foreign = Flaw::Foreign {
            seed: 7,
            length: 4096,
        };
        assert_eq!(Stamp::read(&block, 8, 40960), Err(foreign));
        let mut torn = block;
        let mut older = vec![0; 4096];
        Stamp {
            sequence: 2,
            ..STAMP
        }
        .write(&mut older);
        torn[2048..].copy_from_slice(&older[2048..]);
        let found = Stamp::read(&torn, 7, 40960);
        assert!(matches!(found, Err(Flaw::Checksum { sequence: 3, .. })));
    }

    #[test]
    fn two_writes_of_a_block_differ_everywhere() {
        let (mut one, mut two) = (vec![0; 4096], vec![0; 4096]);
        STAMP.write(&mut one);
        Stamp {
            sequence: 4,
            ..STAMP
        }
        .write(&mut two);
        let same = one[40..].chunks(8).zip(two[40..].chunks(8));
        assert_eq!(same.filter(|(a, b)| a == b).count(), 0);
    }

    proptest! {
        #[test]
        fn no_single_bit_can_flip_unseen(bit in 0_usize..4096 * 8) {
            let mut block = block();
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Stamp::read(&block, 7, 40960).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 512)) {
            let mut bytes = bytes;
            let _ = Stamp::read(&bytes, 7, 0);
            bytes[..4].copy_from_slice(b"HBV1");
            prop_assert!(Stamp::read(&bytes, 7, 0).is_err());
        }
    }
}
