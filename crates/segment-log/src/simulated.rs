//! The log on a device that stores nothing: what the daemon would do with a stream of blocks.
//!
//! ```text
//!   read ─┬─ cached: mark it            write ─► forget ─► distrust, if trusted ─► append again
//!         └─ append, enter                                                        (or not)
//!             └─ chunk full ─► trust its fills     segment full ─► reclaim while segments run short
//! ```
//!
//! [`SimulatedLog`] drives a [`SegmentLog`] as the daemon does when every operation of flash and
//! origin ends before the next request: the same decisions in the same order, so hits,
//! evictions and reclaims are the daemon's. What is written is counted by cause as the daemon
//! counts it, the journal included ([`commits`]). Two things depend on how requests meet in
//! time, and stand here at their worst: each request that has to distrust copies pays for a commit
//! of its own, which the daemon shares among the requests of one flash write's duration; and the
//! origin is taken to be flushed by the guest after each write, so that what was fetched after a
//! write is trusted at once.
//!
//! Blocks are numbered from zero over all disks ([`Dense`]). Memory: 4 bytes for each number, and
//! 4 1/8 bytes for each block of capacity.

mod append;
mod commits;
mod neighbours;
mod reclaim;
mod rest;

use crate::dense::Dense;
use crate::index::Index;
use crate::log::SegmentLog;
use crate::streams::Source;
use crate::tenants::Spare;
use crate::written::FlashWritten;
use commits::Commits;
use flash_format::{FormatError, Geometry};
use neighbours::Neighbours;
use policy::reclaim::Kind;
use policy::replacement::{Evicted, Policy};
use rest::Resting;
use units::{BlockIndex, Bytes, DiskSlot, Duration, FlashSlot, Instant, TenantSlot};

/// Nothing waits for time.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// No block lies in this slot.
const NOTHING: u32 = u32::MAX;

/// What the simulated log did on its own, beside what it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chores {
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
    /// Blocks that reclaim wrote again.
    pub blocks_kept: u64,
    /// Blocks that reclaim dropped.
    pub blocks_evicted: u64,
    /// Blocks that were not admitted, since no segment was free.
    pub not_admitted: u64,
    /// Bytes that reclaim read: footers and survivors.
    pub reclaim_read_bytes: u64,
    /// Rewritten blocks that came to rest and are trusted again.
    pub retrusted_blocks: u64,
}

/// How long the daemon waits for what; its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// How long an incomplete chunk waits for more blocks.
    pub write: Duration,
    /// How long a rewritten block rests before it is trusted again.
    pub trust: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            write: Duration::from_secs(1),
            trust: Duration::from_secs(10),
        }
    }
}

/// The blocks that the request at hand has withdrawn.
#[derive(Clone, Copy)]
struct Withdrawn {
    disk: DiskSlot,
    first: u32,
    last: u32,
    /// One of them was trusted.
    commits: bool,
}

/// Where the blocks of an open chunk come from, in their order.
#[derive(Debug, Default)]
pub struct Gathered(Vec<Source>);

/// A log of segments on a device that stores nothing. See the module's header.
pub struct SimulatedLog {
    log: SegmentLog<Dense, Gathered>,
    /// By slot: what the footer of its segment would say.
    contents: Vec<u32>,
    commits: Commits,
    resting: Resting,
    neighbours: Neighbours,
    withdrawn: Option<Withdrawn>,
    delays: Delays,
    written: FlashWritten,
    /// What was written since the last [`SimulatedLog::take_written`], if somebody takes it.
    untold: Option<Vec<(DiskSlot, FlashWritten)>>,
    chores: Chores,
    now: Instant,
    /// Nothing waits for an earlier time.
    due: Instant,
    /// Something happened that may want a reclaim.
    restless: bool,
    /// Kept for its memory between requests.
    were_cached: Vec<bool>,
}

