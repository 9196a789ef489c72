//! Memory that a vhost-user server sees too: where the payloads of requests lie.

#![allow(
    unsafe_code,
    reason = "memory shared with another process is mapped, and copied from and to by pointers"
)]

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;

/// A file in memory, mapped. No reference to its bytes is ever made: the other side may change
/// them at any time.
pub(super) struct SharedMemory {
    file: OwnedFd,
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is to shared memory that is only copied from and to.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; whoever copies at the same time to the same place gets torn bytes, no more.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// So many bytes, all zero.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("hearth-bench", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that only we have.
        let base =
            unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) };
        Ok(Self {
            file,
            base: base?.cast(),
            bytes,
        })
    }

    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// The address of a range.
    ///
    /// # Panics
    /// If it is not within the memory.
    pub(super) fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "within the memory"
        );
        self.base.wrapping_add(offset)
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let into = self.at(offset, bytes.len());
        // SAFETY: within the mapping, which lives as long as `self`; the source is not in it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len()) };
    }

    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: within the mapping, which lives as long as `self`; the target is not in it.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: nobody has references into it, and no pointer to it is used any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_where_they_were_put() {
        let memory = SharedMemory::new(8192).unwrap();
        memory.write(4090, b"hello");
        let mut back = [0; 6];
        memory.read(4089, &mut back);
        assert_eq!(&back, b"\0hello");
        let mut byte = [0; 1];
        rustix::io::pread(memory.file(), &mut byte, 4091).unwrap();
        assert_eq!(byte[0], b'e');
    }

    #[test]
    #[should_panic(expected = "within the memory")]
    fn nothing_outside_is_reached() {
        SharedMemory::new(4096).unwrap().write(4092, b"hello");
    }
}
