//! Records of another host, which has the disk: kept in the disk's own dirty log, as they were there.
//!
//! ```text
//!  shipment ─► follows? ─► record after record ─► log ─► durable, and the watermark is ─► done
//!                            └ an interval of the owner begins: the chunk before it is sealed first
//! ```
//!
//! Invariants:
//! - The log has consecutive records of the owner, each once, with the marks where an interval begins. One may end here
//!   without a mark, where a shipment does: an interval in two parts goes to the origin in an order that is one of its own.
//! - What the owner has brought to the origin leaves the log, and is not cached: what is newer may not have come.
//! - No copy of a block is cached beside a record of it.

use super::BackRequests;
use crate::api::{ControlError, ControlId, Tenure};
use crate::guard::{Guard, holds};
use crate::shipment::{Shipment, Shipped, ShippedWhat};
use block_io::{PAGE_BYTES, Payload, Slice};
use block_store::{DirtyDisk, NoRoom};
use dirty_log::{DirtyLog, RecordNumber};
use flash_format::Erasure;
use std::collections::VecDeque;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Map};

/// A shipment that is on its way into a log.
#[derive(Debug)]
struct Keeping {
    id: ControlId,
    records: VecDeque<Shipped>,
    /// The owner's oldest record that the origin lacks.
    base: u64,
    /// All of it is in the log, and durable when everything before this number is.
    wanted: Option<RecordNumber>,
}

/// The log of a disk that another host has.
#[derive(Debug, Default)]
struct Arriving {
    /// The owner's number of the record that comes next.
    next: u64,
    keeping: Option<Keeping>,
}

/// Logs of disks that other hosts have.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Map<DiskSlot, Arriving>);

impl Arrivals {
    /// Whether records come for a disk.
    pub(crate) fn has(&self, disk: DiskSlot) -> bool {
        self.0.contains_key(&disk)
    }

    /// Those for which records come.
    pub(super) fn slots(&self) -> impl Iterator<Item = DiskSlot> {
        self.0.keys().copied()
    }

    /// No more records come for a disk. The shipment that was on its way, if one was.
    fn end(&mut self, disk: DiskSlot) -> Option<ControlId> {
        let arriving = self.0.remove(&disk)?;
        Some(arriving.keeping?.id)
    }
}

/// Where a record of the owner is in a log whose next one is the owner's `next`.
fn number_here(log: &DirtyLog, next: u64, number: u64) -> RecordNumber {
    let length = log.end().distance_from(log.base());
    let left = next.saturating_sub(number).min(length);
    log.base().advance(length - left)
}

