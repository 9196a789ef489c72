//! A guest's memory as the guest sees it: a file in memory, shared with the device.

#![allow(unsafe_code, reason = "mapping memory that the device maps too")]
#![allow(dead_code, reason = "each user of this file uses what it needs")]

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

/// Memory from guest address zero on.
pub(crate) struct Ram {
    file: OwnedFd,
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is to shared memory that is only copied from and to, and to atomics.
unsafe impl Send for Ram {}
// SAFETY: as above.
unsafe impl Sync for Ram {}

impl Ram {
    pub(crate) fn new(bytes: usize) -> Self {
        let file = rustix::fs::memfd_create("ram", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        // SAFETY: a new mapping at a place of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let base = base.unwrap().cast();
        Self { file, base, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn file(&self) -> OwnedFd {
        self.file.as_fd().try_clone_to_owned().unwrap()
    }

    fn at(&self, at: u64, bytes: usize) -> *mut u8 {
        let at = usize::try_from(at).unwrap();
        assert!(at + bytes <= self.bytes);
        self.base.wrapping_add(at)
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let into = self.at(at, bytes.len());
        // SAFETY: within the mapping; the device's own writes can only tear bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len()) };
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) {
        let from = self.at(at, into.len());
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    pub(crate) fn bytes(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.read(at, &mut bytes);
        bytes
    }

    fn number(&self, at: u64) -> &AtomicU16 {
        let number = self.at(at, 2);
        assert!(number.addr().is_multiple_of(2));
        // SAFETY: within the mapping, aligned, and an atomic for everybody.
        unsafe { AtomicU16::from_ptr(number.cast()) }
    }

    pub(crate) fn load(&self, at: u64) -> u16 {
        self.number(at).load(Ordering::SeqCst)
    }

    pub(crate) fn store(&self, at: u64, value: u16) {
        self.number(at).store(value, Ordering::SeqCst);
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: nobody has references into it.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}
