//! Disks under write-back over the simulated store: their dirty logs are the store's, and what brings them to
//! the origins is the daemon's [`Destage`] with pages that are nothing.
//!
//! ```text
//!   write ─► dirty log ─► durable ─► due? ─► batch ─► read, planned ─► written ─► flushed ─► settled
//!             (block_store)            (WriteBack)     (destage)                         clean blocks
//! ```
//!
//! Reads take no time, and an origin takes a write and a flush at once, so a destage never makes reads slow: when a
//! log is due all of it that is durable goes, but for the pauses in which the daemon learns how long reads
//! usually take. No rate is set. The latency model reads afterwards what was done ([`Done`]) and gives it the time
//! that its devices take.
//!
//! A guest's write that finds no room would wait in the daemon. Here all that is dirty goes to the origins then,
//! and a write for which that makes no room is not logged.

mod transfer;

pub use crate::destaged::{Destaged, Done};

use crate::destaged::LogRoom;
use block_store::simulated::{self, Simulated};
use block_store::{DirtyDisk, Nothing, Ports, Store};
use destage::{BatchId, Destage, Need, SampledReads, WriteBack};
use dirty_log::{ERASE_BLOCKS_MAX, Found};
use flash_format::{Erasure, ErasureKind};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant};

/// How a block was cached that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// Clean.
    Clean,
    /// The origin lacked it.
    Dirty,
    /// It was not.
    Absent,
}

/// A disk under write-back.
struct Disk {
    slot: DiskSlot,
    settings: WriteBack,
    destage: Destage<()>,
    /// When its guest asked for something last.
    asked_at: Instant,
    /// Blocks written since something was settled.
    written: u64,
}

/// Disks under write-back. See the module's header.
pub(crate) struct Disks {
    /// By slot: its place in `list`.
    places: Vec<Option<u16>>,
    list: Vec<Disk>,
    /// How much all dirty logs may take.
    room: Bytes,
    /// By number of a block: where it lies on its disk.
    blocks: Vec<u64>,
    flash_reads: SampledReads,
    done: Vec<Done>,
}

impl Disks {
    /// No disk has written yet, to a flash of this size.
    pub(crate) fn on(flash: Bytes) -> Self {
        Self {
            places: Vec::new(),
            list: Vec::new(),
            room: WriteBack::room_on(flash),
            blocks: Vec::new(),
            flash_reads: SampledReads::default(),
            done: Vec::new(),
        }
    }

    /// The blocks of a request lie beside each other, from `first`. What is known already stays.
    pub(crate) fn note(&mut self, first: BlockIndex, keys: &[u32]) {
        for (block, key) in (first.get()..).zip(keys) {
            // New numbers are larger than all before.
            if *key as usize >= self.blocks.len() {
                self.blocks.resize(*key as usize, 0);
                self.blocks.push(block);
            }
        }
    }

    /// A guest reads from flash, which takes no time here.
    pub(crate) fn flash_was_read(&mut self) {
        if !self.list.is_empty() {
            self.flash_reads.took(Duration::ZERO, || false);
        }
    }

    /// Bytes of memory, those of the logs apart.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<u64>() + self.list.capacity() * size_of::<Disk>()
    }

    /// Blocks that the origins lack.
    pub(crate) fn dirty_blocks(&self, store: &Store<Nothing>) -> u32 {
        let logs = self
            .list
            .iter()
            .filter_map(|of| store.dirty_logs().get(of.slot));
        let bytes: u64 = logs.map(|dirty| dirty.log().distinct().get()).sum();
        u32::try_from(bytes / BLOCK_BYTES).expect("each has a slot, which is a 32-bit number")
    }

    /// How long the log of a disk may be; none of a disk that was never written.
    pub(crate) fn room(&self, disk: DiskSlot) -> Option<LogRoom> {
        let of = &self.list[self.place(disk)?];
        Some(LogRoom {
            disk,
            records: (of.settings.dirty_max.get() / BLOCK_BYTES).max(1),
        })
    }

    fn place(&self, disk: DiskSlot) -> Option<usize> {
        self.places.get(disk.index()).copied()?.map(usize::from)
    }

    /// Brings a disk under write-back that is not.
    fn attach(&mut self, store: &mut Store<Nothing>, disk: DiskSlot, now: Instant) {
        if self.place(disk).is_some() {
            return;
        }
        if self.places.len() <= disk.index() {
            self.places.resize(disk.index() + 1, None);
        }
        self.places[disk.index()] = u16::try_from(self.list.len()).ok();
        simulated::give_log(store, disk);
        // The daemon looks for room when a disk is attached, and the earlier ones keep what they have.
        let disks = self.list.len() as u64 + 1;
        let dirty_max = WriteBack::share_of(self.room, disks).min(self.room);
        self.list.push(Disk {
            slot: disk,
            settings: WriteBack {
                dirty_max,
                ..WriteBack::default()
            },
            destage: Destage::new(BatchId::new(0), now),
            asked_at: now,
            written: 0,
        });
    }
}

