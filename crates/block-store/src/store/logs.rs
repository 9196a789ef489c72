//! Dirty logs of a store: what comes into them, how durable they are, what the origin has of them.

use crate::chunks::{Chunk, OfLog};
use crate::copies::Copies;
use crate::dirty::{DirtyDisk, Seal, Settled};
use crate::durability::Origins;
use crate::guard::{Guard, holds};
use crate::payload::Pages;
use crate::ports::{Payload, Ports, Tag};
use crate::rest::Resting;
use crate::trust::Trust;
use crate::writer::{NoRoom, Streams, Writer};
use dirty_log::RecordNumber;
use flash_format::{Erasure, Position};
use segment_log::{Source, StreamKey};
use units::{BlockIndex, DiskSlot};

/// A view of a store for write-back.
pub struct WriteBack<'a, P: Payload = Pages> {
    writer: &'a mut Writer<P>,
    streams: Streams<'a, P>,
    trust: &'a mut Trust,
    origins: &'a mut Origins,
    resting: &'a mut Resting,
}

impl<P: Payload> super::Store<P> {
    /// Its dirty logs, to change them.
    pub fn write_back(&mut self) -> WriteBack<'_, P> {
        let (segments, journal) = (&mut self.segments, &mut self.journal);
        let (logs, disks) = (&mut self.logs, &mut self.disks);
        WriteBack {
            writer: &mut self.writer,
            streams: Streams::of(&self.intake, logs, segments, journal, disks),
            trust: &mut self.trust,
            origins: &mut self.origins,
            resting: &mut self.resting,
        }
    }
}

