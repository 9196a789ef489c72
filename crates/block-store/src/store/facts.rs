//! What the flash side says of itself: where blocks are, what the tables have, how far the journal is.

use super::Store;
use crate::config::Config;
use crate::dirty::DirtyDisks;
use crate::disks::slots;
use crate::durability::Origins;
use crate::encryption::Ciphers;
use crate::facts::{Committed, SegmentCounts};
use crate::format::FORMATTED;
use crate::journal::Journal;
use crate::payload::Pages;
use crate::ports::Payload;
use flash_format::{DiskEntry, Geometry};
use segment_log::{Index, Phase};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, FlashSlot, TenantSlot};

/// What a store says of itself.
pub struct Facts<'a, P: Payload = Pages>(&'a Store<P>);

impl<P: Payload> Clone for Facts<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Payload> Copy for Facts<'_, P> {}

impl<P: Payload> Store<P> {
    /// What it says of itself.
    #[inline]
    pub fn facts(&self) -> Facts<'_, P> {
        Facts(self)
    }

    /// What origins may still lose.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The same, to say what has happened to them.
    pub fn origins_mut(&mut self) -> &mut Origins {
        &mut self.origins
    }

    /// The dirty logs, by disk: what the origins lack.
    #[inline]
    pub fn dirty_logs(&self) -> &DirtyDisks {
        self.logs.by_disk()
    }

    /// The journal: what of its entries is durable.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The same, to have its entries written soon.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

impl Store {
    /// The ciphers of the disks whose blocks lie encrypted.
    #[inline]
    pub fn ciphers(&self) -> &Ciphers {
        self.writer.payload().ciphers()
    }

    /// The same, to change them.
    pub fn ciphers_mut(&mut self) -> &mut Ciphers {
        self.writer.payload_mut().ciphers_mut()
    }
}

impl<'a, P: Payload> Facts<'a, P> {
    /// Which cache it is.
    pub fn uuid(self) -> u128 {
        self.0.identity.uuid
    }

    /// How often the cache was opened.
    pub fn incarnation(self) -> u64 {
        self.0.identity.incarnation
    }

