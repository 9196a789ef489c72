//! The dirty log of a live migration: a bit for each page of guest memory that we wrote.

use crate::mapping::{MapError, Mapping, map};
use crate::quota::Quota;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use vhost_protocol::{DirtyBits, GuestAddress, Segment};

/// The log, shared with QEMU, which takes bits out while we put them in.
#[derive(Debug)]
pub(crate) struct DirtyLog {
    bits: Rc<Mapping>,
}

impl DirtyLog {
    pub(crate) fn new(
        file: &OwnedFd,
        offset: u64,
        bytes: u64,
        quota: &Quota,
    ) -> Result<Self, MapError> {
        let bits = map(file, offset, bytes, quota)?;
        Ok(Self { bits })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.bits.is_lost()
    }

    /// Marks what was written. Pages beyond the log's end are none that QEMU asked about. Call it
    /// after writing: QEMU copies a page after it took its bit out.
    pub(crate) fn mark(&self, at: GuestAddress, length: u64) {
        for (byte, bits) in DirtyBits::new(at, length) {
            match usize::try_from(byte) {
                Ok(byte) if byte < self.bits.len() => self.bits.set_bits(byte, bits),
                Ok(_) | Err(_) => return,
            }
        }
    }

    pub(crate) fn mark_all(&self, segments: &[Segment]) {
        for segment in segments {
            self.mark(segment.address, u64::from(segment.length));
        }
    }
}
