//! Files of QEMU's, mapped; and views of parts of them.
//!
//! No reference into a mapping is ever made: the guest changes it at any time. Numbers of a ring are
//! read and written as atomics, everything else is copied in or out.

#![allow(
    unsafe_code,
    reason = "mapping, and copying through pointers into what is mapped"
)]

use crate::guard::{self, Watch};
use crate::limits::{FILE_PAGE_MAX, MAPPING_BYTES_MAX};
use crate::quota::{Mapped, Quota};
use rustix::fs::FileType;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use vhost_protocol::Area;

/// Why a file was not mapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapError {
    #[error("the descriptor is no file in memory that can be mapped")]
    NotAFile,
    #[error("{length} bytes from {offset} on are asked for of a file of {size}")]
    Beyond { offset: u64, length: u64, size: u64 },
    #[error("{0} bytes are more than is mapped for anyone")]
    TooLong(u64),
    #[error(
        "the VM has {bytes} bytes of memory mapped, and {limit} are allowed: vhost_user.memory_per_vm_max"
    )]
    OfClient { bytes: u64, limit: u64 },
    #[error(
        "{bytes} bytes more than the {limit} that all VMs may have mapped: vhost_user.memory_max"
    )]
    OfAll { bytes: u64, limit: u64 },
    #[error("the system does not map it for reading and writing")]
    Refused(#[source] io::Error),
}

/// A part of a file, mapped and shared.
pub(crate) struct Mapping {
    base: *mut c_void,
    mapped: usize,
    /// From the first byte mapped to the first asked for: files of huge pages are mapped by page.
    skip: usize,
    length: usize,
    /// Taken out by `drop`, before the mapping goes.
    watch: Option<Watch>,
    /// Its part of what may be mapped.
    _mapped: Mapped,
}

