//! Everything about the blocks on flash: where they are, how they get there and leave again.
//!
//! ```text
//!            append               chunk written         journal commit
//!  fill ───► open chunk ────────► slots on flash ─────► slots trusted
//!  rewrite      │ (RAM)               │ rest untrusted, trust_delay later ─┘
//!  survivor ◄── reclaim ◄─ closed segment ◄─ footer ◄─ segment full
//! ```
//!
//! Invariants, checked by [`Store::self_check`]:
//!
//! - A slot that may be trusted on flash is in the index, or a write in flight is waiting for
//!   it to be distrusted, or its segment is about to be freed. So whoever changes a block at
//!   the origin knows every copy that a recovery could find.
//! - A block has one entry in the index, and at most one trusted slot outside of a reclaim.
//! - A segment's `live` is the number of index entries that point into it.

mod clean;
mod completions;
mod contents;
mod disks;
mod facts;
mod logs;
mod reclaim;
mod residents;
pub mod simulated;
#[cfg(test)]
mod tests;

use crate::checkpoint::Checkpoint;
use crate::chunks::Segments;
use crate::config::Config;
use crate::copies::Copies;
use crate::dirty::{DirtyDisks, Logs};
use crate::disks::DiskTable;
use crate::durability::Origins;
use crate::guard::{Guard, holds};
use crate::identity::Identity;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::payload::Pages;
use crate::ports::{Payload, Ports, Tag};
use crate::reclaim::Reclaim;
use crate::rest::Resting;
use crate::snapshot::Snapshot;
use crate::table_writes::TableWrites;
use crate::trust::Trust;
use crate::writer::{Streams, Writer};
use block_io::{Place, Slice};
pub use clean::Taken;
pub use completions::Progress;
pub use contents::Contents;
use dirty_log::Found as FoundInLog;
pub use disks::{Freeing, Shares, TableChanges};
pub use facts::Facts;
use flash_format::PAGE_BYTES;
pub use logs::WriteBack;
pub use residents::{Condemning, Resident, Residents, SegmentUse};
use segment_log::Whereabouts;
use units::{BlockIndex, DiskSlot, FlashSlot};

/// Where a block is.
pub enum Location {
    /// On flash, in this slot.
    Flash(FlashSlot),
    /// On its way to flash: here are its bytes, decrypted.
    Memory(Slice),
    /// Not in the cache.
    Nowhere,
}

/// What lies on a flash.
pub struct Store<P: Payload = Pages> {
    config: Config,
    identity: Identity,
    /// Where blocks and segments are.
    segments: Segments<P>,
    trust: Trust,
    journal: Journal,
    checkpoint: Checkpoint,
    table_writes: TableWrites,
    disks: DiskTable,
    /// By disk: what its origin may still lose.
    origins: Origins,
    writer: Writer<P>,
    resting: Resting,
    reclaim: Reclaim,
    intake: Intake,
    /// Flash operations that failed since the last one that succeeded.
    failures: u32,
    /// What the origins lack.
    logs: Logs,
}

/// What a store is made of that a recovery has found.
pub(crate) struct Found<P: Payload> {
    pub(crate) identity: Identity,
    pub(crate) segments: Segments<P>,
    /// What is known of the block in each slot.
    pub(crate) payload: P,
    pub(crate) trust: Trust,
    pub(crate) disks: DiskTable,
    pub(crate) logs: DirtyDisks,
    pub(crate) checkpoint: Checkpoint,
    /// The first page of the journal that is written.
    pub(crate) journal_next: u64,
}

impl<P: Payload> Store<P> {
    /// The store of what was found. Its checkpoint is not complete yet.
    pub(crate) fn new(found: Found<P>, config: Config) -> Self {
        let Found { identity, .. } = found;
        let geometry = &identity.geometry;
        Self {
            segments: found.segments,
            trust: found.trust,
            journal: Journal::new(geometry, config.write_delay, found.journal_next),
            checkpoint: found.checkpoint,
            table_writes: TableWrites::new(identity, config.flash_timeout),
            disks: found.disks,
            origins: Origins::default(),
            writer: Writer::new(identity, &config, found.payload),
            resting: Resting::new(geometry, &config),
            reclaim: Reclaim::new(identity, &config),
            intake: Intake::default(),
            failures: 0,
            logs: Logs::new(found.logs, config.retained_places, config.flash_timeout),
            config,
            identity,
        }
    }

    /// What of the clean copies is trusted, or rests until it is.
    fn copies(&mut self) -> (Copies<'_, P>, &mut Resting) {
        let copies = Copies {
            segments: &mut self.segments,
            trust: &mut self.trust,
            journal: &mut self.journal,
            origins: &mut self.origins,
        };
        (copies, &mut self.resting)
    }

    /// What is on its way to flash, and what it is written to.
    fn writer(&mut self) -> (&mut Writer<P>, Streams<'_, P>) {
        let (segments, journal) = (&mut self.segments, &mut self.journal);
        let (logs, disks) = (&mut self.logs, &mut self.disks);
        let streams = Streams::of(&self.intake, logs, segments, journal, disks);
        (&mut self.writer, streams)
    }

    /// The tables as a checkpoint that is written now has them, with the checkpoint itself.
    fn tables(&mut self) -> (Snapshot<'_, P>, &mut Checkpoint, &TableWrites) {
        let tables = Snapshot {
            geometry: &self.identity.geometry,
            disks: &self.disks,
            segments: &self.segments,
            trust: &self.trust,
            journal: &self.journal,
        };
        (tables, &mut self.checkpoint, &self.table_writes)
    }

