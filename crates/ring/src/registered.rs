//! Buffers that the kernel knows by number, so that it looks up and pins their pages once rather
//! than for each read: a tenth of what a small read costs it past the page cache.
//!
//! A buffer is registered when it is first read into, while there are numbers left and the kernel
//! takes it; all others go on as they are. Where the memory that a process may lock is short
//! (`RLIMIT_MEMLOCK`), fewer are.
//!
//! Invariant: a number means the same pages for as long as the ring lives. The buffer's pool keeps
//! its memory, and no number is given twice.

#![allow(
    unsafe_code,
    reason = "registering a buffer hands its address to the kernel"
)]

use crate::limits::{REGISTERED_BUFFERS_MAX, REGISTERED_BYTES_MAX};
use block_io::{Buf, Registration};
use io_uring::IoUring;
use std::sync::atomic::{AtomicU32, Ordering};

/// What tells rings apart.
static RINGS: AtomicU32 = AtomicU32::new(0);

/// The buffers that one ring's kernel side knows.
pub(crate) struct Registered {
    ring: u32,
    /// Numbers given so far.
    given: u16,
    /// Numbers that there are; none on kernels that cannot do this one by one.
    slots: u16,
    bytes_left: usize,
}

impl Registered {
    /// Has the kernel make room for numbers.
    pub(crate) fn new(uring: &IoUring) -> Self {
        let room = uring
            .submitter()
            .register_buffers_sparse(u32::from(REGISTERED_BUFFERS_MAX));
        Self {
            ring: RINGS.fetch_add(1, Ordering::Relaxed),
            given: 0,
            slots: if room.is_ok() {
                REGISTERED_BUFFERS_MAX
            } else {
                0
            },
            bytes_left: REGISTERED_BYTES_MAX,
        }
    }

    /// The number of a buffer, given now if it has none.
    pub(crate) fn number(&mut self, uring: &IoUring, buf: &mut Buf) -> Option<u16> {
        match buf.registration() {
            Some(known) => (known.ring == self.ring).then_some(known.slot),
            None => self.give(uring, buf),
        }
    }

    fn give(&mut self, uring: &IoUring, buf: &mut Buf) -> Option<u16> {
        let wanted = self.given < self.slots && buf.len() <= self.bytes_left;
        if !wanted || !buf.may_be_registered() {
            return None;
        }
        let slot = self.given;
        let vector = libc::iovec {
            iov_base: buf.as_mut_ptr().cast(),
            iov_len: buf.len(),
        };
        // SAFETY: the kernel holds on to the pages themselves. Their address stays theirs while
        // anybody has the buffer, and its pool keeps it from now on; whoever reads there under this
        // number has the buffer.
        let known = unsafe {
            uring
                .submitter()
                .register_buffers_update(u32::from(slot), &[vector], None)
        };
        if known.is_err() {
            // Most likely as much as this process may lock: it is not asked for each read again.
            self.slots = self.given;
            return None;
        }
        self.given += 1;
        self.bytes_left -= buf.len();
        let ring = self.ring;
        buf.register(Registration { ring, slot });
        Some(slot)
    }
}
