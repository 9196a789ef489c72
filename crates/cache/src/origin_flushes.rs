//! Flushes of origins that have ended, those that failed among them.
//!
//! Whatever an origin may have lost by a flush that failed leaves the cache, and whoever asked for the
//! flush is told. If that was no flush of the guest, the guest's next flush fails in its place: a guest
//! that is told of a durable write knows nothing of what it wrote before.

use crate::cache::Cache;
use crate::guard::{Guard, holds};
use block_store::WriteCount;
use units::{BlockIndex, DiskSlot};

impl Cache {
    /// A flush of a disk's origin that was asked for at `count` has ended. `is_told` if a guest's flush
    /// is answered by this.
    pub(crate) fn origin_flushed(
        &mut self,
        disk: DiskSlot,
        count: WriteCount,
        ok: bool,
        is_told: bool,
    ) {
        if let (Some(flash), true) = (self.flash.as_mut(), ok) {
            flash.origins_mut().flushed(disk, count);
        }
        if ok {
            return;
        }
        self.disks.stats(disk).origin_errors += 1;
        if let Some(served) = self.disks.get_mut(disk) {
            served.failed_flush_untold |= !is_told && holds(Guard::FailedFlushIsTold);
        }
        if holds(Guard::FailedFlushForgets) {
            self.forget_unflushed(disk);
        }
    }

    /// Forgets everything that is cached, or on its way into the cache, and that a disk's origin may
    /// have lost.
    fn forget_unflushed(&mut self, disk: DiskSlot) {
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

    /// How many writes of a disk have ended, as far as that matters to what is cached.
    pub(crate) fn write_count(&self, disk: DiskSlot) -> WriteCount {
        let flash = self.flash.as_ref();
        flash.map_or_else(WriteCount::default, |flash| {
            flash.origins().write_count(disk)
        })
    }

    /// Whether a guest that flushes has to be told of an earlier flush that failed.
    pub(crate) fn tells_of_failed_flush(&mut self, disk: DiskSlot) -> bool {
        let served = self.disks.get_mut(disk);
        served.is_some_and(|served| std::mem::take(&mut served.failed_flush_untold))
    }
}
