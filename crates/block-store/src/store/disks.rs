//! What the tables say of disks that come and go, and of their segments.

use super::{Store, reclaim};
use crate::checkpoint::Checkpoint;
use crate::chunks::Segments;
use crate::dirty::Logs;
use crate::disks::{DiskTable, Served};
use crate::intake::Intake;
use crate::journal::Journal;
use crate::payload::Pages;
use crate::ports::{Payload, Ports, Tag};
use crate::trust::Trust;
use flash_format::SegmentIndex;
use segment_log::{Phase, Spare};
use units::{Bytes, DiskId, DiskSlot, Instant, TenantSlot};

/// What may be changed of the tables of a store: disks that come and go. Each change is durable when the
/// checkpoint that is returned is complete.
pub struct TableChanges<'a> {
    disks: &'a mut DiskTable,
    logs: &'a mut Logs,
    checkpoint: &'a mut Checkpoint,
}

/// Frees the segments of a disk whose blocks are given up: first the entries that say so, then the segments.
pub struct Freeing<'a, P: Payload = Pages> {
    segments: &'a mut Segments<P>,
    trust: &'a mut Trust,
    journal: &'a mut Journal,
}

/// Who has a right to how many segments.
pub struct Shares<'a, P: Payload = Pages>(&'a mut Segments<P>);

impl<P: Payload> Store<P> {
    /// Its tables, to change them.
    pub fn tables_mut(&mut self) -> TableChanges<'_> {
        TableChanges {
            disks: &mut self.disks,
            logs: &mut self.logs,
            checkpoint: &mut self.checkpoint,
        }
    }

    /// Who has a right to its segments, to change that.
    pub fn shares_mut(&mut self) -> Shares<'_, P> {
        Shares(&mut self.segments)
    }

    /// What it takes in, to change that.
    pub fn intake_mut(&mut self) -> &mut Intake {
        &mut self.intake
    }

    /// Ends the open segments of a disk, or of all.
    pub fn close_streams<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: Option<DiskSlot>,
    ) {
        for key in self.segments.stream_keys() {
            if disk.is_none_or(|disk| disk == key.disk) {
                let (writer, mut streams) = self.writer();
                writer.close(ports, &mut streams, key);
            }
        }
    }

    /// What frees the segments of a disk whose blocks are given up.
    pub fn freeing(&mut self) -> Freeing<'_, P> {
        Freeing {
            segments: &mut self.segments,
            trust: &mut self.trust,
            journal: &mut self.journal,
        }
    }
}

impl TableChanges<'_> {
    /// Enters a disk into the table; it is served when the checkpoint that is returned is complete.
    pub fn enter(self, slot: DiskSlot, served: Served) -> u64 {
        if self.disks.enter(slot, served) {
            self.logs.by_disk_mut().set(slot, None);
        }
        self.checkpoint.want()
    }

    /// A disk that was entered is not served after all: others may write its origin, which the
    /// next attach has to notice.
    pub fn give_back(self, slot: DiskSlot, id: DiskId, fingerprint: Option<u128>) -> u64 {
        if self.disks.get(slot).is_some_and(|entry| entry.id == id) {
            self.disks.set_fingerprint(slot, fingerprint);
        }
        self.checkpoint.want()
    }

    /// A disk is served no longer, and its origin is like this: the table says so when the checkpoint
    /// that is returned is complete.
    pub fn leave(self, disk: DiskSlot, fingerprint: Option<u128>) -> u64 {
        self.disks.set_fingerprint(disk, fingerprint);
        self.checkpoint.want()
    }

    /// The table has this size of a disk when the checkpoint that is returned is complete.
    pub fn grow(self, disk: DiskSlot, size: Bytes) -> u64 {
        self.disks.set_size(disk, size);
        self.checkpoint.want()
    }

    /// Asks for a checkpoint of the tables as they are now. Returns its number.
    pub fn want_checkpoint(self) -> u64 {
        self.checkpoint.want()
    }

    /// Asks for the last checkpoint before a clean stop.
    pub fn want_clean_checkpoint(self) -> u64 {
        self.checkpoint.want_clean()
    }
}

impl<P: Payload> Shares<'_, P> {
    /// Whose a disk's segments are from now on.
    pub fn set_tenant(self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        self.0.table_mut().set_tenant(disk, tenant);
    }

    /// How many segments a tenant has a right to.
    pub fn set_share(self, tenant: TenantSlot, segments: u32) {
        self.0.table_mut().set_share(tenant, segments);
    }

    /// What becomes of segments that nobody has a right to.
    pub fn set_spare(self, spare: Spare) {
        self.0.table_mut().set_spare(spare);
    }
}

impl<P: Payload> Freeing<'_, P> {
    /// Queues the entries that free every closed segment of a disk, at the time `now`. Returns the segments, for
    /// [`Freeing::release`].
    pub fn begin(self, disk: Option<DiskSlot>, now: Instant) -> Vec<SegmentIndex> {
        let of = |slot| disk == Some(slot);
        let table = self.segments.table().iter();
        let closed = table
            .filter(|(_, segment)| of(segment.disk) && segment.phase == Phase::Closed)
            .map(|(index, _)| index);
        let segments: Vec<SegmentIndex> = closed.collect();
        for segment in &segments {
            self.segments.table_mut().begin_free(*segment);
            let generation = self.segments.table().get(*segment).generation;
            self.journal.free(*segment, generation, now);
        }
        segments
    }

    /// The entries that free these segments of a disk are durable: forgets the disk's clean blocks.
    pub fn release(self, disk: DiskSlot, segments: &[SegmentIndex]) {
        self.segments.forget_disk(disk);
        for segment in segments {
            reclaim::release(self.trust, self.segments, *segment);
        }
    }
}
