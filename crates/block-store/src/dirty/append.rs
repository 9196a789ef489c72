//! Records that come into a log, and its chunks on their way to flash.

use super::chunks::OpenChunk;
use super::durable::Seal;
use super::places;
use super::{LogTables, Logs};
use crate::chunks::OfLog;
use crate::journal::{Journal, Ticket};
use crate::ports::{Payload, Ports, Tag};
use dirty_log::Record;
use flash_format::{DirtyChunkHeader, DirtyRecord, Position, SegmentIndex};
use segment_log::{Sealed, StreamKey};
use units::DiskSlot;

/// A chunk that was sealed.
pub(crate) struct SealedChunk {
    /// What its header says.
    pub(crate) header: DirtyChunkHeader,
    pub(crate) of_log: OfLog,
    /// A flush waits for it.
    pub(crate) durable: bool,
}

impl Logs {
    /// A segment was opened for a disk's log; `opened` is the entry that says so.
    ///
    /// # Panics
    /// If the disk has no log.
    pub(crate) fn opened(
        &mut self,
        journal: &mut Journal,
        disk: DiskSlot,
        segment: SegmentIndex,
        opened: Ticket,
    ) {
        let dirty = self.by_disk.get_mut(disk).expect("the disk has a log");
        dirty.opened(segment, opened);
        // A flush will wait for the entry.
        journal.hurry();
    }

    /// Whether retained memory has a place for a disk's next record.
    ///
    /// # Panics
    /// If the disk has no log.
    pub(crate) fn has_place(&self, disk: DiskSlot) -> bool {
        let dirty = self.by_disk.get(disk).expect("the disk has a log");
        dirty.chunks().open().is_some() || !self.places.is_empty()
    }

    /// The stream of a log has an open chunk: begins it here if it is new.
    ///
    /// # Panics
    /// If there is none, or the disk has no log, or is not known.
    pub(crate) fn begin_chunk<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &LogTables<'_, T::Payload>,
        key: StreamKey,
    ) {
        let dirty = self.by_disk.get_mut(key.disk).expect("the disk has a log");
        if dirty.chunks().open().is_some() {
            return;
        }
        let open = tables.segments.stream(key).expect("the stream is open");
        let entry = tables.disks.get(key.disk);
        let entry = entry.expect("a disk with a log is known");
        let chunk = DirtyChunkHeader {
            segment: open.segment,
            generation: tables.segments.table().get(open.segment).generation,
            disk: key.disk,
            page: open.chunk.expect("the chunk is open").page,
            id: entry.id,
            size: entry.size,
            epoch: dirty.next_epoch(entry.epoch),
            begins_interval: dirty.log().is_at_begin(),
            follows: dirty.log().last(),
            durable: dirty.durable_at(),
            records: Vec::new(),
        };
        dirty.chunks_mut().begin(OpenChunk {
            place: self.places.begin(ports, &chunk),
            follows: chunk.follows,
            begins_interval: chunk.begins_interval,
            wanted: false,
        });
    }

    /// Where an erasure comes: behind the latest record, or behind its chunk's header.
    ///
    /// # Panics
    /// If the disk has no log.
    pub(crate) fn next_erasure(&self, disk: DiskSlot, header: Position) -> Position {
        let dirty = self.by_disk.get(disk).expect("the disk has a log");
        dirty.log().last().max(header).next_erasure()
    }

    /// Accepts a record, and tells retained memory: `at_flash` is what its chunk will
    /// say of it, `page` which of the chunk's blocks it is, and its bytes as they will lie there.
    ///
    /// # Panics
    /// If the disk has no log, or the log no open chunk.
    pub(crate) fn accept<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &LogTables<'_, T::Payload>,
        disk: DiskSlot,
        record: Record,
        at_flash: &DirtyRecord,
        page: Option<(u32, <T::Payload as Payload>::Page)>,
    ) {
        let dirty = self.by_disk.get_mut(disk).expect("the disk has a log");
        let open = dirty.chunks().open().expect("the chunk is open");
        places::push(ports, open.place, at_flash, page);
        let epoch = tables.disks.get(disk).map_or(0, |entry| entry.epoch);
        dirty.accept(record, dirty.next_epoch(epoch), ports.now());
    }

    /// The stream has sealed the open chunk of a log.
    ///
    /// # Panics
    /// If the disk has no log, or the log no open chunk.
    pub(crate) fn seal<P: Payload>(
        &mut self,
        tables: &LogTables<'_, P>,
        disk: DiskSlot,
        sealed: &Sealed,
        records: Vec<DirtyRecord>,
    ) -> SealedChunk {
        let entry = tables.disks.get(disk).expect("a disk with a log is known");
        let dirty = self.by_disk.get_mut(disk).expect("the disk has a log");
        let durable = dirty.durable_at();
        let (open, end) = dirty.seal();
        let header = DirtyChunkHeader {
            segment: sealed.segment,
            generation: sealed.generation,
            disk,
            page: sealed.page,
            id: entry.id,
            size: entry.size,
            epoch: dirty.next_epoch(entry.epoch),
            begins_interval: open.begins_interval,
            follows: open.follows,
            durable: durable.min(open.follows),
            records,
        };
        SealedChunk {
            header,
            of_log: OfLog {
                end,
                place: open.place,
            },
            durable: open.wanted,
        }
    }

    /// A chunk of a log has been written.
    pub(crate) fn chunk_written<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        tables: &mut LogTables<'_, T::Payload>,
        disk: DiskSlot,
        segment: SegmentIndex,
        chunk: OfLog,
    ) -> Seal {
        let dirty = self.by_disk.get_mut(disk);
        // No entry is needed for a segment of which the origin has everything.
        let opened = dirty
            .as_ref()
            .and_then(|dirty| dirty.opened_by(segment))
            .unwrap_or_default();
        let durable = tables.journal.durable();
        self.places.written(ports, chunk.place, opened, durable);
        if let Some(dirty) = dirty {
            dirty.chunks_mut().written(chunk.end);
        }
        self.push_durability(ports, tables, disk)
    }
}