    /// Starts what can be started: a commit, a checkpoint, a reclaim.
    pub fn pump<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        if !(self.reclaim.is_idle() && self.segments.has_enough()) {
            self.reclaiming().pump(ports);
        }
        if self.checkpoint.is_due(&self.journal) {
            let (tables, checkpoint, writes) = self.tables();
            writes.checkpoint(ports, checkpoint, &tables);
        }
        if self.intake.is_stopped() {
            self.logs.stop();
        }
        self.logs
            .name_durable(ports, &mut self.journal, &self.disks);
        // An entry is true only after what a recovery has decided, and no entry tells that.
        if self.journal.goes(ports.now()) && self.checkpoint.has_found() {
            self.table_writes.journal(ports, &mut self.journal);
        }
    }

    /// What waits for time. While the cache is in doubt blocks go on resting: they could not be trusted.
    pub fn tick<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, is_in_doubt: bool) {
        let (writer, mut streams) = self.writer();
        writer.tick(ports, &mut streams);
        if !is_in_doubt {
            let (mut copies, resting) = self.copies();
            resting.tick(ports, &mut copies);
        }
        // What is due already is on its way, or goes when the commit in flight has ended.
        if let Some(due) = self.journal.due()
            && due > ports.now()
        {
            ports.wake_at(due);
        }
        self.logs.tick(ports);
    }

    /// Asserts the invariants; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        let disk_of = |slot| self.segments.table().segment_of(slot).disk;
        P::check(self.segments.index(), disk_of);
        self.segments.self_check();
        self.resting.self_check(&self.origins);
    }
}

/// What only a store has that keeps bytes.
impl Store {
    /// Where a block is; marks it as referenced.
    #[inline]
    pub fn locate<T: Tag<Payload = Pages>>(
        &mut self,
        ports: &Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Location {
        match self.segments.touch(disk, block) {
            Some(slot) => self.bytes_of(ports, slot),
            None => Location::Nowhere,
        }
    }

    /// Where the bytes of a slot are: in memory until they are on flash.
    #[inline]
    pub fn bytes_of<T: Tag<Payload = Pages>>(&self, ports: &Ports<T>, slot: FlashSlot) -> Location {
        let in_memory = match self.segments.table().whereabouts(slot) {
            Whereabouts::Written => None,
            Whereabouts::PerhapsWritten => self.writer.in_memory(ports, &self.segments, slot),
            Whereabouts::PerhapsInOpenChunk => {
                self.writer.in_open_chunk(ports, &self.segments, slot)
            }
        };
        in_memory.map_or(Location::Flash(slot), Location::Memory)
    }

    /// Whether these are the bytes that were written to a slot.
    #[inline]
    pub fn is_whole(&self, slot: FlashSlot, bytes: &[u8]) -> bool {
        self.writer.payload().is_whole(slot, bytes)
    }

    /// Reads slots that follow each other, to where the caller wants their bytes if it says so. They
    /// stay what they are until [`Store::unpin`] of the first.
    #[inline]
    pub fn read<T: Tag<Payload = Pages>>(
        &mut self,
        ports: &mut Ports<T>,
        slot: FlashSlot,
        count: u32,
        place: Option<Place>,
        tag: T,
    ) {
        self.segments.pin(slot);
        ports.wake_at(ports.now() + self.config.flash_timeout);
        let length = count as usize * PAGE_BYTES;
        ports.read(tag, self.identity.geometry.slot_offset(slot), length, place);
    }

    /// Whether what was read into memory that is not ours is what was written, each of its blocks.
    /// If not, nothing is concluded: others write there too. `look` sees the copy of each block that is.
    ///
    /// # Panics
    /// If the memory is not as long as the slots.
    pub fn is_whole_in<T: Tag<Payload = Pages>>(
        &self,
        ports: &mut Ports<T>,
        slot: FlashSlot,
        count: u32,
        place: &Place,
        mut look: impl FnMut(u32, &[u8]),
    ) -> bool {
        assert!(
            place.len() == count as usize * PAGE_BYTES,
            "whole blocks are read into others' memory"
        );
        let page = ports.page();
        (0..count).all(|i| {
            place.load(i as usize * PAGE_BYTES, page);
            let is_whole = self.is_whole(slot.advance(i), page) || !holds(Guard::VerifyChecksum);
            if is_whole {
                look(i, page);
            }
            is_whole
        })
    }

    /// Whether these pages, which were read from slots that follow each other, are what was written
    /// there: the blocks of a disk from `first` on. Those that are not are given up.
    #[inline]
    pub fn verify<T: Tag<Payload = Pages>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        first: BlockIndex,
        slot: FlashSlot,
        pages: &[u8],
    ) -> bool {
        let mut whole = true;
        for (i, page) in (0..).zip(pages.chunks_exact(PAGE_BYTES)) {
            let slot = slot.advance(i);
            if !self.is_whole(slot, page) && holds(Guard::VerifyChecksum) {
                whole = false;
                let block = first.advance(u64::from(i));
                Condemning::from(&mut *self).copy(ports, disk, block, slot);
            }
        }
        whole
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
        let count = self.facts().written_run(disk, first, slot, most);
        for i in 1..count {
            self.segments.touch(disk, first.advance(u64::from(i)));
        }
        count
    }

    /// The same of records of the disk's dirty log.
    pub fn dirty_run<T: Tag<Payload = Pages>>(
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
                || self.logs.by_disk().find(disk, block) != FoundInLog::Dirty(next)
                || matches!(self.bytes_of(ports, next), Location::Memory(_))
            {
                break;
            }
            count += 1;
        }
        count
    }

    /// A read from this slot has ended.
    #[inline]
    pub fn unpin(&mut self, slot: FlashSlot) {
        self.segments.unpin(slot);
    }
}
