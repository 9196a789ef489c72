//! The daemon's block store on a flash that keeps nothing: what the daemon would do with a stream of blocks.
//!
//! ```text
//!   read ─┬─ cached: mark it            write ─► forget ─► distrust, if trusted ─► append again
//!         └─ append, enter                                                        (or not)
//!             └─ chunk full ─► trust its fills     segment full ─► reclaim while segments run short
//! ```
//!
//! [`SimulatedStore`] drives a [`Store`] of blocks that are [`Nothing`] as the daemon's cache does when every
//! operation of flash and origin ends before the next request. Two things depend on how requests meet in
//! time, and stand here at their worst: each request that has to distrust copies pays for a commit
//! of its own, which the daemon shares among the requests of one flash write's duration; and the
//! origin is taken to be flushed by the guest after each write, so that what was fetched after a
//! write is trusted at once.
//!
//! Blocks are numbered from zero over all disks. Memory: 4 bytes for each number, and 4 1/8 bytes for each
//! block of capacity.

mod runs;

use super::neighbours::Neighbours;
use super::write_back::{Back, Disks, is_dirty};
use crate::destaged::LogRoom;
use block_store::simulated::{self, Simulated};
use block_store::{Config, Facts, FlashWritten, Nothing, Ports, Shares, Stats, Store, Taken};
use flash_format::{FormatError, Geometry};
use policy::reclaim::Kind;
use segment_log::{Dense, Source};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant};

/// No operation is late.
const FLASH_TIMEOUT: Duration = Duration::from_secs(1 << 32);

/// The blocks that the request at hand has withdrawn.
#[derive(Clone, Copy)]
struct Withdrawn {
    disk: DiskSlot,
    first: u32,
    last: u32,
    /// One of them was trusted.
    commits: bool,
}

/// Such a store. See the module's header.
pub struct SimulatedStore {
    store: Store<Nothing>,
    ports: Ports<Simulated>,
    now: Instant,
    neighbours: Neighbours,
    withdrawn: Option<Withdrawn>,
    /// Somebody takes what is written ([`SimulatedStore::take_written`]).
    notes_writes: bool,
    /// Kept for its memory between requests.
    were_cached: Vec<bool>,
    /// Its disks, if they are under write-back.
    back: Option<Box<Disks>>,
}

impl SimulatedStore {
    /// An empty store of `blocks` pages of flash, its headers and footers included, in segments of
    /// `segment_bytes`.
    ///
    /// # Errors
    /// [`FormatError::SegmentSize`], [`FormatError::TooSmall`] if it would not have eight
    /// segments, and [`FormatError::TooLarge`] beyond [`Dense::SLOTS_MAX`].
    pub fn new(blocks: u32, segment_bytes: Bytes, kind: Kind) -> Result<Self, FormatError> {
        let bytes = |slots: u32| Bytes::new(u64::from(slots) * BLOCK_BYTES);
        if blocks > Dense::SLOTS_MAX {
            return Err(FormatError::TooLarge {
                most: bytes(Dense::SLOTS_MAX),
                present: bytes(blocks),
            });
        }
        let geometry = Geometry::of_slots(blocks, segment_bytes)?;
        Ok(Self::on(geometry, kind))
    }

    /// An empty store on a device with this layout.
    pub fn on(geometry: Geometry, kind: Kind) -> Self {
        let config = Config {
            flash_timeout: FLASH_TIMEOUT,
            write_buffer: Bytes::new(u64::MAX),
            reclaim: kind,
            ..Config::default()
        };
        let (store, ports) = simulated::empty(geometry, config);
        Self {
            store,
            ports,
            now: Instant::ZERO,
            neighbours: Neighbours::default(),
            withdrawn: None,
            notes_writes: false,
            were_cached: Vec::new(),
            back: None,
        }
    }

    /// The same store with every disk under write-back, with the daemon's own settings: each dirty log has the
    /// share of the flash that `auto` gives.
    #[must_use]
    pub fn under_write_back(mut self) -> Self {
        let geometry = self.store.facts().geometry();
        let flash = Bytes::new(geometry.slots() * BLOCK_BYTES);
        self.back = Some(Box::new(Disks::on(flash)));
        self
    }

