//! Looking at a file before it is changed: one that is shorter than it was is not written.

use super::{FileOrigin, Flight};
use block_io::{IoError, OriginOp, PAGE_BYTES};
use ring::{Completion, Op};
use std::rc::Rc;
use units::Bytes;

impl FileOrigin {
    /// Whether the file has become shorter than the disk.
    pub(super) fn has_shrunk(&self) -> bool {
        self.regular
            && rustix::fs::fstat(&self.file).is_ok_and(|stat| {
                u64::try_from(stat.st_size).unwrap_or(0) < self.geometry.size.get()
            })
    }

    /// Looks at the file through the ring: its server may not answer.
    pub(super) fn look(&mut self, op: OriginOp) {
        let file = Rc::clone(&self.file);
        let buf = self.pool.take(PAGE_BYTES);
        self.go(Flight::Look(op), Op::Stat { file, buf });
    }

    /// Begins a change whose file was looked at, unless the file has become shorter.
    pub(super) fn looked(&mut self, op: OriginOp, completion: Completion) {
        match (completion.result, completion.buf) {
            (Ok(_), Some(status)) if size_in(&status) >= self.geometry.size => self.begin(op),
            (Err(error), _) => {
                let error = self.numbers.kind_of(op.token, &error);
                self.refuse(op, error);
            }
            (Ok(_), _) => self.refuse(op, IoError::Failed),
        }
    }
}

/// The size in a `struct statx`.
#[allow(clippy::host_endian_bytes, reason = "the kernel counts in host order")]
fn size_in(status: &[u8]) -> Bytes {
    const AT: usize = std::mem::offset_of!(libc::statx, stx_size);
    let size = status[AT..].first_chunk().expect("a page");
    Bytes::new(u64::from_ne_bytes(*size))
}
