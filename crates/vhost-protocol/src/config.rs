//! The configuration space of a virtio-blk device: what the guest's driver reads about the disk.
//!
//! ```text
//!   0 capacity u64       20 blk_size u32            34 num_queues u16          48 max_write_zeroes_sectors u32
//!   8 size_max u32       24 physical_block_exp u8   36 max_discard_sectors u32 52 max_write_zeroes_seg u32
//!  12 seg_max u32        25 alignment_offset u8     40 max_discard_seg u32     56 write_zeroes_may_unmap u8
//!  16 geometry 4 bytes   26 min_io_size u16         44 discard_alignment u32   57 (unused) ... 60
//!                        28 opt_io_size u32
//!                        32 wce u8, 33 unused
//! ```
//! Little-endian. The capacity and all `sectors` are in units of 512 bytes, whatever the sector is.

use crate::blk::Terms;
use crate::limits::{DATA_SEGMENTS_MAX, RANGE_SECTORS_MAX};
use units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};

/// Where the guest's choice between write-back (1) and write-through (0) is.
const WRITE_BACK_AT: usize = 32;
const BYTES: usize = 60;

/// Length of requests that the disk likes best, in bytes: large enough to be one read of flash.
const OPTIMAL_BYTES: u64 = 64 << 10;

/// What the configuration space says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigSpace {
    /// What the disk is like.
    pub terms: Terms,
    /// How many queues there may be.
    pub queues: u16,
    /// Writes are durable only after a flush; otherwise each is when it is answered.
    pub write_back: bool,
}

impl ConfigSpace {
    /// `size` bytes of it from `offset` on. Beyond what is known there are zeroes.
    pub fn read(&self, offset: u32, size: u32) -> Vec<u8> {
        let bytes = self.encode();
        let range = u64::from(offset)..u64::from(offset) + u64::from(size);
        let at = |place: u64| usize::try_from(place).ok().and_then(|at| bytes.get(at));
        range.map(|place| at(place).copied().unwrap_or(0)).collect()
    }

    /// Takes over what the guest wrote. All but the choice of write-back is ours and stays.
    pub fn write(&mut self, offset: u32, bytes: &[u8]) {
        let chosen = WRITE_BACK_AT
            .checked_sub(offset as usize)
            .and_then(|place| bytes.get(place));
        if let Some(chosen) = chosen {
            self.write_back = *chosen != 0;
        }
    }

    fn encode(&self) -> [u8; BYTES] {
        let terms = &self.terms;
        let sector = u64::from(terms.sector);
        let sectors_per_block = BLOCK_BYTES / sector;
        let in_sectors = |bytes: u64| u32::try_from(bytes / sector).expect("a short length");
        let exponent = u8::try_from(sectors_per_block.ilog2()).expect("a small exponent");
        let shortest = u16::try_from(sectors_per_block).expect("a block has few sectors");
        // Whole blocks: what is freed is then free at the origin and in the cache.
        let alignment = u32::try_from(BLOCK_BYTES / SECTOR_BYTES).expect("a small ratio");
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &(terms.size.get() / SECTOR_BYTES).to_le_bytes());
        put(12, &DATA_SEGMENTS_MAX.to_le_bytes());
        put(20, &terms.sector.to_le_bytes());
        put(24, &[exponent, 0]);
        put(26, &shortest.to_le_bytes());
        put(28, &in_sectors(OPTIMAL_BYTES).to_le_bytes());
        put(WRITE_BACK_AT, &[u8::from(self.write_back)]);
        put(34, &self.queues.to_le_bytes());
        if terms.can_discard && !terms.read_only {
            put(36, &RANGE_SECTORS_MAX.to_le_bytes());
            put(40, &1_u32.to_le_bytes());
            put(44, &alignment.to_le_bytes());
        }
        if !terms.read_only {
            put(48, &RANGE_SECTORS_MAX.to_le_bytes());
            put(52, &1_u32.to_le_bytes());
            put(56, &[u8::from(terms.can_discard)]);
        }
        bytes
    }

    /// The size changed.
    pub fn resize(&mut self, size: Bytes) {
        self.terms.size = size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(sector: u32) -> ConfigSpace {
        ConfigSpace {
            terms: Terms {
                size: Bytes::mib(64),
                sector,
                read_only: false,
                can_discard: true,
            },
            queues: 4,
            write_back: true,
        }
    }

    #[test]
    fn every_field_is_where_virtio_has_it() {
        let bytes = space(512).read(0, 60);
        let number = |range: std::ops::Range<usize>| {
            let reversed = bytes[range].iter().rev();
            reversed.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        assert_eq!(number(0..8), 131_072);
        assert_eq!(number(12..16), 126);
        assert_eq!(number(20..24), 512);
        assert_eq!(number(24..25), 3);
        assert_eq!(number(26..28), 8);
        assert_eq!(number(28..32), 128);
        assert_eq!(number(32..33), 1);
        assert_eq!(number(34..36), 4);
        assert_eq!(number(36..40), u64::from(RANGE_SECTORS_MAX));
        assert_eq!((number(40..44), number(44..48)), (1, 8));
        assert_eq!((number(52..56), number(56..57)), (1, 1));
    }

    #[test]
    fn sectors_of_4096_bytes_change_units_but_not_the_capacity() {
        let bytes = space(4096).read(0, 60);
        assert_eq!(bytes[0..8], 131_072_u64.to_le_bytes());
        assert_eq!(bytes[20..24], 4096_u32.to_le_bytes());
        assert_eq!(bytes[24], 0);
        assert_eq!(bytes[26..28], 1_u16.to_le_bytes());
        assert_eq!(bytes[28..32], 16_u32.to_le_bytes());
    }

    #[test]
    fn a_read_only_disk_frees_nothing() {
        let mut space = space(512);
        space.terms.read_only = true;
        assert_eq!(space.read(36, 24), vec![0; 24]);
    }

    #[test]
    fn beyond_the_end_there_are_zeroes() {
        assert_eq!(space(512).read(56, 200)[1..], [0; 199]);
        assert_eq!(space(512).read(250, 6), [0; 6]);
    }

    #[test]
    fn the_guest_chooses_between_write_back_and_write_through_only() {
        let mut changed = space(512);
        changed.write(0, &[0xff; 32]);
        changed.write(33, &[0xff; 100]);
        assert_eq!(changed, space(512));
        changed.write(32, &[0]);
        assert!(!changed.write_back);
        changed.write(30, &[9, 9, 1]);
        assert!(changed.write_back);
    }
}
