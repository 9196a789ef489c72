//! Flushes of origins that have ended, those that failed among them.
//!
//! Whatever an origin may have lost by a flush that failed leaves the cache, and whoever asked for the
//! flush is told. If that was no flush of the guest, the guest's next flush fails in its place: a guest
//! that is told of a durable write knows nothing of what it wrote before.
//!
//! A flush that succeeds says nothing of what an earlier one may have lost, nor does one that was under way
//! when another failed: it fails, too. What a dirty log has written meanwhile is written once more.

use crate::cache::Cache;
use crate::guard::{Guard, holds};
use crate::purpose::FlushMark;
use block_io::IoError;
use block_store::WriteCount;
use units::{BlockIndex, DiskSlot};

impl Cache {
    /// What is so when a flush of a disk's origin is asked for now.
    pub(crate) fn flush_mark(&self, disk: DiskSlot) -> FlushMark {
        let flash = self.flash.as_ref();
        let writes = flash.map_or_else(WriteCount::default, |flash| {
            flash.origins().write_count(disk)
        });
        self.ports.flush_mark(disk, writes)
    }

    /// A flush of a disk's origin has ended. `is_told` if a guest's flush is answered by this.
    ///
    /// # Errors
    /// Its error; or that of another flush that has failed since this one was asked for, of which this one
    /// says nothing.
    pub(crate) fn origin_flushed(
        &mut self,
        disk: DiskSlot,
        since: FlushMark,
        result: Result<(), IoError>,
        is_told: bool,
    ) -> Result<(), IoError> {
        match result {
            Ok(()) if self.ports.is_spoiled(disk, since) && holds(Guard::FailedFlushSpoils) => {
                return Err(IoError::Failed);
            }
            Ok(()) => {
                if let Some(flash) = self.flash.as_mut() {
                    flash.origins_mut().flushed(disk, since.writes);
                }
            }
            Err(error) => self.origin_flush_failed(disk, error, is_told),
        }
        result
    }

    fn origin_flush_failed(&mut self, disk: DiskSlot, error: IoError, is_told: bool) {
        self.disks.stats(disk).origin_errors += 1;
        if let Some(served) = self.disks.get_mut(disk) {
            served.failed_flush_untold |= !is_told && holds(Guard::FailedFlushIsTold);
        }
        self.origin_may_have_lost(disk);
        if let Some(back) = self.backs.get_mut(disk)
            && holds(Guard::FailedFlushComesAgain)
        {
            back.destage.origin_has_lost(error);
        }
    }

    /// A flush of a disk's origin has failed: forgets everything that is cached, or on its way into the
    /// cache, and that the origin may have lost. Other flushes that are under way say nothing now.
    pub(crate) fn origin_may_have_lost(&mut self, disk: DiskSlot) {
        self.ports.flush_failed(disk);
        if !holds(Guard::FailedFlushForgets) {
            return;
        }
        self.writes.spoil(disk);
        self.fills
            .kill(disk, BlockIndex::new(0), 1 << BlockIndex::BITS);
        if let Some(tenant) = self.disks.tenant_of(disk) {
            self.admission.unstage_all(tenant, |key| key.disk() == disk);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash.forget_unflushed(&mut self.ports.store, disk);
        }
    }
}
