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

use crate::checkpoint::Checkpoint;
use crate::chunks::Content;
use crate::config::Config;
use crate::copies::Copies;
use crate::dirty::Logs;
use crate::disks::DiskTable;
use crate::durability::Origins;
use crate::format::FORMATTED;
use crate::guard::{Guard, holds};
use crate::identity::Identity;
use crate::index::Index;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::limits::FLASH_FAILURES_MAX;
use crate::ports::{Ports, Tag};
use crate::reclaim::Reclaim;
use crate::rest::Resting;
use crate::snapshot::Snapshot;
use crate::table_writes::TableWrites;
use crate::trust::Trust;
use crate::writer::Writer;
use block_io::{Place, Slice};
use flash_format::PAGE_BYTES;
use segment_log::{SegmentLog, Whereabouts};
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

/// Where a block is.
pub enum Location {
    /// On flash, in this slot.
    Flash(FlashSlot),
    /// On its way to flash: here are its bytes.
    Memory(Slice),
    /// Not in the cache.
    Nowhere,
}

/// What lies on a flash.
pub struct Store {
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    /// Where blocks and segments are.
    pub(crate) log: SegmentLog<Index, Content>,
    pub(crate) trust: Trust,
    pub(crate) journal: Journal,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) table_writes: TableWrites,
    pub(crate) disks: DiskTable,
    /// By disk: what its origin may still lose.
    pub(crate) origins: Origins,
    pub(crate) writer: Writer,
    pub(crate) resting: Resting,
    pub(crate) reclaim: Reclaim,
    pub(crate) intake: Intake,
    /// Flash operations that failed since the last one that succeeded.
    pub(crate) failures: u32,
    /// What the origins lack.
    pub(crate) logs: Logs,
}

impl Store {
    /// Where a block is; marks it as referenced.
    #[inline]
    pub fn locate<T: Tag>(
        &mut self,
        ports: &Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
    ) -> Location {
        match self.log.touch(disk, block) {
            Some(slot) => self.bytes_of(ports, slot),
            None => Location::Nowhere,
        }
    }

    /// Where the bytes of a slot are: in memory until they are on flash.
    #[inline]
    pub fn bytes_of<T: Tag>(&self, ports: &Ports<T>, slot: FlashSlot) -> Location {
        let in_memory = match self.log.whereabouts(slot) {
            Whereabouts::Written => None,
            Whereabouts::PerhapsWritten => self.writer.in_memory(ports, &self.log, slot),
            Whereabouts::PerhapsInOpenChunk => self.writer.in_open_chunk(ports, &self.log, slot),
        };
        in_memory.map_or(Location::Flash(slot), Location::Memory)
    }

    /// Whether these are the bytes that were written to a slot.
    #[inline]
    pub fn is_whole(&self, slot: FlashSlot, bytes: &[u8]) -> bool {
        self.writer.is_whole(slot, bytes)
    }

