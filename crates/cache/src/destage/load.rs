//! A batch's records on their way from flash, verified.

use super::Destage;
use super::batch::reads_of;
use crate::back::Back;
use crate::cache::Cache;
use crate::flash::Location;
use crate::guard::{Guard, holds};
use crate::ports::Purpose;
use block_io::{Buf, IoError, PAGE_BYTES};
use units::{DiskSlot, FlashSlot};

/// Pages of a log that come from flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageRead {
    pub(crate) disk: DiskSlot,
    batch: u64,
    read: usize,
    pub(crate) slot: FlashSlot,
}

impl Cache {
    /// Begins to read the next batch, if there is room and need for one.
    pub(super) fn load_next(&mut self, disk: DiskSlot, back: &mut Back, wanted: u64) -> bool {
        if back.destage.loading.is_some() {
            return false;
        }
        let Some(flash) = self.dirty_flash_mut() else {
            return false;
        };
        let Some(dirty) = flash.dirty.get(disk) else {
            return false;
        };
        let in_order = back.goes_in_order(&dirty.log);
        if in_order && back.destage.is_out_of_order() {
            // What it settles may be in the next batch as well.
            return false;
        }
        let batch = if in_order {
            back.destage.next_in_order(&dirty.log, wanted)
        } else {
            let older = back
                .returns_to_order(&dirty.log)
                .then(|| dirty.log.blocks_before_holes_end());
            back.destage
                .next_in_any_order(&dirty.log, wanted, older.as_ref())
        };
        let Some(batch) = batch else {
            return false;
        };
        back.destage.loading = Some(batch);
        self.read_batch(disk, &mut back.destage);
        true
    }

    /// Reads what the batch needs, from memory where it is there.
    pub(super) fn read_batch(&mut self, disk: DiskSlot, destage: &mut Destage) {
        let flash = self.flash.as_mut().or(self.wreck.as_mut());
        let (Some(batch), Some(flash)) = (destage.loading.as_mut(), flash) else {
            return;
        };
        let Some(dirty) = flash.dirty.get(disk) else {
            return;
        };
        let mut on_flash = Vec::new();
        for (number, slot) in batch.wanted(&dirty.log) {
            match flash.bytes_of(&self.ports, slot) {
                Location::Memory(bytes) => {
                    batch.pages.insert(number, bytes);
                }
                Location::Flash(_) | Location::Nowhere => on_flash.push((number, slot)),
            }
        }
        batch.reads = reads_of(&on_flash, &flash.geometry);
        batch.reads_left = batch.reads.len();
        for (at, read) in batch.reads.iter().enumerate() {
            flash.pin_for(&mut self.ports, read.slot);
            let purpose = DestageRead {
                disk,
                batch: batch.id,
                read: at,
                slot: read.slot,
            };
            let offset = flash.geometry.slot_offset(read.slot);
            let length = read.pages as usize * PAGE_BYTES;
            self.ports.stats.destage_read_bytes += length as u64;
            self.ports
                .flash_read(Purpose::DestageRead(purpose), offset, length);
        }
    }

    /// Pages of a log have come from flash, or have failed to.
    pub(crate) fn destage_read_done(
        &mut self,
        read: DestageRead,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        if let Some(flash) = self.flash.as_mut() {
            flash.unpin(read.slot);
            if result.is_err() {
                flash.failed(&mut self.ports);
            }
        } else if let Some(wreck) = self.wreck.as_mut() {
            wreck.unpin(read.slot);
        }
        self.ports.stir(read.disk);
        let flash = self.flash.as_deref().or(self.wreck.as_deref());
        let (Some(back), Some(flash)) = (self.backs.get_mut(read.disk), flash) else {
            return;
        };
        let loading = back.destage.loading.as_mut();
        let Some(batch) = loading.filter(|batch| batch.id == read.batch) else {
            return;
        };
        batch.reads_left -= 1;
        let bytes = match (result, buf) {
            (Ok(()), Some(buf)) => buf.freeze(),
            (Err(error), _) => {
                batch.error = Some(error);
                return;
            }
            (Ok(()), None) => {
                batch.error = Some(IoError::Failed);
                return;
            }
        };
        for (at, number) in &batch.reads[read.read].wanted {
            let from = *at as usize * PAGE_BYTES;
            let page = bytes.slice(from..from + PAGE_BYTES);
            let slot = read.slot.advance(*at);
            if flash.is_whole(slot, &page) || !holds(Guard::VerifyBeforeDestage) {
                let page = flash.shown_record(&self.ports, read.disk, *number, page);
                batch.pages.insert(*number, page);
            } else {
                let block = flash.block_of_record(read.disk, *number);
                let place = flash.geometry.slot_offset(slot);
                self.ports.damaged(read.disk, block, place);
                batch.is_bad = true;
            }
        }
    }
}
