//! What the tables say of disks that come and go, and of their segments.

use crate::dirty::DirtyDisk;
use crate::ports::{Ports, Tag};
use crate::store::Store;
use flash_format::{DiskEntry, Position, SegmentIndex};
use segment_log::Phase;
use std::num::NonZeroU64;
use units::{Bytes, DiskId, DiskSlot};

/// A disk that is to be served, for the table.
pub struct Served {
    /// Who it is.
    pub id: DiskId,
    /// What people call it.
    pub name: String,
    /// Size of its origin.
    pub size: Bytes,
    /// What its origin will be like however this life ends, if that is known.
    pub fingerprint: Option<u128>,
    /// The period that begins; 0 if it has none of its own, or only reads.
    pub epoch: u64,
    /// The tag of its key.
    pub key: Option<NonZeroU64>,
}

impl Store {
    /// Enters a disk into the table; it is served when the checkpoint that is returned is complete.
    pub fn enter(&mut self, slot: DiskSlot, served: Served) -> u64 {
        let before = self.disks.get(slot);
        let takes_over = before.is_some_and(|entry| entry.id != served.id);
        let before = before.filter(|entry| entry.id == served.id);
        let entry = DiskEntry {
            id: served.id,
            name: served.name,
            size: served.size,
            fingerprint: served.fingerprint,
            epoch: match served.epoch {
                0 => before.map_or(0, |entry| entry.epoch),
                epoch => epoch,
            },
            destaged: before.map_or(Position::START, |entry| entry.destaged),
            logged: before.map_or(Position::START, |entry| entry.logged),
            // What was in doubt of it is void, or nothing was: else it would not be let in.
            in_doubt: false,
            key: served.key,
        };
        if takes_over {
            self.dirty.set(slot, None);
        }
        self.disks.set(slot, entry);
        self.checkpoint.want()
    }

    /// A disk that was entered is not served after all: others may write its origin, which the
    /// next attach has to notice.
    pub fn give_back(&mut self, slot: DiskSlot, id: DiskId, fingerprint: Option<u128>) -> u64 {
        if let Some(entry) = self.disks.get_mut(slot)
            && entry.id == id
        {
            entry.fingerprint = fingerprint;
        }
        self.checkpoint.want()
    }

    /// A disk is served no longer, and its origin is like this: the table says so when the checkpoint
    /// that is returned is complete.
    pub fn leave(&mut self, disk: DiskSlot, fingerprint: Option<u128>) -> u64 {
        if let Some(entry) = self.disks.get_mut(disk) {
            entry.fingerprint = fingerprint;
        }
        self.checkpoint.want()
    }

    /// Admits nothing of a disk from now on: it is being dropped or detached.
    pub fn close_to(&mut self, disk: DiskSlot) {
        self.closed_to.insert(disk);
    }

    /// Admits blocks of a disk again.
    pub fn open_to(&mut self, disk: DiskSlot) {
        self.closed_to.remove(&disk);
    }

    /// Admits nothing any more: the cache is stopping.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Gives a disk a dirty log if it has none.
    pub fn give_log(&mut self, disk: DiskSlot) {
        if self.dirty.get(disk).is_none() {
            let entry = self.disks.get(disk);
            let watermark = entry.map_or(Position::START, |entry| entry.destaged);
            self.dirty.set(disk, Some(DirtyDisk::new(watermark)));
        }
    }

    /// Takes a disk's dirty log away.
    pub fn end_log(&mut self, disk: DiskSlot) {
        self.dirty.set(disk, None);
    }

    /// The table has this size of a disk when the checkpoint that is returned is complete.
    pub fn grow(&mut self, disk: DiskSlot, size: Bytes) -> u64 {
        if let Some(entry) = self.disks.get_mut(disk) {
            entry.size = size;
        }
        self.checkpoint.want()
    }

    /// Ends the open segments of a disk, or of all.
    pub fn close_streams<T: Tag>(&mut self, ports: &mut Ports<T>, disk: Option<DiskSlot>) {
        for key in self.log.stream_keys() {
            if disk.is_none_or(|disk| disk == key.disk) {
                self.close_stream(ports, key);
            }
        }
    }

    fn writes_of(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.log
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
        let mut segments = self.log.segments();
        segments.any(|(_, segment)| disk == Some(segment.disk) && segment.phase == Phase::Dirty)
    }

    fn reclaims(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.reclaiming
            .as_ref()
            .is_some_and(|reclaiming| of(reclaiming.disk()))
    }

    /// Queues the entries that free every segment of a disk.
    pub fn free_segments_of<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: Option<DiskSlot>,
    ) -> Vec<SegmentIndex> {
        let of = |slot| disk == Some(slot);
        let closed = self
            .log
            .segments()
            .filter(|(_, segment)| of(segment.disk) && segment.phase == Phase::Closed);
        let segments: Vec<SegmentIndex> = closed.map(|(index, _)| index).collect();
        for segment in &segments {
            self.log.begin_free(*segment);
            self.push_free(ports, *segment);
        }
        segments
    }

    /// The entries that free these segments of a disk are durable: forgets the disk's clean blocks.
    pub fn release_segments(&mut self, disk: DiskSlot, segments: &[SegmentIndex]) {
        self.log.forget_disk(disk);
        for segment in segments {
            self.release(*segment);
        }
    }
}