/// Disks under write-back with the store that has their logs, for one event.
pub struct Back<'a> {
    disks: &'a mut Disks,
    store: &'a mut Store<Nothing>,
    ports: &'a mut Ports<Simulated>,
    now: Instant,
}

/// Whether a disk's origin lacks a block, or what was erased of it.
#[inline]
pub(crate) fn is_dirty(store: &Store<Nothing>, disk: DiskSlot, block: BlockIndex) -> bool {
    store.dirty_logs().find(disk, block) != Found::Clean
}

impl<'a> Back<'a> {
    pub(crate) fn new(
        disks: &'a mut Disks,
        store: &'a mut Store<Nothing>,
        ports: &'a mut Ports<Simulated>,
        now: Instant,
    ) -> Self {
        Self {
            disks,
            store,
            ports,
            now,
        }
    }

    /// A guest asks a disk for something.
    pub fn asked(&mut self, disk: DiskSlot) {
        if let Some(at) = self.disks.place(disk) {
            self.disks.list[at].asked_at = self.now;
        }
    }

    /// A guest reads from a disk's origin, which takes no time here.
    pub fn origin_was_read(&mut self, disk: DiskSlot) {
        if let Some(at) = self.disks.place(disk) {
            self.disks.list[at].destage.read_took(Duration::ZERO);
        }
    }

