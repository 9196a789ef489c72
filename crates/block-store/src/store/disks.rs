//! What the tables say of disks that come and go, and of their segments.

use super::Store;
use crate::disks::{Served, slots};
use crate::ports::{Ports, Tag};
use flash_format::SegmentIndex;
use segment_log::Phase;
use units::{Bytes, DiskId, DiskSlot};

impl Store {
    /// Enters a disk into the table; it is served when the checkpoint that is returned is complete.
    pub fn enter(&mut self, slot: DiskSlot, served: Served) -> u64 {
        if self.disks.enter(slot, served) {
            self.logs.by_disk_mut().set(slot, None);
        }
        self.checkpoint.want()
    }

    /// A disk that was entered is not served after all: others may write its origin, which the
    /// next attach has to notice.
    pub fn give_back(&mut self, slot: DiskSlot, id: DiskId, fingerprint: Option<u128>) -> u64 {
        if self.disks.get(slot).is_some_and(|entry| entry.id == id) {
            self.disks.set_fingerprint(slot, fingerprint);
        }
        self.checkpoint.want()
    }

    /// A disk is served no longer, and its origin is like this: the table says so when the checkpoint
    /// that is returned is complete.
    pub fn leave(&mut self, disk: DiskSlot, fingerprint: Option<u128>) -> u64 {
        self.disks.set_fingerprint(disk, fingerprint);
        self.checkpoint.want()
    }

    /// A slot that no disk has, or else one whose disk is not attached and has nothing here.
    pub fn vacant_slot(&self, taken: impl Fn(DiskSlot) -> bool) -> Option<DiskSlot> {
        let empty = |slot: &DiskSlot| {
            !self
                .segments
                .segments()
                .any(|(_, segment)| segment.disk == *slot && segment.phase != Phase::Free)
        };
        slots()
            .find(|slot| self.disks.get(*slot).is_none() && !taken(*slot))
            .or_else(|| slots().find(|slot| !taken(*slot) && empty(slot)))
    }

    /// Admits nothing of a disk from now on: it is being dropped or detached.
    pub fn close_to(&mut self, disk: DiskSlot) {
        self.intake.close_to(disk);
    }

    /// Admits blocks of a disk again.
    pub fn open_to(&mut self, disk: DiskSlot) {
        self.intake.open_to(disk);
    }

    /// Admits nothing any more: the cache is stopping.
    pub fn stop(&mut self) {
        self.intake.stop();
    }

    /// The table has this size of a disk when the checkpoint that is returned is complete.
    pub fn grow(&mut self, disk: DiskSlot, size: Bytes) -> u64 {
        self.disks.set_size(disk, size);
        self.checkpoint.want()
    }

    /// Ends the open segments of a disk, or of all.
    pub fn close_streams<T: Tag>(&mut self, ports: &mut Ports<T>, disk: Option<DiskSlot>) {
        for key in self.segments.stream_keys() {
            if disk.is_none_or(|disk| disk == key.disk) {
                let (writer, mut streams) = self.writer();
                writer.close(ports, &mut streams, key);
            }
        }
    }

    fn writes_of(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.segments
            .segments()
            .any(|(_, segment)| of(segment.disk) && segment.writes > 0)
    }

    /// Whether writes to flash, a flush of the origin or a reclaim are under way for a disk.
    pub fn is_busy_with(&self, disk: Option<DiskSlot>) -> bool {
        let flushing = disk.is_some_and(|disk| self.origins.is_flushing(disk));
        flushing || self.writes_of(disk) || self.reclaims(disk)
    }

    /// Whether segments of a disk's dirty log are held for it.
    pub fn has_log_segments(&self, disk: Option<DiskSlot>) -> bool {
        let mut segments = self.segments.segments();
        segments.any(|(_, segment)| disk == Some(segment.disk) && segment.phase == Phase::Dirty)
    }

    fn reclaims(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.reclaim.disk().is_some_and(of)
    }

    /// Queues the entries that free every segment of a disk.
    pub fn free_segments_of<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: Option<DiskSlot>,
    ) -> Vec<SegmentIndex> {
        let of = |slot| disk == Some(slot);
        let closed = self
            .segments
            .segments()
            .filter(|(_, segment)| of(segment.disk) && segment.phase == Phase::Closed);
        let segments: Vec<SegmentIndex> = closed.map(|(index, _)| index).collect();
        for segment in &segments {
            self.segments.begin_free(*segment);
            let generation = self.segments.segment(*segment).generation;
            self.journal.free(*segment, generation, ports.now());
        }
        segments
    }

    /// The entries that free these segments of a disk are durable: forgets the disk's clean blocks.
    pub fn release_segments(&mut self, disk: DiskSlot, segments: &[SegmentIndex]) {
        self.segments.forget_disk(disk);
        for segment in segments {
            self.release(*segment);
        }
    }
}