    /// Where everything is on the device.
    #[inline]
    pub fn geometry(self) -> &'a Geometry {
        &self.0.identity.geometry
    }

    /// How the store behaves.
    pub fn config(self) -> &'a Config {
        &self.0.config
    }

    /// Whether a block is cached, clean.
    #[inline]
    pub fn has_copy(self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.0.segments.index().get(disk, block).is_some()
    }

    /// Where the clean copy of a block lies.
    pub fn copy_of(self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        self.0.segments.index().get(disk, block)
    }

    /// How many blocks lie behind each other on flash from `slot` on, where the copy of the first is, in the same
    /// segment: at least one, and at most `most`.
    pub fn written_run(self, disk: DiskSlot, first: BlockIndex, slot: FlashSlot, most: u64) -> u32 {
        let geometry = &self.0.identity.geometry;
        let segment = geometry.segment_of(slot);
        let mut count = 1;
        while u64::from(count) < most {
            let next = slot.advance(count);
            let block = first.advance(u64::from(count));
            if self.copy_of(disk, block) != Some(next)
                || geometry.segment_of(next) != segment
                || !self.0.segments.table().is_written(next)
            {
                break;
            }
            count += 1;
        }
        count
    }

    /// How far the tables are durable.
    pub fn committed(self) -> Committed {
        Committed {
            superblock: self.0.checkpoint.superblock_durable(),
            journal: self.0.journal.durable_end(),
        }
    }

    /// Bytes of blocks that wait in memory to be written.
    pub fn buffered(self) -> Bytes {
        Bytes::new(self.0.writer.buffered() as u64)
    }

    /// Blocks of all disks that are cached.
    pub fn cached_blocks(self) -> u64 {
        self.0.segments.index().len() as u64
    }

    /// Blocks of a disk that are cached.
    pub fn cached_blocks_of(self, disk: DiskSlot) -> u64 {
        self.0.segments.cached_blocks(disk)
    }

    /// Segments that a tenant holds, those that are open or being reclaimed among them.
    pub fn held(self, tenant: TenantSlot) -> u32 {
        self.0.segments.table().held(tenant)
    }

    /// A tenant's share in segments.
    pub fn share(self, tenant: TenantSlot) -> u32 {
        self.0.segments.table().share(tenant)
    }

    /// Whether a block was read while its copy, which has just left, was cached.
    pub fn was_warm(self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.0.segments.was_warm(disk, block)
    }

    /// The slot of the disk with this id, attached or remembered.
    pub fn slot_of(self, id: DiskId) -> Option<DiskSlot> {
        self.0.disks.slot_of(id)
    }

    /// Whether what lies on flash of a disk was written under another key than it comes with, or
    /// under none.
    pub fn key_differs(self, slot: DiskSlot, id: DiskId, key: Option<NonZeroU64>) -> bool {
        self.0.disks.key_differs(slot, id, key)
    }

    /// A disk's entry in the table.
    pub fn disk_entry(self, disk: DiskSlot) -> Option<&'a DiskEntry> {
        self.0.disks.get(disk)
    }

    /// Whether the checkpoint of this number is complete.
    pub fn has_checkpoint(self, number: u64) -> bool {
        self.0.checkpoint.complete() >= number
    }

    /// Whether only segments of dirty logs are left to be reclaimed, and room is needed.
    pub fn is_short_of_clean_segments(self) -> bool {
        self.0.segments.table().free_count() <= segment_log::SEGMENTS_RESERVED
            && self.0.segments.table().closed_count() == 0
    }

    /// Segments by what they are.
    pub fn segment_counts(self) -> SegmentCounts {
        let mut counts = SegmentCounts::default();
        for (_, segment) in self.0.segments.table().iter() {
            *match segment.phase {
                Phase::Free => &mut counts.free,
                Phase::Open | Phase::Closing => &mut counts.open,
                Phase::Closed | Phase::Dirty => &mut counts.closed,
                Phase::Reclaiming | Phase::Draining => &mut counts.reclaiming,
            } += 1;
        }
        counts
    }

    /// Whether nothing was ever written to it but what formatting wrote.
    pub fn is_new(self) -> bool {
        self.0.identity.incarnation == FORMATTED + 1 && self.0.segments.is_untouched()
    }

    /// Bytes of memory, all in.
    pub fn memory_bytes(self) -> Bytes {
        let bytes = self.0.segments.index().bytes()
            + self.0.writer.bytes()
            + self.0.segments.bytes()
            + self.0.trust.bytes()
            + self.0.resting.bytes()
            + self.0.disks.bytes()
            + self.0.origins.bytes()
            + self.0.logs.by_disk().bytes();
        Bytes::new(bytes as u64)
    }

    /// A slot that no disk has, or else one whose disk is not attached and has nothing here.
    pub fn vacant_slot(self, taken: impl Fn(DiskSlot) -> bool) -> Option<DiskSlot> {
        let empty = |slot: &DiskSlot| {
            !self
                .0
                .segments
                .table()
                .iter()
                .any(|(_, segment)| segment.disk == *slot && segment.phase != Phase::Free)
        };
        slots()
            .find(|slot| self.0.disks.get(*slot).is_none() && !taken(*slot))
            .or_else(|| slots().find(|slot| !taken(*slot) && empty(slot)))
    }

    /// Whether writes to flash, a flush of the origin or a reclaim are under way for a disk.
    pub fn is_busy_with(self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        let mut segments = self.0.segments.table().iter();
        disk.is_some_and(|disk| self.0.origins.is_flushing(disk))
            || segments.any(|(_, segment)| of(segment.disk) && segment.writes > 0)
            || self.0.reclaim.disk().is_some_and(of)
    }

    /// Whether segments of a disk's dirty log are held for it.
    pub fn has_log_segments(self, disk: Option<DiskSlot>) -> bool {
        let mut segments = self.0.segments.table().iter();
        segments.any(|(_, segment)| disk == Some(segment.disk) && segment.phase == Phase::Dirty)
    }
}