impl BackRequests<'_> {
    /// Records of the host that has a disk have come. None if it takes longer than a moment to keep them.
    pub(crate) fn keep(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        epoch: u64,
        shipment: Shipment,
    ) -> Option<Result<(), ControlError>> {
        if let Err(error) = self.begin_keeping(id, disk, epoch, shipment) {
            return Some(Err(error));
        }
        self.ports.schedule(disk);
        None
    }

    fn begin_keeping(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        epoch: u64,
        shipment: Shipment,
    ) -> Result<(), ControlError> {
        let attached = self.disks.attached(disk)?;
        if !attached.size.is_multiple_of(BLOCK_BYTES) {
            return Err(ControlError::UnalignedSize);
        }
        let settings = attached.write_back;
        let is_others = attached.tenure == Tenure::Standby;
        let Some(flash) = self.flash.as_mut().filter(|_| is_others) else {
            return Err(ControlError::NoWriteBack);
        };
        let arriving = self.backs.arrivals.0.entry(disk).or_default();
        if arriving.keeping.is_some() {
            return Err(ControlError::Busy);
        }
        let blocks = attached.size.get() / BLOCK_BYTES;
        if !shipment.records.iter().all(|record| record.fits(blocks)) {
            return Err(ControlError::RecordsMissing);
        }
        let Shipment {
            first,
            base,
            records,
            ..
        } = shipment;
        flash.write_back().give_log(disk);
        if first != arriving.next && holds(Guard::RecordsFollow) {
            if first != base {
                return Err(ControlError::RecordsMissing);
            }
            flash.write_back().void_log(&mut self.ports.store, disk);
        }
        flash.write_back().ship_for(disk, Some(epoch));
        arriving.next = first;
        let logged = self.flash.dirty_bytes(disk);
        if !settings.has_room(logged + Bytes::new(records.len() as u64 * BLOCK_BYTES)) {
            return Err(ControlError::LogFull);
        }
        arriving.keeping = Some(Keeping {
            id,
            records: records.into(),
            base,
            wanted: None,
        });
        Ok(())
    }

    /// Goes as far as can be gone with the records that have come for a disk.
    pub(crate) fn advance_arrivals(&mut self, disk: DiskSlot) {
        let Some(mut arriving) = self.backs.arrivals.0.remove(&disk) else {
            return;
        };
        if let Some(keeping) = &mut arriving.keeping
            && self.keeps(disk, &mut arriving.next, keeping)
        {
            let id = keeping.id;
            arriving.keeping = None;
            self.ports.command_ended(id, Some(Ok(())));
        }
        self.backs.arrivals.0.insert(disk, arriving);
    }

    /// Whether all of a shipment is kept. If not, goes on as far as can be gone.
    fn keeps(&mut self, disk: DiskSlot, next: &mut u64, keeping: &mut Keeping) -> bool {
        while let Some(record) = keeping.records.front() {
            let begins = record.begins_interval && holds(Guard::IntervalsTravel);
            if begins && !self.ends_interval(disk) {
                return false;
            }
            if self.keep_record(disk, record).is_err() {
                return false;
            }
            keeping.records.pop_front();
            *next += 1;
        }
        let Some(flash) = self.flash.as_mut() else {
            return false;
        };
        let store = &mut self.ports.store;
        let wanted = if let Some(wanted) = keeping.wanted {
            wanted
        } else {
            let end = flash.write_back().flush_log(store, disk);
            if let Some(dirty) = flash.dirty_logs().get(disk)
                && holds(Guard::WatermarkTravels)
            {
                let to = number_here(dirty.log(), *next, keeping.base);
                flash.write_back().drop_before(store, disk, to);
            }
            keeping.wanted = Some(end);
            end
        };
        flash.write_back().push_durability(store, disk);
        let Some(dirty) = flash.dirty_logs().get(disk) else {
            return false;
        };
        let is_durable = dirty.log().is_empty() || dirty.durable() >= wanted;
        let is_known = dirty.released() >= dirty.log().base();
        if !is_known {
            flash.journal_mut().hurry();
        }
        (is_durable && is_known) || !holds(Guard::KeptIsDurable)
    }

    /// Ends the interval of a log. False if that waits for its open chunk to be sealed.
    fn ends_interval(&mut self, disk: DiskSlot) -> bool {
        let Some(flash) = self.flash.as_mut() else {
            return false;
        };
        let is_at_begin =
            |dirty: Option<&DirtyDisk>| dirty.is_none_or(|dirty| dirty.log().is_at_begin());
        if is_at_begin(flash.dirty_logs().get(disk)) {
            return true;
        }
        flash.write_back().flush_log(&mut self.ports.store, disk);
        is_at_begin(flash.dirty_logs().get(disk))
    }

    fn keep_record(&mut self, disk: DiskSlot, record: &Shipped) -> Result<(), NoRoom> {
        match &record.what {
            ShippedWhat::Block { block, bytes } => {
                self.fills.kill(disk, *block, 1);
                let page = self.page(bytes);
                self.accept_block(disk, None, *block, &page)
            }
            ShippedWhat::Erased(erasure) => {
                let Erasure { first, blocks, .. } = *erasure;
                self.fills.kill(disk, first, u64::from(blocks));
                self.log_erasure(disk, *erasure)
            }
        }
    }

    /// The bytes of a block in one piece.
    fn page(&self, bytes: &Payload) -> Slice {
        if let [whole] = &bytes[..] {
            return whole.clone();
        }
        let mut page = self.ports.pool().take(PAGE_BYTES);
        let bytes = bytes.iter().flat_map(|slice| slice.iter());
        for (to, byte) in page.iter_mut().zip(bytes) {
            *to = *byte;
        }
        page.freeze().slice(0..PAGE_BYTES)
    }

    /// The disk is detached, or its flash has failed: no more records come. Those that are in its log stay there.
    pub(crate) fn end_arrivals(&mut self, disk: DiskSlot, error: ControlError) {
        if let Some(id) = self.backs.arrivals.end(disk) {
            self.ports.command_ended(id, Some(Err(error)));
        }
    }

    /// The flash has failed: nobody waits for what it has of disks that others have.
    pub(crate) fn lose_arrivals(&mut self) {
        for disk in self.backs.arrivals.slots().collect::<Vec<_>>() {
            self.end_arrivals(disk, ControlError::NoWriteBack);
            if let Some(dirty) = self.flash.log_of_mut(disk) {
                dirty.settle_unwritten(dirty.log().end());
            }
        }
        self.flash.release_failed();
    }
}