    /// Its disks, if they are under write-back.
    #[inline]
    pub fn back(&mut self) -> Option<Back<'_>> {
        let disks = self.back.as_mut()?;
        Some(Back::new(disks, &mut self.store, &mut self.ports, self.now))
    }

    /// Bytes written to flash so far, by cause. Blocks in open chunks are not written yet.
    #[inline]
    pub fn written(&self) -> FlashWritten {
        self.ports.stats().flash_written
    }

    /// Bytes of journal pages and checkpoints written so far.
    #[inline]
    pub fn journal_written(&self) -> u64 {
        let written = &self.ports.stats().flash_written;
        written.journal + written.checkpoint
    }

    /// Notes from now on whose segments are written, for [`SimulatedStore::take_written`].
    pub fn note_writes(&mut self) {
        self.notes_writes = true;
    }

    /// Calls `each` with every chunk and footer written since the last call, and whose it is.
    /// Nothing if [`SimulatedStore::note_writes`] was not called.
    #[inline]
    pub fn take_written(&mut self, mut each: impl FnMut(DiskSlot, FlashWritten)) {
        for (disk, written) in self.ports.take_written() {
            if let Some(disk) = disk {
                each(disk, written);
            }
        }
    }

    /// What else it did so far.
    #[inline]
    pub fn stats(&self) -> &Stats {
        self.ports.stats()
    }

    /// What the store says of itself.
    pub fn facts(&self) -> Facts<'_, Nothing> {
        self.store.facts()
    }

    /// Blocks that are cached.
    ///
    /// # Panics
    /// If they are more than slots, which are 32-bit numbers.
    pub fn cached_blocks(&self) -> u32 {
        let cached = self.store.facts().cached_blocks();
        u32::try_from(cached).expect("slots are 32-bit numbers")
    }

    /// Who has a right to how many segments, to change that. [`SimulatedStore::rebalance`] follows.
    pub fn shares_mut(&mut self) -> Shares<'_, Nothing> {
        self.store.shares_mut()
    }

    /// Reclaims whatever is due after shares have changed, and tells what had to leave.
    pub fn rebalance(&mut self, evicted: &mut impl FnMut(DiskSlot, u32)) {
        self.settle(evicted);
    }

    /// Asserts the invariants of the store; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        self.store.self_check();
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let of_back = self.back.as_ref().map_or(0, |back| back.bytes());
        self.store.facts().memory_bytes().to_usize() + self.neighbours.bytes() + of_back
    }

    /// Says where the blocks of a request lie on their disk: beside each other, from `first`. New
    /// numbers are larger than all before: of others nothing is learnt. A write distrusts only neighbours
    /// that are known along with it, so what is not said costs commits.
    #[inline]
    pub fn note_places(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        self.neighbours.note(disk, first, keys);
        if let Some(back) = &mut self.back {
            back.note(first, keys);
        }
    }

    /// Time has passed: chunks that have waited long enough are written, blocks that have rested
    /// long enough are trusted, and what the journal holds back is committed. What is due first is done at
    /// its time; what is due after it, now.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if let Some(due) = self.next_due() {
            self.tick(due);
            if self.back.is_some() {
                self.tick_each(due);
            }
            if self.next_due().is_some() {
                self.tick(self.now);
            }
        }
        self.ports.set_now(self.now);
    }

    /// Does everything that is due at its own time, from `at` on. A log is destaged at another length later.
    fn tick_each(&mut self, mut at: Instant) {
        while let Some(due) = self.next_due().filter(|due| *due > at) {
            self.tick(due);
            at = due;
        }
    }

    #[inline]
    fn next_due(&self) -> Option<Instant> {
        self.ports.next_tick().filter(|due| *due <= self.now)
    }

    /// Nothing leaves for it: only what is written and erased makes segments run short.
    #[inline(never)]
    fn tick(&mut self, at: Instant) {
        self.ports.set_now(at);
        self.ports.clear_tick();
        self.store.tick(&mut self.ports, false);
        simulated::settle(&mut self.store, &mut self.ports);
        if let Some(disks) = &mut self.back {
            Back::new(disks, &mut self.store, &mut self.ports, at).tick();
        }
    }

    /// The store does what it can, and what had to leave is told.
    #[inline]
    fn settle(&mut self, evicted: &mut impl FnMut(DiskSlot, u32)) {
        if simulated::settle(&mut self.store, &mut self.ports) {
            self.tell_left(evicted);
        }
    }

    /// What had to leave is told.
    pub fn tell_left(&mut self, evicted: &mut impl FnMut(DiskSlot, u32)) {
        for (disk, block) in self.ports.take_evicted() {
            evicted(disk, number(block));
        }
        if !self.notes_writes {
            self.ports.take_written();
        }
    }

    /// A read of a block. True if it was cached; otherwise it is fetched and admitted, and what
    /// had to leave is told.
    #[inline]
    pub fn read(
        &mut self,
        disk: DiskSlot,
        key: u32,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) -> bool {
        let hit = self.touch(disk, key);
        if !hit {
            self.insert(disk, key, Source::Fill, evicted);
        }
        hit
    }

    /// A write of a whole block: [`SimulatedStore::write_run`] of one. True if it was cached.
    pub fn write(
        &mut self,
        disk: DiskSlot,
        key: u32,
        allocates: bool,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) -> bool {
        let mut hit = false;
        self.write_run(disk, &[key], allocates, evicted, |_, was_cached, _| {
            hit = was_cached;
        });
        hit
    }

    /// Whether a block is cached.
    #[inline]
    pub fn contains(&self, disk: DiskSlot, key: u32) -> bool {
        let block = block_of(key);
        self.store.facts().has_copy(disk, block)
            || (self.back.is_some() && is_dirty(&self.store, disk, block))
    }

    /// Whether a block is cached; marks it as referenced.
    #[inline]
    pub fn touch(&mut self, disk: DiskSlot, key: u32) -> bool {
        if self.back.is_some() {
            return self.touch_under_write_back(disk, block_of(key));
        }
        simulated::touch(&mut self.store, disk, block_of(key))
    }

    #[inline(never)]
    fn touch_under_write_back(&mut self, disk: DiskSlot, block: BlockIndex) -> bool {
        let source = simulated::locate(&mut self.store, disk, block);
        if let (simulated::Source::Flash, Some(back)) = (source, &mut self.back) {
            back.flash_was_read();
        }
        source != simulated::Source::Origin
    }

    /// A block that is not cached comes in, and each that had to leave is told with its disk. True
    /// if there was room.
    ///
    /// # Panics
    /// If it is cached.
    #[inline(never)]
    pub fn insert(
        &mut self,
        disk: DiskSlot,
        key: u32,
        source: Source,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) -> bool {
        let (ports, block) = (&mut self.ports, block_of(key));
        let stored = self.store.admit(ports, disk, block, source, &());
        self.settle(evicted);
        stored
    }

    /// A write of a part of a block, a write around the cache, or an erasure: the block leaves.
    /// True if it was cached.
    pub fn invalidate(&mut self, disk: DiskSlot, key: u32) -> bool {
        let was_cached = self.withdraw(disk, key);
        self.commit_withdrawn();
        was_cached
    }

    /// The block leaves, like the others that its request changes: [`SimulatedStore::commit_withdrawn`]
    /// follows the last of them. True if it was cached.
    pub fn withdraw(&mut self, disk: DiskSlot, key: u32) -> bool {
        let withdrawn = self.withdrawn.get_or_insert(Withdrawn {
            disk,
            first: key,
            last: key,
            commits: false,
        });
        withdrawn.last = key;
        if !self.store.facts().has_copy(disk, block_of(key)) {
            return false;
        }
        let taken = self
            .store
            .take_for_write(&mut self.ports, disk, block_of(key));
        withdrawn.commits |= matches!(taken, Taken::Trusted(_));
        !matches!(taken, Taken::NotCached)
    }

    /// What was withdrawn is distrusted durably, by one commit, and what lies beside it, so that the origin
    /// may be written.
    pub fn commit_withdrawn(&mut self) {
        let withdrawn = self.withdrawn.take().filter(|all| all.commits);
        let Some(Withdrawn {
            disk, first, last, ..
        }) = withdrawn
        else {
            return;
        };
        let beside = self.neighbours.around(first, last).map(block_of);
        simulated::rest_beside(&mut self.store, &mut self.ports, disk, beside);
        self.store.journal_mut().hurry();
        simulated::settle(&mut self.store, &mut self.ports);
    }

    /// A request of a disk under write-back is over; if it was no read the disk's log goes to the origin as far
    /// as that is due. What had to leave is told.
    pub fn advance_log(
        &mut self,
        written: Option<DiskSlot>,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) {
        if let Some(mut back) = self.back() {
            back.advance(written);
            self.tell_left(evicted);
        }
    }

    /// Blocks that the origins lack.
    pub fn dirty_blocks(&self) -> u32 {
        let back = self.back.as_ref();
        back.map_or(0, |back| back.dirty_blocks(&self.store))
    }

    /// How long the dirty log of a disk may be; none without write-back, or of a disk that was never written.
    pub(crate) fn log_room(&self, disk: DiskSlot) -> Option<LogRoom> {
        self.back.as_ref()?.room(disk)
    }

    /// Whether a block was read while its copy, which has just left, was cached.
    pub fn was_warm(&self, disk: DiskSlot, key: u32) -> bool {
        self.store.facts().was_warm(disk, block_of(key))
    }
}

