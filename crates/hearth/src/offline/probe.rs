//! What a file or device looks like that is no Hearth cache: by the marks that file systems, images,
//! partition tables and volume managers leave in their first bytes.

/// How many bytes from the front are looked at.
pub(super) const FRONT_BYTES: usize = 1 << 20;

/// Bytes at a fixed place that tell what something is.
struct Mark {
    offset: usize,
    bytes: &'static [u8],
    what: &'static str,
}

const fn mark(offset: usize, bytes: &'static [u8], what: &'static str) -> Mark {
    Mark {
        offset,
        bytes,
        what,
    }
}

const GPT: &str = "a disk with a GPT partition table";
const SWAP: &str = "swap space";

/// The first that is found counts: a boot sector's mark is on many things and comes last.
const MARKS: [Mark; 19] = [
    mark(0, b"QFI\xfb", "a qcow2 image"),
    mark(0, b"KDMV", "a VMDK image"),
    mark(0, b"vhdxfile", "a VHDX image"),
    mark(0, b"conectix", "a VHD image"),
    mark(0, b"XFSB", "an XFS file system"),
    mark(0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    mark(0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    mark(0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    mark(3, b"NTFS    ", "an NTFS file system"),
    mark(3, b"EXFAT   ", "an exFAT file system"),
    mark(0x36, b"FAT", "a FAT file system"),
    mark(0x52, b"FAT32", "a FAT file system"),
    mark(0x8001, b"CD001", "an ISO 9660 file system"),
    mark(0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    mark(0x1000, b"\xfc\x4e\x2b\xa9", "a member of a Linux RAID"),
    mark(0xff6, b"SWAPSPACE2", SWAP),
    mark(0x200, b"EFI PART", GPT),
    mark(0x1000, b"EFI PART", GPT),
    mark(
        0x1fe,
        b"\x55\xaa",
        "a disk with an MBR partition table or a boot sector",
    ),
];

/// Sectors of 512 bytes in which the label of an LVM physical volume may be.
const LVM_SECTORS: usize = 4;

/// What something looks like that begins with these bytes; none if nothing is recognised.
pub(super) fn looks_like(front: &[u8]) -> Option<&'static str> {
    let has = |offset: usize, bytes: &[u8]| {
        let there = front.get(offset..);
        there.is_some_and(|there| there.starts_with(bytes))
    };
    if (0..LVM_SECTORS).any(|sector| has(sector * 512, b"LABELONE")) {
        return Some("an LVM physical volume");
    }
    let found = MARKS.iter().find(|mark| has(mark.offset, mark.bytes));
    found.map(|mark| mark.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_recognised_at_its_place() {
        for mark in &MARKS {
            let mut front = vec![0; mark.offset];
            front.extend_from_slice(mark.bytes);
            assert_eq!(looks_like(&front), Some(mark.what));
            front.insert(0, 0);
            assert_eq!(looks_like(&front), None, "{} is elsewhere", mark.what);
        }
        assert_eq!(looks_like(&[]), None);
        assert_eq!(looks_like(&[7; 4096]), None);
    }

    #[test]
    fn a_partition_table_is_not_taken_for_a_boot_sector() {
        let mut front = vec![0; 1024];
        front[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
        assert!(looks_like(&front).unwrap().contains("MBR"));
        front[0x200..0x208].copy_from_slice(b"EFI PART");
        assert_eq!(looks_like(&front), Some(GPT));
        front[0x218..0x220].copy_from_slice(b"LABELONE");
        front[0x200..0x208].copy_from_slice(b"LABELONE");
        assert_eq!(looks_like(&front), Some("an LVM physical volume"));
    }
}
