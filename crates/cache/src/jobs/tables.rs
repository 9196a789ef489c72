//! What jobs do to the tables: disks that come and go, with their segments.

use super::{Flash, Newcomer, Ports, Step};
use crate::guard::{Guard, holds};
use flash_format::{DiskEntry, Position, SegmentIndex};
use segment_log::Phase;
use units::{Bytes, DiskSlot};

impl Flash {
    /// Enters a disk into the table; it is served when that is durable.
    pub(super) fn enter(&mut self, newcomer: &Newcomer) -> u64 {
        let before = self.disks.get(newcomer.slot);
        let before = before.filter(|entry| entry.id == newcomer.id);
        let entry = DiskEntry {
            id: newcomer.id,
            name: newcomer.name.clone(),
            size: newcomer.disk.size,
            // Of a disk that we only read any change is somebody else's, however this life ends.
            fingerprint: newcomer.fingerprint.filter(|_| newcomer.disk.read_only),
            epoch: match newcomer.disk.epoch {
                // It has none of its own, or only reads.
                0 => before.map_or(0, |entry| entry.epoch),
                epoch => epoch,
            },
            destaged: before.map_or(Position::START, |entry| entry.destaged),
            logged: before.map_or(Position::START, |entry| entry.logged),
            // What was in doubt of it is void, or nothing was: else it would not be let in.
            in_doubt: false,
            key: newcomer.key,
        };
        if newcomer.takes_over {
            self.dirty.set(newcomer.slot, None);
        }
        self.disks.set(newcomer.slot, entry);
        self.checkpoint.want()
    }

    /// A disk that was entered is not served after all: others may write its origin, which the
    /// next attach has to notice.
    pub(super) fn give_back(&mut self, newcomer: &Newcomer) -> u64 {
        if let Some(entry) = self.disks.get_mut(newcomer.slot)
            && entry.id == newcomer.id
        {
            entry.fingerprint = newcomer.fingerprint;
        }
        self.checkpoint.want()
    }

    /// The table has this size of a disk when the checkpoint that is returned is complete.
    pub(super) fn grow(&mut self, disk: DiskSlot, size: Bytes) -> u64 {
        if let Some(entry) = self.disks.get_mut(disk) {
            entry.size = size;
        }
        self.checkpoint.want()
    }

    pub(super) fn close_streams(&mut self, ports: &mut Ports, disk: Option<DiskSlot>) {
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
    pub(super) fn is_busy_with(&self, disk: Option<DiskSlot>) -> bool {
        let flushing = disk.is_some_and(|disk| self.durability[disk].is_flushing());
        flushing || self.writes_of(disk) || self.reclaims(disk)
    }

    pub(super) fn has_log_segments(&self, disk: Option<DiskSlot>) -> bool {
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
    pub(super) fn free_segments_of(
        &mut self,
        ports: &mut Ports,
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

    pub(super) fn release_segments(&mut self, disk: DiskSlot, segments: &[SegmentIndex]) {
        self.log.forget_disk(disk);
        for segment in segments {
            self.release(*segment);
        }
    }
}

impl Newcomer {
    /// The tables have the disk: what is left is to record who has it.
    pub(super) fn after_tables(&self, ports: &mut Ports) -> Step {
        match self.record {
            None => Step::Done,
            Some(record) => {
                let token = ports.own(self.slot, self.id, record);
                if holds(Guard::RecordOpenBeforeWrite) {
                    Step::Owning(token)
                } else {
                    Step::Done
                }
            }
        }
    }
}
