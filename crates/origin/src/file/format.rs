//! Telling a disk image that has a format of its own from the raw bytes of a disk.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes at the front of a file by which formats are told.
const FRONT_BYTES: usize = 512;

/// A format in which a file holds a disk, other than the disk's bytes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// QEMU's, of any version.
    Qcow,
    /// QEMU's enhanced disk.
    Qed,
    /// That of `VMware`.
    Vmdk,
    /// That of `VirtualBox`.
    Vdi,
    /// Hyper-V's.
    Vhdx,
    /// Virtual PC's, if it grows or refers to another one. One of fixed size is raw but for its end.
    Vpc,
    /// Parallels'.
    Parallels,
}

impl ImageFormat {
    /// What a file begins with says.
    pub(super) fn of(file: &OwnedFd) -> io::Result<Option<Self>> {
        // Direct I/O wants whole sectors at an aligned address.
        let mut front = block_io::BufPool::new().take(block_io::PAGE_BYTES);
        let read = rustix::io::pread(file, &mut front[..FRONT_BYTES], 0)?;
        Ok(Self::of_front(&front[..read]))
    }

    fn of_front(front: &[u8]) -> Option<Self> {
        let marks: [(usize, &[u8], Self); 10] = [
            (0, b"QFI\xfb", Self::Qcow),
            (0, b"QED\0", Self::Qed),
            (0, b"KDMV", Self::Vmdk),
            (0, b"COWD", Self::Vmdk),
            (0, b"# Disk DescriptorFile", Self::Vmdk),
            (0x40, &[0x7f, 0x10, 0xda, 0xbe], Self::Vdi),
            (0, b"vhdxfile", Self::Vhdx),
            (0, b"conectix", Self::Vpc),
            (0, b"WithoutFreeSpace", Self::Parallels),
            (0, b"WithouFreSpacExt", Self::Parallels),
        ];
        let found = marks.into_iter().find(|(at, mark, _)| {
            let rest = front.get(*at..);
            rest.is_some_and(|rest| rest.starts_with(mark))
        });
        found.map(|(_, _, format)| format)
    }
}

impl fmt::Display for ImageFormat {
    /// As `qemu-nbd --format` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qcow => "qcow2",
            Self::Qed => "qed",
            Self::Vmdk => "vmdk",
            Self::Vdi => "vdi",
            Self::Vhdx => "vhdx",
            Self::Vpc => "vpc",
            Self::Parallels => "parallels",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_its_mark_and_a_disk_has_none() {
        let front = |at: usize, mark: &[u8]| {
            let mut front = vec![0; FRONT_BYTES];
            front[at..at + mark.len()].copy_from_slice(mark);
            ImageFormat::of_front(&front)
        };
        assert_eq!(front(0, b"QFI\xfb\0\0\0\x03"), Some(ImageFormat::Qcow));
        assert_eq!(front(0, b"vhdxfile"), Some(ImageFormat::Vhdx));
        assert_eq!(front(64, &[0x7f, 0x10, 0xda, 0xbe]), Some(ImageFormat::Vdi));
        assert_eq!(front(0, b"KDMV"), Some(ImageFormat::Vmdk));
        // A boot sector, and a mark that is elsewhere.
        assert_eq!(front(510, &[0x55, 0xaa]), None);
        assert_eq!(front(1, b"QFI\xfb"), None);
        assert_eq!(ImageFormat::of_front(b"QF"), None);
    }
}