impl SimulatedLog {
    /// An empty log of `blocks` pages of flash, its headers and footers included, in segments of
    /// `segment_bytes`.
    ///
    /// # Errors
    /// [`FormatError::SegmentSize`], [`FormatError::TooSmall`] if it would not have eight
    /// segments, and [`FormatError::TooLarge`] beyond [`Dense::SLOTS_MAX`].
    pub fn new(blocks: u32, segment_bytes: Bytes, kind: Kind) -> Result<Self, FormatError> {
        let bytes = |slots: u32| Bytes::new(u64::from(slots) * units::BLOCK_BYTES);
        if blocks > Dense::SLOTS_MAX {
            return Err(FormatError::TooLarge {
                most: bytes(Dense::SLOTS_MAX),
                present: bytes(blocks),
            });
        }
        let geometry = Geometry::of_slots(blocks, segment_bytes)?;
        let log = SegmentLog::new(geometry, Dense::new(), kind.build());
        Ok(Self::over(log, Delays::default()))
    }

    /// An empty log on a device with this layout.
    pub fn on(geometry: Geometry, kind: Kind, delays: Delays) -> Self {
        Self::over(
            SegmentLog::new(geometry, Dense::new(), kind.build()),
            delays,
        )
    }

    fn over(log: SegmentLog<Dense, Gathered>, delays: Delays) -> Self {
        let geometry = *log.geometry();
        let slots = usize::try_from(geometry.slots()).expect("slots are 32-bit numbers");
        Self {
            log,
            contents: vec![NOTHING; slots],
            commits: Commits::new(&geometry, delays.write),
            resting: Resting::new(&geometry),
            neighbours: Neighbours::default(),
            withdrawn: None,
            delays,
            written: FlashWritten::default(),
            untold: None,
            chores: Chores::default(),
            now: Instant::ZERO,
            due: NEVER,
            restless: false,
            were_cached: Vec::new(),
        }
    }

    /// Bytes written to flash so far, by cause. Blocks in open chunks are not written yet.
    pub fn written(&self) -> FlashWritten {
        let (journal, checkpoint) = self.commits.written();
        FlashWritten {
            journal,
            checkpoint,
            ..self.written
        }
    }

    /// Bytes of journal pages and checkpoints written so far.
    #[inline]
    pub fn journal_written(&self) -> u64 {
        let (journal, checkpoint) = self.commits.written();
        journal + checkpoint
    }

    /// Notes from now on whose segments are written, for [`SimulatedLog::take_written`].
    pub fn note_writes(&mut self) {
        self.untold.get_or_insert_default();
    }

    /// Calls `each` with every chunk and footer written since the last call, and whose it is.
    /// Journal and checkpoints are nobody's. Nothing if [`SimulatedLog::note_writes`] was not called.
    #[inline]
    pub fn take_written(&mut self, mut each: impl FnMut(DiskSlot, FlashWritten)) {
        for (disk, written) in self.untold.iter_mut().flat_map(|untold| untold.drain(..)) {
            each(disk, written);
        }
    }

    /// What else it did so far.
    pub fn chores(&self) -> &Chores {
        &self.chores
    }

    /// Says whose a disk is; see [`SegmentLog::set_tenant`].
    pub fn set_tenant(&mut self, disk: DiskSlot, tenant: TenantSlot) {
        self.log.set_tenant(disk, Some(tenant));
    }

    /// Sets a tenant's share in segments; see [`SegmentLog::set_share`].
    pub fn set_share(&mut self, tenant: TenantSlot, segments: u32) {
        self.log.set_share(tenant, segments);
    }

    /// Says what happens to spare flash; see [`SegmentLog::set_spare`].
    pub fn set_spare(&mut self, spare: Spare) {
        self.log.set_spare(spare);
    }

    /// Reclaims whatever is due after shares have changed, and tells what had to leave.
    pub fn rebalance(&mut self, evicted: &mut impl FnMut(DiskSlot, u32)) {
        self.reclaim(evicted);
    }

    /// The log itself.
    pub fn log(&self) -> &SegmentLog<Dense, Gathered> {
        &self.log
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.log.index().bytes()
            + self.log.bytes()
            + self.contents.capacity() * size_of::<u32>()
            + self.resting.bytes()
            + self.neighbours.bytes()
    }

