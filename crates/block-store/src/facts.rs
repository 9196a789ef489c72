//! What the flash side says of itself: where blocks are, what the tables have, how far the journal is.

use crate::config::Config;
use crate::dirty::DirtyDisk;
use crate::durability::Origins;
use crate::journal::Ticket;
use crate::limits::PASSED_ENTRIES_MAX;
use crate::ports::{Ports, Tag};
use crate::store::{Location, Store};
use block_io::BlockCipher;
use dirty_log::Found;
use flash_format::{DiskEntry, Geometry};
use segment_log::{Phase, Spare};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, FlashSlot, TenantSlot};

/// Segments by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Nothing in it counts.
    pub free: u64,
    /// Blocks are being appended, or its last are on their way.
    pub open: u64,
    /// Full.
    pub closed: u64,
    /// Being reclaimed or dropped.
    pub reclaiming: u64,
}

/// How far the tables on flash are durable: two counters that only grow. Flash that is found with a
/// smaller one than it had is an older copy of itself, or has lost what it had said was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The sequence number of the latest superblock.
    pub superblock: u64,
    /// The first page of the journal that may not be durable.
    pub journal: u64,
}

impl Committed {
    /// Whether flash that has come to `found` was farther before.
    pub fn is_beyond(self, found: Self) -> bool {
        self.superblock > found.superblock || self.journal > found.journal
    }

    /// The farther of two, of each counter.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            superblock: self.superblock.max(other.superblock),
            journal: self.journal.max(other.journal),
        }
    }
}

impl Store {
    /// Which cache it is.
    pub fn uuid(&self) -> u128 {
        self.identity.uuid
    }

    /// How often the cache was opened.
    pub fn incarnation(&self) -> u64 {
        self.identity.incarnation
    }

