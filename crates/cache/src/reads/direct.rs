//! Parts of reads that come from the origin, past the cache.

use super::GuestReads;
use crate::purpose::OriginPurpose;
use crate::under_way::{ReadId, index};
use block_io::{IoError, OriginVerb, Slice};
use units::{BLOCK_BYTES, Bytes, DiskSlot};

impl GuestReads<'_> {
    /// Reads part of a request from the origin, past the cache.
    pub(super) fn read_direct(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) {
        let part = self.state.reads.add_part(id, at);
        self.fetch_part(id, part, disk, at, end - at);
    }

    pub(super) fn fetch_part(
        &mut self,
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        at: u64,
        length: u64,
    ) {
        // Whole blocks where the disk has them, so that the origin can read past its own caches.
        let size = self.disks.size(disk);
        let start = at / BLOCK_BYTES * BLOCK_BYTES;
        let stop = (at + length).next_multiple_of(BLOCK_BYTES).min(size);
        self.disks.stats(disk).origin_read_bytes += stop - start;
        let buf = self.ports.pool.take(index(stop - start));
        let verb = OriginVerb::Read {
            offset: Bytes::new(start),
            length: Bytes::new(stop - start),
            buf,
        };
        let purpose = OriginPurpose::Direct {
            read,
            part,
            disk,
            skip: index(at - start),
            length: index(length),
        };
        self.ports.origin(purpose, disk, verb);
    }

    /// A part from the origin has come, or has failed to.
    pub(crate) fn direct_done(
        &mut self,
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        bytes: Result<Slice, IoError>,
    ) {
        match bytes {
            Ok(bytes) => {
                self.fill_part(read, part, bytes);
            }
            Err(error) => {
                self.disks.stats(disk).origin_errors += 1;
                self.fail_part(read, error);
            }
        }
    }
}