    /// Takes out what destages have done since the last time.
    pub fn take_done(self) -> std::vec::Drain<'a, Done> {
        self.disks.done.drain(..)
    }

    /// A guest writes a block: it goes to the disk's log. How it was cached; none if there is no room in the log.
    pub fn log_block(&mut self, disk: DiskSlot, key: u32) -> Option<Logged> {
        let block = BlockIndex::new(key.into());
        self.disks.attach(self.store, disk, self.now);
        let was_dirty = matches!(self.store.dirty_logs().find(disk, block), Found::Dirty(_));
        self.log(disk, |store, ports| {
            let mut log = store.write_back();
            log.log_block(ports, disk, block, &&()).is_ok()
        })
        .then(|| {
            let was_clean = self.take_older_copy(disk, block);
            match (was_clean, was_dirty) {
                (true, _) => Logged::Clean,
                (false, true) => Logged::Dirty,
                (false, false) => Logged::Absent,
            }
        })
    }

    /// A guest erases blocks. Those that follow each other by number are one record.
    pub fn log_erasure(&mut self, disk: DiskSlot, keys: &[u32]) {
        self.disks.attach(self.store, disk, self.now);
        let follows = |one: &u32, other: &u32| one + 1 == *other;
        for run in keys.chunk_by(follows) {
            for part in run.chunks(ERASE_BLOCKS_MAX as usize) {
                let (Some(first), Some(last)) = (part.first(), part.last()) else {
                    continue;
                };
                let erasure = Erasure {
                    first: BlockIndex::new((*first).into()),
                    blocks: last - first + 1,
                    kind: ErasureKind::Discard,
                };
                self.log(disk, |store, ports| {
                    let mut log = store.write_back();
                    log.log_erasure(ports, disk, erasure).is_ok()
                });
                for key in part {
                    self.take_older_copy(disk, BlockIndex::new((*key).into()));
                }
            }
        }
    }

    /// The clean copy of a block counts no longer. True if there was one.
    fn take_older_copy(&mut self, disk: DiskSlot, block: BlockIndex) -> bool {
        let taken = self.store.take_for_write(self.ports, disk, block);
        !matches!(taken, block_store::Taken::NotCached)
    }

    /// Accepts a record, if need be when room has been made.
    fn log(
        &mut self,
        disk: DiskSlot,
        mut accept: impl FnMut(&mut Store<Nothing>, &mut Ports<Simulated>) -> bool,
    ) -> bool {
        let Some(at) = self.disks.place(disk) else {
            return false;
        };
        let settings = self.disks.list[at].settings;
        let mut accepts = |back: &mut Self| {
            let log = back.store.dirty_logs().get(disk).map(DirtyDisk::log);
            let has_room = log.is_some_and(|log| settings.has_room(log.logged()));
            has_room && accept(back.store, back.ports)
        };
        if accepts(self) {
            return true;
        }
        for need in [Need::Room, Need::All] {
            for place in 0..self.disks.list.len() {
                self.advance_at(place, need);
            }
            self.settle();
            if accepts(self) {
                return true;
            }
        }
        false
    }

    /// A guest flushes a disk.
    pub fn flush(&mut self, disk: DiskSlot) {
        if self.disks.place(disk).is_some() {
            self.store.write_back().flush_log(self.ports, disk);
        }
    }

    /// Does what can be done for a disk that was written, if one was, and for those of which something has become
    /// durable. Nobody looks at a log because its disk was read.
    pub(crate) fn advance(&mut self, written: Option<DiskSlot>) {
        self.settle();
        if let Some(at) = written.and_then(|disk| self.disks.place(disk)) {
            self.advance_at(at, Need::Idle);
        }
        self.advance_moved();
    }

    /// Time has passed: every disk is looked at.
    pub(crate) fn tick(&mut self) {
        for at in 0..self.disks.list.len() {
            self.advance_at(at, Need::Idle);
        }
        self.advance_moved();
    }

    fn advance_moved(&mut self) {
        while self.ports.has_moved() {
            let mut moved: Vec<DiskSlot> = self.ports.take_moved().collect();
            moved.sort_unstable_by_key(|disk| disk.index());
            moved.dedup();
            for disk in moved {
                if let Some(at) = self.disks.place(disk) {
                    self.advance_at(at, Need::Idle);
                }
            }
        }
    }

    /// What was asked of the flash ends. False if that was nothing.
    fn settle(&mut self) -> bool {
        simulated::settle(self.store, self.ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::simulated_store::SimulatedStore;
    use policy::reclaim::Kind;

    const DISK: DiskSlot = DiskSlot::new(0);

    fn store(blocks: u32) -> SimulatedStore {
        let store = SimulatedStore::new(blocks, Bytes::kib(64), Kind::Clock).unwrap();
        store.under_write_back()
    }

    /// Writes these blocks, which lie in the same order on their disk.
    fn write(store: &mut SimulatedStore, keys: &[u32]) -> Vec<Option<Logged>> {
        store.note_places(DISK, BlockIndex::new(0), keys);
        let mut back = store.back().unwrap();
        back.asked(DISK);
        let logged = keys.iter().map(|key| back.log_block(DISK, *key)).collect();
        store.advance_log(Some(DISK), &mut |_, _| {});
        logged
    }

    /// What went to the origin, and what it did not need.
    fn done(store: &mut SimulatedStore) -> Vec<Destaged> {
        let done = store.back().unwrap().take_done().map(|done| done.what);
        done.filter(|what| matches!(what, Destaged::Run(_) | Destaged::Coalesced(_)))
            .collect()
    }

    fn pass(store: &mut SimulatedStore, seconds: u64) {
        store.advance(Instant::ZERO + Duration::from_secs(seconds));
    }

    #[test]
    fn an_idle_disk_has_each_block_once_at_its_origin() {
        let mut store = store(1024);
        assert_eq!(write(&mut store, &[0, 1, 2]), [Some(Logged::Absent); 3]);
        assert_eq!(write(&mut store, &[1, 2]), [Some(Logged::Dirty); 2]);
        assert_eq!((store.dirty_blocks(), store.cached_blocks()), (3, 0));
        assert!(store.touch(DISK, 1) && store.contains(DISK, 0));
        pass(&mut store, 1);
        assert_eq!(done(&mut store), [], "a guest may write again");
        pass(&mut store, 3);
        let once = [Destaged::Run(3), Destaged::Coalesced(2)];
        assert_eq!(done(&mut store), once);
        assert_eq!((store.dirty_blocks(), store.cached_blocks()), (0, 3));
        assert_eq!(store.written().dirty, 5 * BLOCK_BYTES);
        assert_eq!(write(&mut store, &[2]), [Some(Logged::Clean)]);
    }

    #[test]
    fn what_a_flush_lies_between_goes_twice() {
        let mut store = store(1024);
        write(&mut store, &[0]);
        store.back().unwrap().flush(DISK);
        store.advance_log(Some(DISK), &mut |_, _| {});
        write(&mut store, &[0]);
        pass(&mut store, 5);
        assert_eq!(done(&mut store), [Destaged::Run(1); 2]);
    }

    #[test]
    fn an_erased_block_does_not_go_and_is_read_as_zeroes() {
        let mut store = store(1024);
        write(&mut store, &[0, 1]);
        store.back().unwrap().log_erasure(DISK, &[1]);
        store.advance_log(Some(DISK), &mut |_, _| {});
        assert!(store.touch(DISK, 1), "the origin has it still");
        pass(&mut store, 5);
        let one = [Destaged::Run(1), Destaged::Coalesced(1)];
        assert_eq!(done(&mut store), one);
        assert!(store.touch(DISK, 0) && !store.touch(DISK, 1));
    }

    #[test]
    fn neighbours_by_place_are_one_write_whatever_their_numbers() {
        let mut store = store(1024);
        for (key, place) in (0..).zip([7, 30, 6, 31, 8]) {
            store.note_places(DISK, BlockIndex::new(place), &[key]);
        }
        write(&mut store, &[0, 1, 2, 3, 4]);
        pass(&mut store, 5);
        assert_eq!(done(&mut store), [Destaged::Run(3), Destaged::Run(2)]);
    }

    #[test]
    fn a_disk_that_writes_for_ever_finds_room() {
        for disks in [1, 3] {
            let mut store = store(512);
            for key in 0..4000 {
                let disk = DiskSlot::new(u16::try_from(key % disks).unwrap());
                let mut back = store.back().unwrap();
                assert!(back.log_block(disk, key).is_some(), "block {key}");
                store.advance_log(Some(disk), &mut |_, _| {});
            }
            let blocks = |of: Destaged| match of {
                Destaged::Run(blocks) => blocks,
                _ => 0,
            };
            let destaged: u32 = done(&mut store).into_iter().map(blocks).sum();
            assert_eq!(destaged + store.dirty_blocks(), 4000);
            store.self_check();
        }
    }
}
