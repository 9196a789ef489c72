//! Where a file is on its disk (FIEMAP).

#![allow(unsafe_code, reason = "an ioctl without a safe wrapper")]

use guest_files::Extent;
use rustix::fd::AsRawFd;
use std::fs::File;
use std::io;

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// Extents that are asked for at once.
const EXTENTS_AT_ONCE: usize = 64;
/// Questions about one file: one of more extents is read in part.
const QUESTIONS_MAX: usize = 16;

const LAST: u32 = 0x1;
/// Not on the disk, or not as it is read: unknown, delayed, encoded, within metadata, packed, never written.
const NOT_THERE: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400 | 0x800;

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FoundExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_more: [u32; 3],
}

#[repr(C)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FoundExtent; EXTENTS_AT_ONCE],
}

const _: () = assert!(size_of::<FoundExtent>() == 56);
const _: () = assert!(size_of::<Question>() == 32 + 56 * EXTENTS_AT_ONCE);

/// The extents of a file that are read from its disk, in the order of the file.
pub(crate) fn of(file: &File) -> io::Result<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut start = 0;
    for _ in 0..QUESTIONS_MAX {
        let mut question = Question {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: 64,
            reserved: 0,
            extents: [FoundExtent::default(); EXTENTS_AT_ONCE],
        };
        // SAFETY: `question` is a `struct fiemap` followed by as many extents as it says, and lives until the call
        // has returned.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut question) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = (question.mapped as usize).min(EXTENTS_AT_ONCE);
        let found = &question.extents[..found];
        let there = found.iter().filter(|extent| extent.flags & NOT_THERE == 0);
        extents.extend(there.map(|extent| Extent {
            offset: extent.logical,
            address: extent.physical,
            length: extent.length,
        }));
        match found.last() {
            Some(last) if last.flags & LAST == 0 => {
                start = last.logical.saturating_add(last.length);
            }
            Some(_) | None => break,
        }
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Where this file system tells them at all: tmpfs and overlays may not.
    #[test]
    fn the_extents_of_a_file_cover_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 100_000]).unwrap();
        file.sync_all().unwrap();
        match of(&file) {
            Ok(extents) => {
                let covered: u64 = extents.iter().map(|extent| extent.length).sum();
                assert!(covered >= 100_000, "{extents:?}");
                assert_eq!(extents[0].offset, 0);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }
}