    /// Where everything is on the device.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.identity.geometry
    }

    /// Where a slot is on the device, in bytes.
    #[inline]
    pub fn offset_of(&self, slot: FlashSlot) -> Bytes {
        self.identity.geometry.slot_offset(slot)
    }

    /// How far the tables are durable.
    pub fn committed(&self) -> Committed {
        Committed {
            superblock: self.checkpoint.superblock_durable(),
            journal: self.journal.durable_end(),
        }
    }

    /// What origins may still lose.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The same, to say what has happened to them.
    pub fn origins_mut(&mut self) -> &mut Origins {
        &mut self.origins
    }

    /// Bytes of blocks that wait in memory to be written.
    pub fn buffered(&self) -> Bytes {
        Bytes::new(self.writer.buffered() as u64)
    }

    /// How it behaves.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Blocks of all disks that are cached.
    pub fn cached_blocks(&self) -> u64 {
        self.log.index().len() as u64
    }

    /// Blocks of a disk that are cached.
    pub fn cached_blocks_of(&self, disk: DiskSlot) -> u64 {
        self.log.cached_blocks(disk)
    }

    /// Whether a block is cached, clean.
    #[inline]
    pub fn has_copy(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.log.index().get(disk, block).is_some()
    }

    /// Whether a block was read while its copy, which has just left, was cached.
    pub fn was_warm(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.log.was_warm(disk, block)
    }

    /// How many blocks of a disk from `first` on, at most `most`, lie behind each other from `slot` on
    /// in one segment on flash; marks them as referenced, but for the first.
    #[inline]
    pub fn clean_run(
        &mut self,
        disk: DiskSlot,
        first: BlockIndex,
        slot: FlashSlot,
        most: u64,
    ) -> u32 {
        let segment = self.identity.geometry.segment_of(slot);
        let mut count = 1;
        while u64::from(count) < most {
            let next = slot.advance(count);
            let block = first.advance(u64::from(count));
            if self.log.index().get(disk, block) != Some(next)
                || self.identity.geometry.segment_of(next) != segment
                || !self.log.is_written(next)
            {
                break;
            }
            self.log.touch(disk, block);
            count += 1;
        }
        count
    }

    /// The same of records of the disk's dirty log.
    pub fn dirty_run<T: Tag>(
        &self,
        ports: &Ports<T>,
        disk: DiskSlot,
        first: BlockIndex,
        slot: FlashSlot,
        most: u64,
    ) -> u32 {
        let segment = self.identity.geometry.segment_of(slot);
        let mut count = 1;
        while u64::from(count) < most {
            let next = slot.advance(count);
            let block = first.advance(u64::from(count));
            if self.identity.geometry.segment_of(next) != segment
                || self.dirty_state(disk, block) != Found::Dirty(next)
                || matches!(self.bytes_of(ports, next), Location::Memory(_))
            {
                break;
            }
            count += 1;
        }
        count
    }

    /// What a disk's dirty log says of a block.
    #[inline]
    pub fn dirty_state(&self, disk: DiskSlot, block: BlockIndex) -> Found {
        self.logs.by_disk().find(disk, block)
    }

    /// Whether a disk's origin lacks something.
    #[inline]
    pub fn is_dirty(&self, disk: DiskSlot) -> bool {
        self.logs.by_disk().has(disk)
    }

    /// Whether any origin lacks something.
    pub fn has_dirty(&self) -> bool {
        self.logs.by_disk().has_any()
    }

    /// A disk's dirty log.
    #[inline]
    pub fn dirty_log(&self, disk: DiskSlot) -> Option<&DirtyDisk> {
        self.logs.by_disk().get(disk)
    }

    /// The same, to change it.
    pub fn dirty_log_mut(&mut self, disk: DiskSlot) -> Option<&mut DirtyDisk> {
        self.logs.by_disk_mut().get_mut(disk)
    }

    /// The slot of the disk with this id, attached or remembered.
    pub fn slot_of(&self, id: DiskId) -> Option<DiskSlot> {
        self.disks.slot_of(id)
    }

    /// Whether what lies on flash of a disk was written under another key than it comes with, or
    /// under none.
    pub fn key_differs(&self, slot: DiskSlot, id: DiskId, key: Option<NonZeroU64>) -> bool {
        self.disks.key_differs(slot, id, key)
    }

    /// A disk's entry in the table.
    pub fn disk_entry(&self, disk: DiskSlot) -> Option<&DiskEntry> {
        self.disks.get(disk)
    }

    /// Whether a disk's blocks lie encrypted.
    #[inline]
    pub fn is_encrypted(&self, disk: DiskSlot) -> bool {
        self.writer.ciphers().get(disk).is_some()
    }

    /// By which cipher a disk's blocks are encrypted from now on; none for no longer.
    pub fn set_cipher(&mut self, disk: DiskSlot, cipher: Option<Box<dyn BlockCipher>>) {
        self.writer.ciphers_mut().set(disk, cipher);
    }

    /// Has everything that is queued for the journal written as soon as may be.
    pub fn hurry(&mut self) {
        self.journal.hurry();
    }

    /// Somebody goes on before what it has queued is durable. False if too much is queued by now.
    pub fn pass(&mut self) -> bool {
        self.journal.hurry();
        self.journal.queued_entries() <= PASSED_ENTRIES_MAX
    }

    /// The ticket of what was queued for the journal last.
    pub fn last_ticket(&self) -> Ticket {
        self.journal.last()
    }

    /// Whether everything up to this ticket survives a crash.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.journal.durable() >= ticket
    }

    /// Whether everything that was queued for the journal is durable.
    pub fn has_all_durable(&self) -> bool {
        self.journal.is_idle()
    }

    /// Whether the checkpoint of this number is complete.
    pub fn has_checkpoint(&self, number: u64) -> bool {
        self.checkpoint.complete() >= number
    }

    /// Asks for a checkpoint of the tables as they are now. Returns its number.
    pub fn want_checkpoint(&mut self) -> u64 {
        self.checkpoint.want()
    }

    /// Asks for the last checkpoint before a clean stop.
    pub fn want_clean_checkpoint(&mut self) -> u64 {
        self.checkpoint.want_clean()
    }

    /// A read has succeeded: the flash does not fail all the time.
    #[inline]
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether only segments of dirty logs are left to be reclaimed, and room is needed.
    pub fn is_short_of_clean_segments(&self) -> bool {
        self.log.free_count() <= segment_log::SEGMENTS_RESERVED && self.log.closed_count() == 0
    }

    /// Whose a disk's segments are from now on.
    pub fn set_tenant(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        self.log.set_tenant(disk, tenant);
    }

    /// How many segments a tenant has a right to.
    pub fn set_share(&mut self, tenant: TenantSlot, segments: u32) {
        self.log.set_share(tenant, segments);
    }

    /// What becomes of segments that nobody has a right to.
    pub fn set_spare(&mut self, spare: Spare) {
        self.log.set_spare(spare);
    }

    /// Segments by what they are.
    pub fn segment_counts(&self) -> SegmentCounts {
        let mut counts = SegmentCounts::default();
        for (_, segment) in self.log.segments() {
            *match segment.phase {
                Phase::Free => &mut counts.free,
                Phase::Open | Phase::Closing => &mut counts.open,
                Phase::Closed | Phase::Dirty => &mut counts.closed,
                Phase::Reclaiming | Phase::Draining => &mut counts.reclaiming,
            } += 1;
        }
        counts
    }
}
