//! The rest of a block of which a guest writes a part: from the log, from the cache, or from the
//! origin. No other write to the block is accepted meanwhile.

use super::BackRequests;
use super::accept::{Edge, Waiting};
use crate::guard::{Guard, holds};
use crate::purpose::{Merge, MergeHit, OriginPurpose, ReadPurpose};
use admission::Key;
use block_io::{Buf, IoError, OriginVerb, PAGE_BYTES, Slice};
use block_store::Location;
use dirty_log::Found;
use units::{BLOCK_BYTES, Bytes, DiskSlot};

impl BackRequests<'_> {
    /// Begins to look for the rest of a block.
    pub(super) fn begin_merge(&mut self, disk: DiskSlot, waiting: &Waiting, tail: bool) -> Edge {
        let block = waiting.edge_block(tail);
        let merge = Merge {
            disk,
            waiting: waiting.id,
            tail,
            block,
        };
        let Some(flash) = self.flash.as_mut() else {
            return Edge::Wanted;
        };
        let (location, dirty) = match flash.dirty_logs().find(disk, block) {
            Found::Erased(_) => {
                let zeroes = self.ports.pool().take_zeroed(PAGE_BYTES);
                return Edge::Ready(zeroes.freeze().slice(0..PAGE_BYTES));
            }
            Found::Dirty(slot) => (flash.bytes_of(&self.ports.store, slot), true),
            Found::Clean => (flash.locate(&self.ports.store, disk, block), false),
        };
        match location {
            Location::Memory(bytes) => Edge::Ready(bytes),
            Location::Flash(slot) => {
                let purpose = ReadPurpose::MergeHit(MergeHit { merge, slot, dirty });
                flash.read(&mut self.ports.store, slot, 1, None, purpose);
                Edge::Reading
            }
            Location::Nowhere => {
                if let Some(bytes) = self.admission.staged(Key::new(disk, block)) {
                    return Edge::Ready(bytes.clone());
                }
                self.merge_from_origin(merge);
                Edge::Reading
            }
        }
    }

    fn merge_from_origin(&mut self, merge: Merge) {
        self.disks.stats(merge.disk).origin_read_bytes += BLOCK_BYTES;
        let verb = OriginVerb::Read {
            offset: merge.block.start(),
            length: Bytes::new(BLOCK_BYTES),
            buf: self.ports.pool().take(PAGE_BYTES),
        };
        self.ports
            .origin(OriginPurpose::MergeFill(merge), merge.disk, verb);
    }

    /// The rest of a block has come from flash, or has failed to.
    pub(crate) fn merge_hit_done(
        &mut self,
        hit: &MergeHit,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        let merge = hit.merge;
        let mut whole = None;
        if let Some(flash) = self.flash.with_logs_mut() {
            flash.unpin(hit.slot);
            whole = buf
                .filter(|_| result.is_ok())
                .filter(|buf| flash.is_whole(hit.slot, &buf[..PAGE_BYTES]));
            if let Some(buf) = &mut whole {
                let page = &mut buf[..PAGE_BYTES];
                flash.ciphers().show(merge.disk, merge.block, page);
            }
        }
        match whole {
            Some(buf) => self.merge_ready(merge, Ok(buf.freeze().slice(0..PAGE_BYTES))),
            None if hit.dirty && holds(Guard::NoRefetchOfDirty) => {
                self.ports.stats.dirty_unreadable += 1;
                self.merge_ready(merge, Err(IoError::Failed));
            }
            // Its write went on without the flash, and the disk may be gone.
            None if self.waiting_mut(&merge).is_none() => {}
            // Reading it as a guest does would find the same, and give the slot up.
            None => self.merge_from_origin(merge),
        }
    }

    /// The rest of a block has come from the origin, or has failed to.
    pub(crate) fn merge_fill_done(&mut self, merge: Merge, bytes: Result<Slice, IoError>) {
        self.disks.stats(merge.disk).origin_errors += u64::from(bytes.is_err());
        self.merge_ready(merge, bytes);
    }

    /// The write that a merge is for, if it waits still.
    fn waiting_mut(&mut self, merge: &Merge) -> Option<&mut Waiting> {
        self.backs.get_mut(merge.disk)?.waiting_mut(merge.waiting)
    }

    fn merge_ready(&mut self, merge: Merge, bytes: Result<Slice, IoError>) {
        if let Some(waiting) = self.waiting_mut(&merge) {
            *waiting.edge_mut(merge.tail) = match bytes {
                Ok(bytes) => Edge::Ready(bytes),
                Err(error) => Edge::Failed(error),
            };
        }
        self.ports.schedule(merge.disk);
    }
}
