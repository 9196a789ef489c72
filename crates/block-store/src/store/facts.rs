//! What the flash side says of itself: where blocks are, what the tables have, how far the journal is.

use super::Store;
use crate::config::Config;
use crate::dirty::DirtyDisk;
use crate::durability::Origins;
use crate::facts::{Committed, SegmentCounts};
use crate::journal::Ticket;
use crate::limits::PASSED_ENTRIES_MAX;
use block_io::BlockCipher;
use dirty_log::Found;
use flash_format::{DiskEntry, Geometry};
use segment_log::{Phase, Spare};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, FlashSlot, TenantSlot};

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
        self.segments.index().len() as u64
    }

    /// Blocks of a disk that are cached.
    pub fn cached_blocks_of(&self, disk: DiskSlot) -> u64 {
        self.segments.cached_blocks(disk)
    }

    /// Whether a block is cached, clean.
    #[inline]
    pub fn has_copy(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.segments.index().get(disk, block).is_some()
    }

    /// Whether a block was read while its copy, which has just left, was cached.
    pub fn was_warm(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.segments.was_warm(disk, block)
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

    /// Whether only segments of dirty logs are left to be reclaimed, and room is needed.
    pub fn is_short_of_clean_segments(&self) -> bool {
        self.segments.free_count() <= segment_log::SEGMENTS_RESERVED
            && self.segments.closed_count() == 0
    }

    /// Whose a disk's segments are from now on.
    pub fn set_tenant(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        self.segments.set_tenant(disk, tenant);
    }

    /// How many segments a tenant has a right to.
    pub fn set_share(&mut self, tenant: TenantSlot, segments: u32) {
        self.segments.set_share(tenant, segments);
    }

    /// What becomes of segments that nobody has a right to.
    pub fn set_spare(&mut self, spare: Spare) {
        self.segments.set_spare(spare);
    }

    /// Segments by what they are.
    pub fn segment_counts(&self) -> SegmentCounts {
        let mut counts = SegmentCounts::default();
        for (_, segment) in self.segments.segments() {
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