impl<'a, P: Payload> WriteBack<'a, P> {
    /// A disk's log, to change it; none if the disk has none.
    pub fn log_mut(self, disk: DiskSlot) -> Option<&'a mut DirtyDisk> {
        self.streams.logs.by_disk_mut().get_mut(disk)
    }

    /// Accepts a block that a guest wrote.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_block<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        page: &P::Page,
    ) -> Result<(), NoRoom> {
        let count = self.origins.write_count(disk);
        self.writer
            .log_block(ports, &mut self.streams, disk, block, count, page)
    }

    /// Accepts an erasure.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_erasure<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        erasure: Erasure,
    ) -> Result<(), NoRoom> {
        self.writer
            .log_erasure(ports, &mut self.streams, disk, erasure)
    }

    /// Gives a disk a dirty log if it has none.
    pub fn give_log(&mut self, disk: DiskSlot) {
        let Streams { logs, tables, .. } = &mut self.streams;
        if logs.by_disk().get(disk).is_none() {
            let entry = tables.disks.get(disk);
            let watermark = entry.map_or(Position::START, |entry| entry.destaged);
            let log = DirtyDisk::new(watermark);
            logs.by_disk_mut().set(disk, Some(log));
        }
    }

    /// The log of a disk takes records of another host, which has the disk. They count if this host gets it in this
    /// period; `None`: it has it.
    pub fn ship_for(&mut self, disk: DiskSlot, epoch: Option<u64>) {
        let Streams { logs, .. } = &mut self.streams;
        if let Some(dirty) = logs.by_disk_mut().get_mut(disk) {
            dirty.set_shipped_for(epoch);
        }
    }

    /// The host that has a disk has brought every record before this number to the origin. What is newer than they
    /// are may not have come, so none of them becomes a clean block here.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub fn drop_before<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        to: RecordNumber,
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        logs.drop_before(ports, tables, disk, to);
    }

    /// Takes a disk's dirty log away.
    pub fn end_log(&mut self, disk: DiskSlot) {
        self.streams.logs.by_disk_mut().set(disk, None);
    }

    /// A guest flushes: ends the interval. Returns the number before which everything has to be
    /// durable before the flush is answered.
    pub fn flush_log<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
    ) -> RecordNumber {
        let Streams { logs, tables, .. } = &mut self.streams;
        let (end, seal) = logs.flush(ports, tables, disk);
        self.seal(ports, disk, seal);
        end
    }

    /// The number before which everything may go to the origin, of what is before `wanted`: it has to be durable here, or
    /// a power cut would leave the origin with what its guest then never wrote. More is made durable.
    pub fn durable_before<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        wanted: RecordNumber,
        hurries: bool,
    ) -> RecordNumber {
        if !holds(Guard::DurableBeforeDestage) {
            return wanted;
        }
        if self.durable(disk) < wanted {
            self.want_durable(ports, disk, wanted, hurries);
        }
        wanted.min(self.durable(disk))
    }

    fn durable(&self, disk: DiskSlot) -> RecordNumber {
        let dirty = self.streams.logs.by_disk().get(disk);
        dirty.map_or(RecordNumber::FIRST, DirtyDisk::durable)
    }

    /// What is to go to the origin has to be durable here: records before this number, but for those
    /// of the open chunk unless there is a hurry.
    fn want_durable<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        to: RecordNumber,
        hurries: bool,
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let seal = logs.want_durable(ports, tables, disk, to, hurries);
        self.seal(ports, disk, seal);
    }

    /// What a recovery has found may not be durable yet, or the tables may not know that it is: both
    /// are mended at once, whether a guest flushes or not.
    pub(crate) fn make_found_durable<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        let logs = self.streams.logs.by_disk().iter();
        let ends: Vec<(DiskSlot, RecordNumber)> = logs
            .map(|(disk, dirty)| (disk, dirty.log().end()))
            .collect();
        for (disk, end) in ends {
            self.want_durable(ports, disk, end, false);
        }
    }

    /// Does what can be done now so that what is wanted becomes durable.
    pub fn push_durability<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let seal = logs.push_durability(ports, tables, disk);
        self.seal(ports, disk, seal);
    }

    /// A chunk of a log has been written.
    pub(super) fn chunk_written<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        chunk: &Chunk<P>,
        of_log: OfLog,
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let seal = logs.chunk_written(ports, tables, chunk.disk, chunk.segment, of_log);
        self.seal(ports, chunk.disk, seal);
    }

    /// A flush of the flash has ended that a log asked for.
    pub(super) fn flush_done<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let seal = logs.flush_done(ports, tables, disk);
        self.seal(ports, disk, seal);
        ports.log_moved(disk);
    }

    /// The journal is durable farther than before.
    pub(super) fn journal_durable<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        for disk in self.streams.logs.by_disk().waiting_for_the_journal() {
            let Streams { logs, tables, .. } = &mut self.streams;
            logs.release(tables, disk);
            self.push_durability(ports, disk);
            ports.log_moved(disk);
        }
        let durable = self.streams.tables.journal.durable();
        self.streams.logs.journal_durable(ports, durable);
    }

    /// Seals the open chunk of a log if it is time.
    fn seal<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, seal: Seal) {
        if seal == Seal::Now {
            let key = StreamKey::of(disk, Source::Dirty);
            self.writer.seal(ports, &mut self.streams, key);
        }
    }

    /// The origin has every record of a disk's log before this number, durably.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub fn settle<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        to: RecordNumber,
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let settled = logs.settle(ports, tables, disk, to);
        self.settled(ports, disk, &settled);
    }

    /// The origin has these records, durably, whatever came before them.
    pub fn settle_some<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        numbers: &[RecordNumber],
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let settled = logs.settle_some(ports, tables, disk, numbers);
        self.settled(ports, disk, &settled);
    }

    fn settled<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        settled: &Settled,
    ) {
        let Streams { logs, tables, .. } = &mut self.streams;
        let mut copies = Copies {
            segments: &mut *tables.segments,
            trust: &mut *self.trust,
            journal: &mut *tables.journal,
            origins: &mut *self.origins,
        };
        self.resting
            .trust_settled(ports, &mut copies, disk, settled);
        logs.release(tables, disk);
    }

    /// Nothing that the log has counts any more.
    pub fn void_log<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let Streams { logs, tables, .. } = &mut self.streams;
        logs.void(ports, tables, disk);
    }

    /// Whether a recovery would find nothing of the log of a disk of which the origin has everything.
    pub fn knows_end_of_log(&mut self, disk: DiskSlot) -> bool {
        let known = self.streams.logs.knows_end(disk);
        if !known {
            self.streams.tables.journal.hurry();
        }
        known
    }
}
