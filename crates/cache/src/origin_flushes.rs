//! Flushes of origins that have ended, those that failed among them.
//!
//! Whatever an origin may have lost by a flush that failed leaves the cache, and whoever asked for the
//! flush is told. If that was no flush of the guest, the guest's next flush fails in its place: a guest
//! that is told of a durable write knows nothing of what it wrote before.
//!
//! A flush that succeeds says nothing of what an earlier one may have lost, nor does one that was under way
//! when another failed: it fails, too. What a dirty log has written meanwhile is written once more.

use crate::admitter::Admission;
use crate::api::RequestId;
use crate::back::Backs;
use crate::disks::Disks;
use crate::fills::Fills;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::ports::Ports;
use crate::purpose::{FlushMark, FlushPurpose};
use crate::request::Asked;
use crate::writes::Writes;
use block_io::IoError;
use units::{BlockIndex, DiskSlot};

/// The parts of a cache of which a flush of an origin says something.
pub(crate) struct OriginFlushes<'a> {
    writes: &'a mut Writes,
    fills: &'a mut Fills,
    backs: &'a mut Backs,
    admission: &'a mut Admission,
    flash: &'a mut FlashUse,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

impl<'a> OriginFlushes<'a> {
    /// For one event.
    pub(crate) fn new(
        writes: &'a mut Writes,
        fills: &'a mut Fills,
        backs: &'a mut Backs,
        admission: &'a mut Admission,
        flash: &'a mut FlashUse,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            writes,
            fills,
            backs,
            admission,
            flash,
            disks,
            ports,
        }
    }

    /// A guest's request waits for a flush of its origin.
    pub(crate) fn ask(&mut self, request: RequestId, disk: DiskSlot, asked: Asked) {
        let since = self.flash.flush_mark(self.ports, disk);
        let purpose = FlushPurpose::Guest { request, asked };
        self.ports.flush_origin(disk, since, purpose);
    }

    /// A guest's flush of a disk under write-back waits for a flush of the origin, if the guest has read what only that
    /// makes durable. False if it has not.
    pub(crate) fn ask_for_late_reads(&mut self, request: RequestId, disk: DiskSlot) -> bool {
        let ended = self.disks.late_reads_to_flush(disk);
        let Some(ended) = ended.filter(|_| holds(Guard::LateReadsAreFlushed)) else {
            return false;
        };
        let since = self.flash.flush_mark(self.ports, disk);
        let purpose = FlushPurpose::LateReads { request, ended };
        self.ports.flush_origin(disk, since, purpose);
        true
    }

    /// A flush of a destage has failed. The guest knows nothing of it: what the log has comes again. What the guest
    /// has read of late changes does not, so the guest's next flush fails.
    pub(crate) fn destage_failed(&mut self, disk: DiskSlot) {
        let has_read = self.disks.late_reads_to_flush(disk).is_some();
        if let Some(served) = self.disks.get_mut(disk) {
            served.failed_flush_untold |= has_read && holds(Guard::LateReadsAreFlushed);
        }
        self.may_have_lost(disk);
    }

    /// A flush of a disk's origin has ended. `is_told` if a guest's flush is answered by this.
    ///
    /// # Errors
    /// Its error; or that of another flush that has failed since this one was asked for, of which this one
    /// says nothing.
    pub(crate) fn ended(
        &mut self,
        disk: DiskSlot,
        since: FlushMark,
        result: Result<(), IoError>,
        is_told: bool,
    ) -> Result<(), IoError> {
        match result {
            Ok(())
                if self.ports.failed_flushes(disk) > since.failed
                    && holds(Guard::FailedFlushSpoils) =>
            {
                return Err(IoError::Failed);
            }
            Ok(()) => {
                if let Some(flash) = self.flash.as_mut() {
                    flash.origins_mut().flushed(disk, since.writes);
                }
            }
            Err(error) => self.failed(disk, error, is_told),
        }
        result
    }

    fn failed(&mut self, disk: DiskSlot, error: IoError, is_told: bool) {
        self.disks.stats(disk).origin_errors += 1;
        if let Some(served) = self.disks.get_mut(disk) {
            served.failed_flush_untold |= !is_told && holds(Guard::FailedFlushIsTold);
        }
        self.may_have_lost(disk);
        if let Some(back) = self.backs.get_mut(disk)
            && holds(Guard::FailedFlushComesAgain)
        {
            back.origin_has_lost(error);
        }
    }

    /// A flush of a disk's origin has failed: forgets everything that is cached, or on its way into the
    /// cache, and that the origin may have lost. Other flushes that are under way say nothing now.
    fn may_have_lost(&mut self, disk: DiskSlot) {
        self.ports.flush_failed(disk);
        if !holds(Guard::FailedFlushForgets) {
            return;
        }
        self.writes.spoil(disk);
        self.fills
            .kill(disk, BlockIndex::new(0), 1 << BlockIndex::BITS);
        if let Some(tenant) = self.disks.tenant_of(disk) {
            self.admission.change_all(tenant, |key| key.disk() == disk);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash.forget_unflushed(&mut self.ports.store, disk);
        }
    }
}