    /// Reads slots that follow each other, to where the caller wants their bytes if it says so. They
    /// stay what they are until [`Store::unpin`] of the first.
    #[inline]
    pub fn read<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        slot: FlashSlot,
        count: u32,
        place: Option<Place>,
        tag: T,
    ) {
        self.log.pin(slot);
        ports.wake_at(ports.now + self.config.flash_timeout);
        let length = count as usize * PAGE_BYTES;
        ports.read(tag, self.identity.geometry.slot_offset(slot), length, place);
    }

    /// Whether what was read into memory that is not ours is what was written, each of its blocks.
    /// If not, nothing is concluded: others write there too.
    ///
    /// # Panics
    /// If the memory is not as long as the slots.
    pub fn is_whole_in<T: Tag>(
        &self,
        ports: &mut Ports<T>,
        slot: FlashSlot,
        count: u32,
        place: &Place,
    ) -> bool {
        assert!(
            place.len() == count as usize * PAGE_BYTES,
            "whole blocks are read into others' memory"
        );
        let page = &mut ports.page[..PAGE_BYTES];
        (0..count).all(|i| {
            place.load(i as usize * PAGE_BYTES, page);
            self.is_whole(slot.advance(i), page) || !holds(Guard::VerifyChecksum)
        })
    }

    /// Whether these pages, which were read from slots that follow each other, are what was written
    /// there: the blocks of a disk from `first` on. Those that are not are given up.
    #[inline]
    pub fn verify<T: Tag>(
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
                ports.damaged(disk, Some(block), self.identity.geometry.slot_offset(slot));
                let (journal, segments) = (&mut self.journal, &mut self.log);
                self.trust
                    .condemn(ports, journal, segments, disk, block, slot);
            }
        }
        whole
    }

    /// A read from this slot has ended.
    #[inline]
    pub fn unpin(&mut self, slot: FlashSlot) {
        self.log.unpin(slot);
    }

    /// What of the clean copies is trusted, or rests until it is.
    pub(crate) fn copies(&mut self) -> (Copies<'_>, &mut Resting) {
        let copies = Copies {
            segments: &mut self.log,
            trust: &mut self.trust,
            journal: &mut self.journal,
            origins: &mut self.origins,
        };
        (copies, &mut self.resting)
    }

    /// The tables as a checkpoint that is written now has them, with the checkpoint itself.
    fn tables(&mut self) -> (Snapshot<'_>, &mut Checkpoint, &TableWrites) {
        let tables = Snapshot {
            geometry: &self.identity.geometry,
            disks: &self.disks,
            segments: &self.log,
            trust: &self.trust,
            journal: &self.journal,
        };
        (tables, &mut self.checkpoint, &self.table_writes)
    }

    /// Whether nothing was ever written to it but what formatting wrote.
    pub fn is_new(&self) -> bool {
        self.identity.incarnation == FORMATTED + 1 && self.log.is_untouched()
    }

    /// Starts what can be started: a commit, a checkpoint, a reclaim.
    pub fn pump<T: Tag>(&mut self, ports: &mut Ports<T>) {
        self.pump_reclaim(ports);
        let (tables, checkpoint, writes) = self.tables();
        writes.checkpoint(ports, checkpoint, &tables);
        if self.intake.is_stopped() {
            self.logs.stop();
        }
        self.logs
            .name_durable(ports, &mut self.journal, &self.disks);
        // An entry is true only after what a recovery has decided, and no entry tells that.
        if self.checkpoint.has_found() {
            self.table_writes.journal(ports, &mut self.journal);
        }
    }

    /// A batch of the journal is durable: what waited for it goes on.
    pub(crate) fn journal_done<T: Tag>(&mut self, ports: &mut Ports<T>) {
        ports.stats.journal_commits += 1;
        for entry in self.journal.batch_durable() {
            self.trust.entry_durable(&self.log, entry);
        }
        for disk in self.logs.by_disk().waiting_for_the_journal() {
            let (logs, mut tables) = self.log_tables();
            logs.release(&mut tables, disk);
            self.push_durability(ports, disk);
            ports.log_moved(disk);
        }
        let durable = self.journal.durable();
        self.logs.journal_durable(ports, durable);
        self.trust.forget_condemned(ports, &mut self.log, durable);
    }

    /// Counts a failed flash operation.
    pub fn failed<T: Tag>(&mut self, ports: &mut Ports<T>) {
        ports.stats.flash_errors += 1;
        self.failures += 1;
        if self.failures >= FLASH_FAILURES_MAX {
            ports.fail("too many flash operations failed");
        }
    }

    /// What waits for time. While the cache is in doubt blocks go on resting: they could not be trusted.
    pub fn tick<T: Tag>(&mut self, ports: &mut Ports<T>, is_in_doubt: bool) {
        let (writer, mut streams) = self.writer();
        writer.tick(ports, &mut streams);
        if !is_in_doubt {
            let (mut copies, resting) = self.copies();
            resting.tick(ports, &mut copies);
        }
        // What is due already is on its way, or goes when the commit in flight has ended.
        if let Some(due) = self.journal.due()
            && due > ports.now
        {
            ports.wake_at(due);
        }
        self.logs.tick(ports);
    }

    /// Bytes of memory, all in.
    pub fn memory_bytes(&self) -> Bytes {
        let bytes = self.log.index().bytes()
            + self.writer.bytes()
            + self.log.bytes()
            + self.trust.bytes()
            + self.resting.bytes()
            + self.disks.bytes()
            + self.origins.bytes()
            + self.logs.by_disk().bytes();
        Bytes::new(bytes as u64)
    }

    /// Asserts the invariants; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        self.log.index().self_check();
        self.log.self_check();
        for entry in self.log.index().iter() {
            assert_eq!(
                self.log.segment_of(entry.slot).disk,
                entry.disk,
                "a block lies in a segment of its disk"
            );
        }
        self.resting.self_check(&self.origins);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, FormatOptions, Purpose, Recovery, format};
    use block_io::{BufPool, FlashDone, FlashOp, FlashVerb};
    use flash_format::{CheckpointPage, SegmentIndex};
    use segment_log::{Source, Step, StreamKey};
    use units::{Bytes, Instant};

    const CAPACITY: Bytes = Bytes::mib(2);

    fn carry_out(device: &[u8], op: FlashOp) -> FlashDone {
        let mut done = FlashDone {
            token: op.token,
            place: None,
            buf: None,
            result: Ok(()),
        };
        if let FlashVerb::Read {
            offset,
            length,
            mut buf,
        } = op.verb
        {
            let bytes = &device[offset.to_usize()..][..length.to_usize()];
            buf[..bytes.len()].copy_from_slice(bytes);
            done.buf = Some(buf);
        }
        done
    }

    /// An empty store, opened from a formatted device.
    fn open() -> (Box<Store>, Ports<()>) {
        let mut device = vec![0; CAPACITY.to_usize()];
        let options = FormatOptions {
            segment_bytes: Bytes::kib(64),
            ..FormatOptions::new(CAPACITY, 1)
        };
        for (offset, bytes) in format(&options).unwrap() {
            device[offset.to_usize()..][..bytes.len()].copy_from_slice(&bytes);
        }
        let (pool, now) = (BufPool::new(), Instant::ZERO);
        let mut recovery = Recovery::new(Config::default(), CAPACITY, None, pool.clone(), now);
        let mut found = loop {
            if let Some(recovered) = recovery.finished() {
                break recovered.unwrap();
            }
            let operations: Vec<FlashOp> = recovery.take_operations().collect();
            for op in operations {
                recovery.flash_done(carry_out(&device, op), now);
            }
        };
        let mut ports = found.ports(pool, now);
        let (mut store, checkpoint) = (found.store, found.checkpoint);
        store.pump(&mut ports);
        while !store.has_checkpoint(checkpoint) {
            let mut effects = Vec::new();
            ports.take_effects(&mut effects);
            for effect in effects {
                let Effect::Flash(op) = effect else {
                    panic!("a checkpoint is on the flash")
                };
                let done = carry_out(&device, op);
                if let (Purpose::Store(own), _) = ports.completed(done.token) {
                    store.completed(&mut ports, own, true, done.buf);
                }
                store.pump(&mut ports);
            }
        }
        (store, ports)
    }

    fn trust(flash: &mut Store, ports: &mut Ports<()>, slot: FlashSlot) {
        let (journal, segments) = (&mut flash.journal, &flash.log);
        flash.trust.trust(ports, journal, segments, slot, 1);
    }

    fn distrust(flash: &mut Store, ports: &mut Ports<()>, slot: FlashSlot) {
        crate::trust::distrust(ports, &mut flash.journal, &flash.log, slot);
    }

    /// Opens a segment for a disk's survivors.
    fn segment_of_next_block(flash: &mut Store, disk: DiskSlot) -> (SegmentIndex, u64) {
        match flash
            .log
            .prepare(StreamKey::of(disk, Source::Survivor), Instant::ZERO)
        {
            Step::Opened {
                segment,
                generation,
            } => (segment, generation),
            other => panic!("a segment is opened, not {other:?}"),
        }
    }

    #[test]
    fn a_distrust_of_an_earlier_use_of_a_segment_leaves_the_later_one_alone() {
        let (mut flash, mut ports) = open();
        let disk = DiskSlot::new(0);
        let (segment, earlier) = segment_of_next_block(&mut flash, disk);
        let slot = flash.identity.geometry.slot(segment, 1);
        trust(&mut flash, &mut ports, slot);
        distrust(&mut flash, &mut ports, slot);
        // The segment is freed and used again while that entry waits for its commit.
        let key = StreamKey::of(disk, Source::Survivor);
        flash.log.close(key).unwrap();
        flash.log.write_ended(segment);
        flash.log.begin_free(segment);
        flash.release(segment);
        let mut reopened = earlier;
        while reopened == earlier {
            let (next, generation) = segment_of_next_block(&mut flash, disk);
            if next == segment {
                reopened = generation;
            } else {
                flash.log.close(key).unwrap();
            }
        }
        assert!(reopened > earlier);
        trust(&mut flash, &mut ports, slot);

        flash.journal.hurry();
        flash.pump(&mut ports);
        flash.journal_done(&mut ports);

        assert!(
            flash.trust.contains(slot),
            "recovery would trust it: a write has to know"
        );
    }

    #[test]
    fn a_distrust_takes_effect_when_it_is_durable_and_not_before() {
        let (mut flash, mut ports) = open();
        let (segment, _) = segment_of_next_block(&mut flash, DiskSlot::new(0));
        let slot = flash.identity.geometry.slot(segment, 1);
        trust(&mut flash, &mut ports, slot);
        distrust(&mut flash, &mut ports, slot);
        flash.journal.hurry();
        flash.pump(&mut ports);
        assert!(flash.trust.contains(slot));
        flash.journal_done(&mut ports);
        assert!(!flash.trust.contains(slot));
    }

    #[test]
    fn a_checkpoint_has_of_trust_what_the_journal_has_durably() {
        let (mut flash, mut ports) = open();
        let (segment, _) = segment_of_next_block(&mut flash, DiskSlot::new(0));
        let slot = flash.identity.geometry.slot(segment, 1);
        let is_trusted = |flash: &mut Store| {
            let geometry = flash.identity.geometry;
            let segments_of = |page| CheckpointPage::segments_of(&geometry, page);
            let holds = |page: &u64| segments_of(*page).contains(&segment.get());
            let page = (0..1000).find(holds).unwrap();
            let CheckpointPage::Segments(entries) = flash.tables().0.page(page) else {
                panic!("the page has segments")
            };
            let first = segments_of(page).start;
            entries[(segment.get() - first) as usize].is_trusted(1)
        };
        let make_durable = |flash: &mut Store, ports: &mut Ports<()>| {
            flash.journal.hurry();
            flash.pump(ports);
            flash.journal_done(ports);
        };

        trust(&mut flash, &mut ports, slot);
        assert!(!is_trusted(&mut flash));
        make_durable(&mut flash, &mut ports);
        assert!(is_trusted(&mut flash));

        distrust(&mut flash, &mut ports, slot);
        assert!(is_trusted(&mut flash));
        make_durable(&mut flash, &mut ports);
        assert!(!is_trusted(&mut flash));
    }
}
