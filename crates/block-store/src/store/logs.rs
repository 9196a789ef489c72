//! What a store does with dirty logs: their durability, and what the origin has of them.

use super::Store;
use crate::dirty::{DirtyDisk, Seal, Settled};
use crate::ports::{Ports, Tag};
use crate::writer::NoRoom;
use block_io::{Buf, PAGE_BYTES, Slice};
use dirty_log::What;
use flash_format::{Erasure, Position};
use segment_log::{Source, StreamKey};
use units::{BlockIndex, DiskSlot};

impl Store {
    /// Accepts a block that a guest wrote.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_block<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        bytes: &Slice,
    ) -> Result<(), NoRoom> {
        let count = self.origins.write_count(disk);
        let (writer, mut streams) = self.writer();
        writer.log_block(ports, &mut streams, disk, block, count, bytes)
    }

    /// Accepts an erasure.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_erasure<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        erasure: Erasure,
    ) -> Result<(), NoRoom> {
        let (writer, mut streams) = self.writer();
        writer.log_erasure(ports, &mut streams, disk, erasure)
    }

    /// Gives a disk a dirty log if it has none.
    pub fn give_log(&mut self, disk: DiskSlot) {
        if self.logs.by_disk().get(disk).is_none() {
            let entry = self.disks.get(disk);
            let watermark = entry.map_or(Position::START, |entry| entry.destaged);
            let log = DirtyDisk::new(watermark);
            self.logs.by_disk_mut().set(disk, Some(log));
        }
    }

    /// Takes a disk's dirty log away.
    pub fn end_log(&mut self, disk: DiskSlot) {
        self.logs.by_disk_mut().set(disk, None);
    }

    /// A guest flushes: ends the interval. Returns the number before which everything has to be
    /// durable before the flush is answered.
    pub fn flush_log<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) -> u64 {
        let (logs, mut tables) = self.log_tables();
        let (end, seal) = logs.flush(ports, &mut tables, disk);
        self.seal_log(ports, disk, seal);
        end
    }

    /// What is to go to the origin has to be durable here: records before this number, but for those
    /// of the open chunk unless there is a hurry.
    pub fn want_durable<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        to: u64,
        hurries: bool,
    ) {
        let (logs, mut tables) = self.log_tables();
        let seal = logs.want_durable(ports, &mut tables, disk, to, hurries);
        self.seal_log(ports, disk, seal);
    }

    /// What a recovery has found may not be durable yet, or the tables may not know that it is: both
    /// are mended at once, whether a guest flushes or not.
    pub(crate) fn make_found_durable<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let logs = self.logs.by_disk().iter();
        let ends: Vec<(DiskSlot, u64)> = logs
            .map(|(disk, dirty)| (disk, dirty.log().end()))
            .collect();
        for (disk, end) in ends {
            self.want_durable(ports, disk, end, false);
        }
    }

    /// Does what can be done now so that what is wanted becomes durable.
    pub fn push_durability<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let (logs, mut tables) = self.log_tables();
        let seal = logs.push_durability(ports, &mut tables, disk);
        self.seal_log(ports, disk, seal);
    }

    /// Seals the open chunk of a dirty log if it is time.
    pub(super) fn seal_log<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, seal: Seal) {
        if seal == Seal::Now {
            let (writer, mut streams) = self.writer();
            writer.seal(ports, &mut streams, StreamKey::of(disk, Source::Dirty));
        }
    }

    /// The origin has every record of a disk's log before this number, durably.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub fn settle<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, to: u64) {
        let (logs, mut tables) = self.log_tables();
        let settled = logs.settle(ports, &mut tables, disk, to);
        self.settled(ports, disk, &settled);
    }

    /// The origin has these records, durably, whatever came before them.
    pub fn settle_some<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, numbers: &[u64]) {
        let (logs, mut tables) = self.log_tables();
        let settled = logs.settle_some(ports, &mut tables, disk, numbers);
        self.settled(ports, disk, &settled);
    }

    fn settled<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, settled: &Settled) {
        let (mut copies, resting) = self.copies();
        resting.trust_settled(ports, &mut copies, disk, settled);
        let (logs, mut tables) = self.log_tables();
        logs.release(&mut tables, disk);
    }

    /// Nothing that the log has counts any more.
    pub fn void_log<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let (logs, mut tables) = self.log_tables();
        logs.void(ports, &mut tables, disk);
    }

    /// Whether a recovery would find nothing of the log of a disk of which the origin has everything.
    pub fn knows_end_of_log(&mut self, disk: DiskSlot) -> bool {
        let known = self.logs.knows_end(disk);
        if !known {
            self.journal.hurry();
        }
        known
    }

    /// The bytes of a record of a disk's dirty log that lies like this on flash.
    pub fn shown_record<T: Tag>(
        &self,
        ports: &Ports<T>,
        disk: DiskSlot,
        number: u64,
        lies: Slice,
    ) -> Slice {
        match self.block_of_record(disk, number) {
            Some(block) => self.writer.ciphers().shown(ports, disk, block, lies),
            None => lies,
        }
    }

    /// Which block a record of a disk's dirty log holds; none if it is an erasure.
    pub fn block_of_record(&self, disk: DiskSlot, number: u64) -> Option<BlockIndex> {
        let record = self
            .logs
            .by_disk()
            .get(disk)
            .map(|dirty| dirty.log().record(number));
        match record.map(|record| record.what) {
            Some(What::Data { block, .. }) => Some(block),
            Some(What::Erasure(_)) | None => None,
        }
    }

    /// Decrypts a run of a disk's blocks.
    #[inline]
    pub fn show(&self, disk: DiskSlot, first: BlockIndex, buf: &mut Buf, blocks: u32) {
        let pages = &mut buf[..blocks as usize * PAGE_BYTES];
        self.writer.ciphers().show(disk, first, pages);
    }
}