    /// Says where the blocks of a request lie on their disk: beside each other, from `first`. New
    /// numbers are larger than all before: of others nothing is learnt. A write distrusts only neighbours
    /// that are known along with it, so what is not said costs commits.
    #[inline]
    pub fn note_places(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        self.neighbours.note(disk, first, keys);
    }

    /// Time has passed: chunks that have waited long enough are written, blocks that have rested
    /// long enough are trusted, and what the journal holds back is committed.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.now >= self.due {
            self.tick();
        }
    }

    fn tick(&mut self) {
        let (now, mut due) = (self.now, NEVER);
        for stream in self.log.stream_keys() {
            let Some(chunk) = self.log.stream(stream).and_then(|open| open.chunk) else {
                continue;
            };
            let full_at = chunk.since + self.delays.write;
            if now >= full_at {
                self.seal(stream);
            } else {
                due = due.min(full_at);
            }
        }
        self.due = due.min(self.end_rests());
        self.commits.pump(now);
        self.wake_at(self.commits.due());
    }

    fn wake_at(&mut self, due: Instant) {
        self.due = self.due.min(due);
    }

    /// A read of a block. True if it was cached; otherwise it is fetched and admitted, and what
    /// had to leave is told.
    #[inline]
    pub fn read(&mut self, disk: DiskSlot, key: u32, evicted: &mut impl Evicted<u32>) -> bool {
        let hit = self.touch(disk, key);
        if !hit {
            self.admit(disk, key, Source::Fill, &mut |_, key| evicted.push(key));
        }
        hit
    }

    /// A write of a whole block: [`SimulatedLog::write_run`] of one. True if it was cached.
    pub fn write(
        &mut self,
        disk: DiskSlot,
        key: u32,
        allocates: bool,
        evicted: &mut impl Evicted<u32>,
    ) -> bool {
        let mut hit = false;
        self.write_run(disk, &[key], allocates, evicted, |_, was_cached, _| {
            hit = was_cached;
        });
        hit
    }

    /// The blocks of one request are written whole. All old copies leave, and one commit distrusts
    /// them; then the new ones of those that were cached are cached, and after them the others if
    /// `allocates`. `each` gets each key's position, whether it was cached, and whether it is now.
    pub fn write_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        allocates: bool,
        evicted: &mut impl Evicted<u32>,
        mut each: impl FnMut(usize, bool, bool),
    ) {
        let mut were_cached = std::mem::take(&mut self.were_cached);
        were_cached.clear();
        were_cached.extend(keys.iter().map(|key| self.withdraw(disk, *key)));
        self.commit_withdrawn();
        for (wanted, source) in [(true, Source::Update), (false, Source::Fill)] {
            for (at, key) in keys.iter().enumerate() {
                let was_cached = were_cached[at];
                // A request that names a block twice has one copy of it.
                if was_cached == wanted {
                    let stored = (was_cached || allocates)
                        && !self.contains(disk, *key)
                        && self.insert(disk, *key, source, &mut |_, key| evicted.push(key));
                    each(at, was_cached, stored);
                }
            }
        }
        self.were_cached = were_cached;
    }

    /// Whether a block is cached.
    #[inline]
    pub fn contains(&self, disk: DiskSlot, key: u32) -> bool {
        self.log.index().get(disk, block_of(key)).is_some()
    }

    /// Whether a block is cached; marks it as referenced.
    #[inline]
    pub fn touch(&mut self, disk: DiskSlot, key: u32) -> bool {
        self.log.touch(disk, block_of(key)).is_some()
    }

    /// A block that is not cached comes in, and each that had to leave is told with its disk. True
    /// if there was room.
    ///
    /// # Panics
    /// If it is cached.
    pub fn insert(
        &mut self,
        disk: DiskSlot,
        key: u32,
        source: Source,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) -> bool {
        let refused = self.chores.not_admitted;
        self.admit(disk, key, source, evicted);
        self.chores.not_admitted == refused
    }

    /// A write of a part of a block, a write around the cache, or an erasure: the block leaves.
    /// True if it was cached.
    pub fn invalidate(&mut self, disk: DiskSlot, key: u32) -> bool {
        let was_cached = self.withdraw(disk, key);
        self.commit_withdrawn();
        was_cached
    }

    /// The block leaves, like the others that its request changes: [`SimulatedLog::commit_withdrawn`]
    /// follows the last of them. True if it was cached.
    pub fn withdraw(&mut self, disk: DiskSlot, key: u32) -> bool {
        let one = Withdrawn {
            disk,
            first: key,
            last: key,
            commits: false,
        };
        self.withdrawn.get_or_insert(one).last = key;
        let Some(slot) = self.log.forget(disk, block_of(key)) else {
            return false;
        };
        if self.resting.is_trusted(slot) {
            self.commits
                .distrust(slot, self.generation_of(slot), self.now);
            self.resting.distrust(slot);
            self.withdrawn.iter_mut().for_each(|all| all.commits = true);
        }
        true
    }

    /// What was withdrawn is distrusted durably, by one commit, and what lies beside it, so that the origin
    /// may be written.
    pub fn commit_withdrawn(&mut self) {
        if let Some(withdrawn) = self.withdrawn.take().filter(|all| all.commits) {
            self.rest_around(withdrawn);
            self.commits.hurry();
        }
        self.commits.pump(self.now);
    }

    /// The trusted copies beside the withdrawn blocks go to rest.
    fn rest_around(&mut self, withdrawn: Withdrawn) {
        let neighbours = std::mem::take(&mut self.neighbours);
        for beside in neighbours.around(withdrawn.first, withdrawn.last) {
            let slot = self.log.index().get(withdrawn.disk, block_of(beside));
            if let Some(slot) = slot.filter(|slot| self.resting.is_trusted(*slot)) {
                self.commits
                    .distrust(slot, self.generation_of(slot), self.now);
                self.resting.distrust(slot);
                self.rest(beside, slot);
            }
        }
        self.neighbours = neighbours;
    }

    /// See [`SegmentLog::was_warm`].
    pub fn was_warm(&self, disk: DiskSlot, key: u32) -> bool {
        self.log.was_warm(disk, block_of(key))
    }

    fn generation_of(&self, slot: FlashSlot) -> u64 {
        self.log.segment_of(slot).generation
    }

    fn trust(&mut self, first: FlashSlot, count: u32) {
        self.resting.trust(first, count);
        self.commits
            .trust(first, count, self.generation_of(first), self.now);
        self.wake_at(self.commits.due());
    }
}