/// The simulator's name for a block as the store's.
const fn block_of(key: u32) -> BlockIndex {
    BlockIndex::new(key as u64)
}

/// The number of the block with this name.
fn number(block: BlockIndex) -> u32 {
    u32::try_from(block.get()).expect("it was one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DISK: DiskSlot = DiskSlot::new(0);

    fn log(blocks: u32, kind: Kind) -> SimulatedStore {
        SimulatedStore::new(blocks, Bytes::kib(64), kind).unwrap()
    }

    #[test]
    fn a_log_has_eight_segments_at_least() {
        assert!(SimulatedStore::new(128, Bytes::kib(64), Kind::Clock).is_ok());
        let small = SimulatedStore::new(127, Bytes::kib(64), Kind::Clock).err();
        assert!(matches!(small, Some(FormatError::TooSmall { .. })));
        let odd = SimulatedStore::new(1 << 20, Bytes::kib(65), Kind::Clock).err();
        assert!(matches!(odd, Some(FormatError::SegmentSize(_))));
        let large = SimulatedStore::new((1 << 28) + 1, Bytes::mib(4), Kind::Clock).err();
        assert!(
            matches!(large, Some(FormatError::TooLarge { most, .. }) if most == Bytes::gib(1024))
        );
    }

    /// Segments of 16 pages hold 14 blocks. Of eight, reclaim keeps two free, so that opening
    /// the seventh sends the first away.
    #[test]
    fn fifo_drops_the_oldest_segment_when_the_seventh_is_opened() {
        let mut log = log(128, Kind::Fifo);
        let mut evicted = Vec::new();
        for key in 0..6 * 14 {
            assert!(!log.read(DISK, key, &mut |_, key| evicted.push(key)));
        }
        assert!(evicted.is_empty(), "{evicted:?}");
        log.read(DISK, 6 * 14, &mut |_, key| evicted.push(key));
        assert_eq!(evicted, (0..14).collect::<Vec<u32>>());
        let (stats, written) = (log.stats(), log.written());
        assert_eq!((stats.segments_reclaimed, stats.blocks_kept), (1, 0));
        assert_eq!(stats.reclaim_read_bytes, 4096);
        assert_eq!(
            written.fill,
            6 * 14 * 4096,
            "the last block is in an open chunk"
        );
        assert_eq!(written.descriptors, 6 * 2 * 4096);
    }

    #[test]
    fn clock_keeps_what_was_read_again_up_to_half_a_segment() {
        let mut log = log(128, Kind::Clock);
        let mut evicted = Vec::new();
        for key in 0..6 * 14 {
            log.read(DISK, key, &mut |_, key| evicted.push(key));
        }
        for key in 2..12 {
            assert!(log.read(DISK, key, &mut |_, key| evicted.push(key)));
        }
        log.read(DISK, 6 * 14, &mut |_, key| evicted.push(key));
        assert_eq!(evicted[..7], [0, 1, 9, 10, 11, 12, 13]);
        assert!((2..9).all(|key| log.contains(DISK, key)));
        assert_eq!(log.stats().blocks_kept, 7);
        assert_eq!(log.written().reclaim, 7 * 4096);
    }

    #[test]
    fn a_write_to_a_trusted_block_costs_a_commit_and_to_a_resting_one_none() {
        let mut log = log(1024, Kind::Clock);
        for key in 0..14 {
            log.read(DISK, key, &mut |_, _| {});
        }
        assert!(log.write(DISK, 3, false, &mut |_, _| {}));
        assert_eq!(log.written().journal, 4096);
        assert!(log.write(DISK, 3, false, &mut |_, _| {}));
        assert_eq!(log.written().journal, 4096, "its copy rests");
        log.advance(Instant::ZERO + Duration::from_secs(60));
        assert_eq!(log.written().update, 2 * 4096);
        assert_eq!(log.stats().retrusted_blocks, 1);
        assert!(
            !log.write(DISK, 99, false, &mut |_, _| {}),
            "it was not cached"
        );
        assert!(!log.contains(DISK, 99) && log.contains(DISK, 3));
    }

    /// Blocks 0 to 13 lie beside each other, 14 to 27 in another region.
    #[test]
    fn a_commit_serves_what_lies_beside_the_block_until_that_has_rested() {
        let mut log = log(1024, Kind::Clock);
        let keys: Vec<u32> = (0..28).collect();
        log.note_places(DISK, BlockIndex::new(0), &keys[..14]);
        log.note_places(
            DISK,
            BlockIndex::new(segment_log::REGION_BLOCKS),
            &keys[14..],
        );
        for key in keys {
            log.read(DISK, key, &mut |_, _| {});
        }
        let commits = |log: &SimulatedStore| log.written().journal / 4096;
        assert_eq!(commits(&log), 0);
        log.write(DISK, 3, false, &mut |_, _| {});
        log.write(DISK, 9, false, &mut |_, _| {});
        assert_eq!(commits(&log), 1);
        log.write(DISK, 20, false, &mut |_, _| {});
        assert_eq!(commits(&log), 2, "nothing was written in its region");
        log.advance(Instant::ZERO + Duration::from_secs(60));
        let trusted = commits(&log);
        log.write(DISK, 5, false, &mut |_, _| {});
        assert_eq!(commits(&log), trusted + 1, "it has rested, and is trusted");
    }

    proptest! {
        #[test]
        fn what_leaves_is_told_and_what_came_is_there(
            steps in prop::collection::vec((0..6_u8, 0..400_u32, 0..40_u64), 1..2000),
            kind in prop::sample::select(&Kind::ALL[..]),
        ) {
            let mut log = log(256, kind);
            let mut model = BTreeSet::new();
            let mut now = Instant::ZERO;
            for (what, key, pause) in steps {
                now = now + Duration::from_millis(pause);
                log.advance(now);
                let mut evicted = Vec::new();
                let was = model.contains(&key);
                let hit = match what {
                    0..=2 => {
                        model.insert(key);
                        log.read(DISK, key, &mut |_, key| evicted.push(key))
                    }
                    3 => log.write(DISK, key, false, &mut |_, key| evicted.push(key)),
                    4 => {
                        model.insert(key);
                        log.write(DISK, key, true, &mut |_, key| evicted.push(key))
                    }
                    _ => {
                        model.remove(&key);
                        log.invalidate(DISK, key)
                    }
                };
                prop_assert_eq!(hit, was);
                for gone in evicted {
                    prop_assert!(model.remove(&gone), "{} left twice", gone);
                }
                prop_assert_eq!(log.contains(DISK, key), model.contains(&key));
                prop_assert_eq!(log.cached_blocks() as usize, model.len());
            }
            prop_assert_eq!(log.stats().not_taken.no_segment, 0);
            log.self_check();
        }
    }
}