impl Mapping {
    pub(crate) fn new(
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        quota: &Quota,
    ) -> Result<Self, MapError> {
        let about = rustix::fs::fstat(file).map_err(|_| MapError::NotAFile)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(MapError::NotAFile);
        }
        let size = u64::try_from(about.st_size).map_err(|_| MapError::NotAFile)?;
        let end = offset.checked_add(length).filter(|end| *end <= size);
        let end = end.ok_or(MapError::Beyond {
            offset,
            length,
            size,
        })?;
        if length > MAPPING_BYTES_MAX {
            return Err(MapError::TooLong(length));
        }
        let page = u64::try_from(about.st_blksize).map_err(|_| MapError::NotAFile)?;
        if !page.is_power_of_two() || page > FILE_PAGE_MAX {
            return Err(MapError::NotAFile);
        }
        let page = page.max(4096);
        let start = offset - offset % page;
        let mapped = end
            .checked_next_multiple_of(page)
            .ok_or(MapError::TooLong(length))?
            - start;
        let in_memory = |bytes: u64| usize::try_from(bytes).map_err(|_| MapError::TooLong(length));
        let room = quota.take(mapped)?;
        Self::map(
            file,
            start,
            in_memory(mapped)?,
            in_memory(offset - start)?,
            in_memory(length)?,
            room,
        )
        .map_err(MapError::Refused)
    }

    fn map(
        file: BorrowedFd<'_>,
        start: u64,
        mapped: usize,
        skip: usize,
        length: usize,
        room: Mapped,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing of ours.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                start,
            )
        }?;
        let mut mapping = Self {
            base,
            mapped,
            skip,
            length,
            watch: None,
            _mapped: room,
        };
        mapping.watch = Some(guard::watch(base.addr(), mapped)?);
        for advice in [Advice::LinuxDontDump, Advice::LinuxDontFork] {
            // SAFETY: the range is the mapping; neither advice changes what is in it. A guest's
            // memory has no place in our core dumps or in programs that we start.
            if let Err(error) = unsafe { rustix::mm::madvise(base, mapped, advice) } {
                tracing::debug!(%error, "advice about guest memory was not taken");
            }
        }
        Ok(mapping)
    }

    /// Bytes that were asked for.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_lost)
    }

    /// The address of `bytes` bytes from `start` on.
    ///
    /// # Panics
    /// If they are not all within the mapping: it was not asked first.
    pub(crate) fn pointer(&self, start: usize, bytes: usize) -> *mut u8 {
        let end = start.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "memory is touched within its mapping"
        );
        self.base
            .cast::<u8>()
            .wrapping_add(self.skip)
            .wrapping_add(start)
    }

    pub(crate) fn load(&self, start: usize, into: &mut [u8]) {
        let from = self.pointer(start, into.len());
        // SAFETY: `pointer` checked the source, and the target is a slice of ours that nothing
        // else reaches. What the guest writes meanwhile can tear the bytes, which are judged
        // afterwards.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    pub(crate) fn store(&self, start: usize, from: &[u8]) {
        let into = self.pointer(start, from.len());
        // SAFETY: `pointer` checked the target, and the source is a slice of ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
    }

    /// Sets bits in a byte that others change too.
    pub(crate) fn set_bits(&self, at: usize, bits: u8) {
        let byte = self.pointer(at, 1);
        // SAFETY: `pointer` checked it, and a byte is always aligned.
        let byte = unsafe { AtomicU8::from_ptr(byte) };
        byte.fetch_or(bits, Ordering::SeqCst);
    }

    fn number(&self, at: usize) -> &AtomicU16 {
        #[allow(clippy::cast_ptr_alignment, reason = "asserted in the next line")]
        let number = self.pointer(at, 2).cast::<u16>();
        assert!(number.is_aligned(), "numbers of a ring are aligned");
        // SAFETY: `pointer` checked it, it is aligned, and everybody in this process reaches it as
        // an atomic. The mapping lives as long as `self`.
        unsafe { AtomicU16::from_ptr(number) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        drop(self.watch.take());
        // SAFETY: the range is the mapping, and whoever has pointers into it keeps it alive.
        if let Err(error) = unsafe { rustix::mm::munmap(self.base, self.mapped) } {
            tracing::error!(%error, "guest memory could not be unmapped");
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({}B)", self.length)
    }
}

/// A part of a mapping that is a ring's, or the inflight region's.
#[derive(Clone, Debug)]
pub(crate) struct View {
    mapping: Rc<Mapping>,
    start: usize,
    length: usize,
}

impl View {
    /// `None` if it does not lie within the mapping, or does not begin at a multiple of `align`.
    pub(crate) fn new(
        mapping: &Rc<Mapping>,
        start: usize,
        length: usize,
        align: usize,
    ) -> Option<Self> {
        let end = start.checked_add(length)?;
        if end > mapping.len() {
            return None;
        }
        let is_aligned = mapping.pointer(start, length).addr().is_multiple_of(align);
        is_aligned.then(|| Self {
            mapping: Rc::clone(mapping),
            start,
            length,
        })
    }

    fn check(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "an area is used within its length"
        );
    }
}

impl Area for View {
    fn len(&self) -> usize {
        self.length
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        self.mapping.load(self.start + at, into);
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.check(at, from.len());
        self.mapping.store(self.start + at, from);
    }

    fn load_u16(&self, at: usize) -> u16 {
        self.check(at, 2);
        u16::from_le(self.mapping.number(self.start + at).load(Ordering::Acquire))
    }

    fn store_u16(&self, at: usize, value: u16) {
        self.check(at, 2);
        let number = self.mapping.number(self.start + at);
        number.store(value.to_le(), Ordering::Release);
    }
}

/// Maps all of a file's `length` bytes from `offset` on.
pub(crate) fn map(
    file: impl AsFd,
    offset: u64,
    length: u64,
    quota: &Quota,
) -> Result<Rc<Mapping>, MapError> {
    Mapping::new(file.as_fd(), offset, length, quota).map(Rc::new)
}