/// The simulator's name for a block as the log's.
const fn block_of(key: u32) -> BlockIndex {
    BlockIndex::new(key as u64)
}

/// Every access is a read of disk 0.
impl Policy<u32> for SimulatedLog {
    #[inline]
    fn access(&mut self, key: u32, evicted: &mut impl Evicted<u32>) -> bool {
        self.read(DiskSlot::new(0), key, evicted)
    }

    fn remove(&mut self, key: u32) -> bool {
        self.invalidate(DiskSlot::new(0), key)
    }

    fn contains(&self, key: u32) -> bool {
        SimulatedLog::contains(self, DiskSlot::new(0), key)
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.log.index().len()).expect("slots are 32-bit numbers")
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.log.geometry().slots()).expect("a simulated log has 32-bit slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::replacement::Replacement;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DISK: DiskSlot = DiskSlot::new(0);

    fn log(blocks: u32, kind: Kind) -> SimulatedLog {
        SimulatedLog::new(blocks, Bytes::kib(64), kind).unwrap()
    }

    #[test]
    fn a_log_has_eight_segments_at_least() {
        assert!(SimulatedLog::new(128, Bytes::kib(64), Kind::Clock).is_ok());
        let small = SimulatedLog::new(127, Bytes::kib(64), Kind::Clock).err();
        assert!(matches!(small, Some(FormatError::TooSmall { .. })));
        let odd = SimulatedLog::new(1 << 20, Bytes::kib(65), Kind::Clock).err();
        assert!(matches!(odd, Some(FormatError::SegmentSize(_))));
        let large = SimulatedLog::new((1 << 28) + 1, Bytes::mib(4), Kind::Clock).err();
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
            assert!(!log.read(DISK, key, &mut evicted));
        }
        assert!(evicted.is_empty(), "{evicted:?}");
        log.read(DISK, 6 * 14, &mut evicted);
        assert_eq!(evicted, (0..14).collect::<Vec<u32>>());
        let (chores, written) = (log.chores(), log.written());
        assert_eq!((chores.segments_reclaimed, chores.blocks_kept), (1, 0));
        assert_eq!(chores.reclaim_read_bytes, 4096);
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
            log.read(DISK, key, &mut evicted);
        }
        for key in 2..12 {
            assert!(log.read(DISK, key, &mut evicted));
        }
        log.read(DISK, 6 * 14, &mut evicted);
        assert_eq!(evicted[..7], [0, 1, 9, 10, 11, 12, 13]);
        assert!((2..9).all(|key| log.contains_key(key)));
        assert_eq!(log.chores().blocks_kept, 7);
        assert_eq!(log.written().reclaim, 7 * 4096);
    }

    #[test]
    fn a_write_to_a_trusted_block_costs_a_commit_and_to_a_resting_one_none() {
        let mut log = log(1024, Kind::Clock);
        let mut evicted = Vec::new();
        for key in 0..14 {
            log.read(DISK, key, &mut evicted);
        }
        assert!(log.write(DISK, 3, false, &mut evicted));
        assert_eq!(log.written().journal, 4096);
        assert!(log.write(DISK, 3, false, &mut evicted));
        assert_eq!(log.written().journal, 4096, "its copy rests");
        log.advance(Instant::ZERO + Duration::from_secs(60));
        assert_eq!(log.written().update, 2 * 4096);
        assert_eq!(log.chores().retrusted_blocks, 1);
        assert!(
            !log.write(DISK, 99, false, &mut evicted),
            "it was not cached"
        );
        assert!(!log.contains_key(99) && log.contains_key(3));
    }

    /// Blocks 0 to 13 lie beside each other, 14 to 27 in another region.
    #[test]
    fn a_commit_serves_what_lies_beside_the_block_until_that_has_rested() {
        let mut log = log(1024, Kind::Clock);
        let mut evicted = Vec::new();
        let keys: Vec<u32> = (0..28).collect();
        log.note_places(DISK, BlockIndex::new(0), &keys[..14]);
        log.note_places(DISK, BlockIndex::new(crate::REGION_BLOCKS), &keys[14..]);
        for key in keys {
            log.read(DISK, key, &mut evicted);
        }
        let commits = |log: &SimulatedLog| log.written().journal / 4096;
        assert_eq!(commits(&log), 0);
        log.write(DISK, 3, false, &mut evicted);
        log.write(DISK, 9, false, &mut evicted);
        assert_eq!(commits(&log), 1);
        log.write(DISK, 20, false, &mut evicted);
        assert_eq!(commits(&log), 2, "nothing was written in its region");
        log.advance(Instant::ZERO + Duration::from_secs(60));
        let trusted = commits(&log);
        log.write(DISK, 5, false, &mut evicted);
        assert_eq!(commits(&log), trusted + 1, "it has rested, and is trusted");
    }

    impl SimulatedLog {
        fn contains_key(&self, key: u32) -> bool {
            Replacement::contains(self, key)
        }
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
                        log.read(DISK, key, &mut evicted)
                    }
                    3 => log.write(DISK, key, false, &mut evicted),
                    4 => {
                        model.insert(key);
                        log.write(DISK, key, true, &mut evicted)
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
                prop_assert_eq!(log.contains_key(key), model.contains(&key));
                prop_assert_eq!(Replacement::len(&log) as usize, model.len());
            }
            prop_assert_eq!(log.chores().not_admitted, 0);
            log.log().self_check();
        }
    }
}
