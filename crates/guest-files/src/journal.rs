//! Where the journal of a file system is on its device, from its first bytes: ext3, ext4 and xfs.
//!
//! - ext4: the superblock keeps a copy of the journal's inode (`s_jnl_blocks`) with its extents. A journal whose extents need a
//!   tree, or that is on another device, is not told.
//! - xfs: `sb_logstart` and `sb_logblocks`; a log on another device has the start 0.
//!
//! Sources: the kernel's documentation of ext4's super block and extent tree; the "XFS Algorithms & Data Structures" book.

use std::ops::Range;

/// Bytes at the start of the device that have to be at hand.
pub const SUPERBLOCK_BYTES: usize = 2048;

/// The superblock of ext4 begins there.
const EXT4_AT: usize = 1024;
const EXT4_MAGIC: u16 = 0xef53;
const EXTENTS_MAGIC: u16 = 0xf30a;
const HAS_JOURNAL: u32 = 0x4;
/// `s_jnl_backup_type` of a copy of the inode's blocks.
const BACKUP_OF_BLOCKS: u8 = 1;
/// Extents that an inode holds without a tree.
const EXTENTS_MAX: usize = 4;

/// The ranges of the device, in bytes, that the journal has; none if the bytes do not say.
pub fn ranges(head: &[u8]) -> Vec<Range<u64>> {
    ext4(head).or_else(|| xfs(head)).unwrap_or_default()
}

fn ext4(head: &[u8]) -> Option<Vec<Range<u64>>> {
    let superblock = head.get(EXT4_AT..)?;
    if little_u16(superblock, 0x38)? != EXT4_MAGIC {
        return None;
    }
    let block_bytes = 1024_u64.checked_shl(little_u32(superblock, 0x18)?)?;
    let has_journal = little_u32(superblock, 0x5c)? & HAS_JOURNAL != 0;
    let is_here = little_u32(superblock, 0xe4)? == 0;
    let is_copied = *superblock.get(0xfd)? == BACKUP_OF_BLOCKS;
    if !(has_journal && is_here && is_copied) {
        return None;
    }
    let inode = superblock.get(0x10c..0x10c + 60)?;
    let entries = usize::from(little_u16(inode, 2)?);
    let is_flat = little_u16(inode, 6)? == 0 && entries <= EXTENTS_MAX;
    if little_u16(inode, 0)? != EXTENTS_MAGIC || !is_flat {
        return None;
    }
    let extents = inode[12..].chunks_exact(12).take(entries);
    extents
        .map(|extent| {
            let high = u64::from(little_u16(extent, 6)?);
            let first = high << 32 | u64::from(little_u32(extent, 8)?);
            range(first, u64::from(little_u16(extent, 4)?), block_bytes)
        })
        .collect()
}

fn xfs(head: &[u8]) -> Option<Vec<Range<u64>>> {
    if head.get(..4)? != b"XFSB" {
        return None;
    }
    let big_u32 = |at: usize| Some(u32::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let log_start = u64::from_be_bytes(*head.get(48..)?.first_chunk()?);
    let (block_bytes, group_blocks, log_blocks) = (big_u32(4)?, big_u32(84)?, big_u32(96)?);
    let group_bits = u32::from(*head.get(124)?);
    if log_start == 0 || group_bits >= u64::BITS {
        return None;
    }
    let (group, in_group) = (log_start >> group_bits, log_start & ((1 << group_bits) - 1));
    let first = group
        .checked_mul(u64::from(group_blocks))?
        .checked_add(in_group)?;
    let log = range(first, u64::from(log_blocks), u64::from(block_bytes))?;
    Some(vec![log])
}

/// So many blocks from `first` on, in bytes.
fn range(first: u64, count: u64, block_bytes: u64) -> Option<Range<u64>> {
    let start = first.checked_mul(block_bytes)?;
    let length = count.checked_mul(block_bytes)?;
    Some(start..start.checked_add(length)?)
}

fn little_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn little_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks of 4 KiB, and a journal of two extents: 1,024 blocks from 32,768 and 8 from 2^32 + 7.
    fn ext4_head() -> Vec<u8> {
        let mut head = vec![0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, bytes: &[u8]| {
            head[EXT4_AT + at..][..bytes.len()].copy_from_slice(bytes);
        };
        put(0x38, &EXT4_MAGIC.to_le_bytes());
        put(0x18, &2_u32.to_le_bytes());
        put(0x5c, &HAS_JOURNAL.to_le_bytes());
        put(0xfd, &[BACKUP_OF_BLOCKS]);
        put(0x10c, &EXTENTS_MAGIC.to_le_bytes());
        put(0x10c + 2, &2_u16.to_le_bytes());
        put(0x10c + 12 + 4, &1024_u16.to_le_bytes());
        put(0x10c + 12 + 8, &32_768_u32.to_le_bytes());
        put(0x10c + 24 + 4, &8_u16.to_le_bytes());
        put(0x10c + 24 + 6, &1_u16.to_le_bytes());
        put(0x10c + 24 + 8, &7_u32.to_le_bytes());
        head
    }

    #[test]
    fn the_journal_of_ext4_is_where_its_inode_says() {
        let (first, second) = (32_768 * 4096, ((1 << 32) + 7) * 4096);
        let expected = [first..first + (4 << 20), second..second + 8 * 4096];
        assert_eq!(ranges(&ext4_head()), expected);
    }

    #[test]
    fn the_log_of_xfs_is_in_its_allocation_group() {
        let mut head = vec![0; SUPERBLOCK_BYTES];
        head[..4].copy_from_slice(b"XFSB");
        head[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        head[48..56].copy_from_slice(&(2_u64 << 16 | 5).to_be_bytes());
        head[84..88].copy_from_slice(&60_000_u32.to_be_bytes());
        head[96..100].copy_from_slice(&2560_u32.to_be_bytes());
        head[124] = 16;
        let first = (2 * 60_000 + 5) * 4096;
        let log = first..first + 2560 * 4096;
        assert_eq!(ranges(&head), [log]);
        head[48..56].fill(0);
        assert_eq!(ranges(&head), [], "on another device");
    }

    #[test]
    fn a_journal_that_is_elsewhere_or_in_a_tree_is_not_told() {
        for (at, byte) in [
            (0x5c, 0),
            (0xe4, 1),
            (0xfd, 0),
            (0x10c + 6, 1),
            (0x10c + 2, 9),
        ] {
            let mut head = ext4_head();
            head[EXT4_AT + at] = byte;
            assert_eq!(ranges(&head), [], "{at:#x}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(
            changes in proptest::collection::vec((0..SUPERBLOCK_BYTES, any::<u8>()), 0..40),
            length in 0..SUPERBLOCK_BYTES,
            is_xfs in any::<bool>(),
        ) {
            let mut head = ext4_head();
            if is_xfs {
                head.fill(0xff);
                head[..4].copy_from_slice(b"XFSB");
            }
            for (at, byte) in changes {
                head[at] = byte;
            }
            for range in ranges(&head).into_iter().chain(ranges(&head[..length])) {
                prop_assert!(range.start <= range.end);
            }
        }
    }
}
