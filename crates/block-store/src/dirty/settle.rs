//! What the origin has durably becomes clean.

use super::{DirtyDisk, LogTables, Logs};
use crate::ports::{Payload, Ports, Tag};
use dirty_log::RecordNumber;
use flash_format::{JournalEntry, Position};
use segment_log::Phase;
use units::{BlockIndex, DiskSlot, FlashSlot};

/// What was settled of a log and is newest: ordinary clean blocks from now on.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) blocks: Vec<(BlockIndex, FlashSlot)>,
    /// All of them are on flash.
    pub(crate) written: bool,
}

impl Logs {
    /// The origin has every record of a disk's log before this number, durably.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub(crate) fn settle<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        to: RecordNumber,
    ) -> Settled {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return Settled::default();
        };
        let blocks = dirty.settle(to);
        self.tell_watermark(ports, tables, disk, Position::START);
        self.settled(disk, blocks)
    }

    /// The origin has these records, durably, whatever came before them.
    pub(crate) fn settle_some<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        numbers: &[RecordNumber],
    ) -> Settled {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return Settled::default();
        };
        let blocks = dirty.settle_some(numbers);
        self.tell_watermark(ports, tables, disk, Position::START);
        self.settled(disk, blocks)
    }

    /// The origin has every record of a disk's log before this number, durably, and none of them is to be cached.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub(crate) fn drop_before<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        to: RecordNumber,
    ) {
        if let Some(dirty) = self.by_disk.get_mut(disk) {
            let _ = dirty.settle(to);
            self.tell_watermark(ports, tables, disk, Position::START);
            self.release(tables, disk);
        }
    }

    fn settled(&self, disk: DiskSlot, blocks: Vec<(BlockIndex, FlashSlot)>) -> Settled {
        let dirty = self.by_disk.get(disk);
        let written = dirty.is_some_and(|dirty| dirty.log().base() <= dirty.written());
        Settled { blocks, written }
    }

    /// Nothing that the log has counts any more.
    pub(crate) fn void<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
    ) {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return;
        };
        dirty.void();
        let entry = tables.disks.get(disk);
        let logged = entry.map_or(Position::START, |entry| entry.logged);
        // Nor has anything to be there that was durable and is lost.
        self.tell_watermark(ports, tables, disk, logged);
        self.release(tables, disk);
    }

    /// Whether a recovery would find nothing of the log of a disk of which the origin has everything.
    pub(crate) fn knows_end(&self, disk: DiskSlot) -> bool {
        let dirty = self.by_disk.get(disk);
        dirty.is_none_or(DirtyDisk::knows_end)
    }

    /// The watermark is where the log says that it is, or at `least`: the journal is told.
    fn tell_watermark<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        least: Position,
    ) {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return;
        };
        let to = dirty.log().watermark().max(least);
        let known = tables.disks.get(disk).map(|entry| entry.destaged);
        if known.is_some() && dirty.told_to().max(known) < Some(to) {
            let entry = JournalEntry::Destaged { disk, to };
            let ticket = tables.journal.queue(ports, entry, to.generation);
            dirty.told(ticket, to);
        }
    }

    /// Segments of which the origin has everything are ordinary ones from now on, once that is durably
    /// known. Their reuse needs no guard of its own: the entry that frees a segment lies behind the one
    /// that says so in the same journal, and is durable before the segment is written again.
    pub(crate) fn release<P: Payload>(&mut self, tables: &mut LogTables<'_, P>, disk: DiskSlot) {
        let Some(dirty) = self.by_disk.get_mut(disk) else {
            return;
        };
        if let Some(to) = dirty.take_known(tables.journal.durable()) {
            tables.disks.destaged(disk, to);
        }
        let is_full = |phase| matches!(phase, Phase::Closing | Phase::Dirty);
        while let Some(segment) =
            dirty.pop_released(|segment| is_full(tables.segments.table().get(segment).phase))
        {
            tables.segments.table_mut().destaged(segment);
        }
    }
}
