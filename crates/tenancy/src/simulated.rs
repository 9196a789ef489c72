//! The daemon's cache with this brain in front, on a device that stores nothing.
//!
//! [`Simulated`] asks a [`Tenancy`] and drives a [`SimulatedLog`] as the daemon's cache does when each
//! request ends before the next one comes: the same questions in the same order, the same charges, the
//! same shares told to the log at the same moments. So verdicts, shares, hits and flash bytes are the
//! daemon's, which a test of the cache compares.
//!
//! ```text
//!   read ─┬─ log has it ─────► hit
//!         ├─ staged ─────────► staged_hit ─► stays, or goes to the log
//!         └─ fetched ────────► missed ─────► to the log, staged, or nothing
//!   write ┬─ log had it ─────► hit, may_rewrite ─► its new copy to the log, or it has left
//!         ├─ staged ─────────► removed, then as if it were nowhere
//!         └─ nowhere ────────► missed, if writes allocate
//! ```
//!
//! Blocks are numbered from zero over all disks. What is staged is a set of numbers here; the daemon has
//! the bytes.

use crate::counts::Wrote;
use crate::request::{Arrival, Request};
use crate::tenancy::Tenancy;
use policy::admission::{Fate, Staged, Verdict};
use segment_log::{SimulatedLog, Source};
use units::{BlockIndex, DiskSlot, Instant, Set, TenantSlot};

/// A block's name as the daemon's: its disk and its number.
#[inline]
const fn name(disk: DiskSlot, key: u32) -> u64 {
    (disk.get() as u64) << BlockIndex::BITS | key as u64
}

/// The block with this name.
fn place(name: u64) -> (DiskSlot, u32) {
    let disk = u16::try_from(name >> BlockIndex::BITS).expect("a name begins with a disk");
    let key = u32::try_from(name & ((1 << BlockIndex::BITS) - 1)).expect("it was one");
    (DiskSlot::new(disk), key)
}

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// On flash.
    Flash,
    /// Staged in memory.
    Memory,
    /// Only at the origin.
    Nowhere,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where it was.
    pub found: Found,
    /// Whether it was written to flash for this access.
    pub stored: bool,
}

impl Outcome {
    const fn new(found: Found, stored: bool) -> Self {
        Self { found, stored }
    }
}

/// A log and the brain in front of it. See the module's header.
pub struct Simulated {
    log: SimulatedLog,
    tenancy: Tenancy<u64>,
    /// By disk: whose it is.
    owners: Vec<Option<TenantSlot>>,
    staged: Set<u64>,
    left: Vec<(u64, Fate)>,
    /// Where the blocks of a write were.
    found: Vec<Found>,
    journal: u64,
    admitted_late: u64,
}

impl Simulated {
    /// An empty log and the tenants that are attached already.
    pub fn new(mut log: SimulatedLog, tenancy: Tenancy<u64>) -> Self {
        log.note_writes();
        log.set_spare(tenancy.settings().spare);
        let mut simulated = Self {
            log,
            tenancy,
            owners: vec![None; DiskSlot::COUNT],
            staged: Set::default(),
            left: Vec::new(),
            found: Vec::new(),
            journal: 0,
            admitted_late: 0,
        };
        simulated.tell_shares();
        simulated
    }

    /// The brain.
    pub fn tenancy(&self) -> &Tenancy<u64> {
        &self.tenancy
    }

    /// The log.
    pub fn log(&self) -> &SimulatedLog {
        &self.log
    }

    /// Blocks whose bytes the daemon would keep in memory.
    pub fn staged_blocks(&self) -> usize {
        self.staged.len()
    }

    /// Blocks that went to flash when they left memory, and not for an access of their own.
    pub fn admitted_late(&self) -> u64 {
        self.admitted_late
    }

    /// Whose a disk is.
    pub fn owner(&self, disk: DiskSlot) -> Option<TenantSlot> {
        self.owners[disk.index()]
    }

    /// A disk comes that belongs to a tenant.
    pub fn set_owner(&mut self, disk: DiskSlot, tenant: TenantSlot) {
        self.owners[disk.index()] = Some(tenant);
        self.log.set_tenant(disk, tenant);
    }

    /// Does something to the brain: attaches tenants, changes settings. What leaves memory for it is
    /// dealt with, and the log hears of the new shares.
    ///
    /// # Errors
    /// What `change` fails with.
    pub fn change<E>(
        &mut self,
        change: impl FnOnce(&mut Tenancy<u64>, &mut Vec<(u64, Fate)>) -> Result<(), E>,
    ) -> Result<(), E> {
        change(&mut self.tenancy, &mut self.left)?;
        self.settle();
        self.log.set_spare(self.tenancy.settings().spare);
        self.tell_shares();
        Ok(())
    }

    /// Time has passed: windows end, chunks and rewritten blocks have waited long enough.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        while self.tenancy.next_tick() <= now && self.tick(now) {}
        self.log.advance(now);
        self.charge();
    }

    /// Ends a window. False if none has ended.
    #[inline(never)]
    fn tick(&mut self, now: Instant) -> bool {
        self.log.advance(self.tenancy.next_tick());
        self.charge();
        let log = self.log.log();
        let mut cached = vec![0; TenantSlot::COUNT];
        for (disk, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = owner {
                let disk = DiskSlot::new(u16::try_from(disk).expect("slots are few"));
                cached[owner.index()] += log.cached_blocks(disk);
            }
        }
        let ended = self
            .tenancy
            .tick(now, |slot| cached[slot.index()], &mut self.left)
            .is_some();
        self.settle();
        self.tell_shares();
        ended
    }

    fn tell_shares(&mut self) {
        for share in &self.tenancy.shares().of {
            self.log.set_share(share.tenant, share.segments);
        }
        let (tenancy, owners) = (&mut self.tenancy, &self.owners);
        self.log.rebalance(&mut |disk, key| {
            if let Some(owner) = owners[disk.index()] {
                tenancy.evicted(owner, name(disk, key));
            }
        });
        self.charge();
    }

    /// A request has come; see [`Tenancy::arrives`].
    #[inline]
    pub fn arrives(&mut self, request: &Request) -> Arrival {
        self.tenancy.arrives(request)
    }

    /// Says where the blocks of a request lie; see [`SimulatedLog::note_places`].
    #[inline]
    pub fn note_places(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        self.log.note_places(disk, first, keys);
    }

    /// A block is read: [`Simulated::read_run`] of one.
    #[inline]
    pub fn read(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32) -> Outcome {
        let mut outcome = Outcome::new(Found::Nowhere, false);
        self.read_run(arrival, disk, &[key], |_, of| outcome = of);
        outcome
    }

    /// The blocks of one request are read. First all of them are looked for; those that are nowhere are
    /// asked about when they have come. `each` hears of each block's place and outcome.
    #[inline]
    pub fn read_run(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        keys: &[u32],
        mut each: impl FnMut(usize, Outcome),
    ) {
        let mut missing = 0;
        for (at, key) in keys.iter().enumerate() {
            if self.log.touch(disk, *key) {
                self.tenancy.hit(arrival, name(disk, *key));
                each(at, Outcome::new(Found::Flash, false));
            } else if self.is_staged(disk, *key) {
                let stored = self.staged_hit(arrival, disk, *key);
                each(at, Outcome::new(Found::Memory, stored));
            } else {
                missing += 1;
                each(at, Outcome::new(Found::Nowhere, false));
            }
        }
        if missing > 0 {
            self.fetched(arrival, disk, keys, missing, &mut each);
        }
    }

    /// The missing blocks of a read have come.
    #[inline(never)]
    fn fetched(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        keys: &[u32],
        missing: usize,
        each: &mut impl FnMut(usize, Outcome),
    ) {
        let one = keys.len() == missing;
        for (at, key) in keys.iter().enumerate() {
            let is_missing = one || !(self.log.contains(disk, *key) || self.is_staged(disk, *key));
            if is_missing {
                let stored = self.missed(arrival, disk, *key, Source::Fill);
                each(at, Outcome::new(Found::Nowhere, stored));
            }
        }
    }

    /// A whole block is written: [`Simulated::write_run`] of one.
    pub fn write(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        key: u32,
        allocates: bool,
    ) -> Outcome {
        let mut outcome = Outcome::new(Found::Nowhere, false);
        self.write_run(arrival, disk, &[key], allocates, |_, of| outcome = of);
        outcome
    }

    /// The blocks of one request are written whole. All old copies leave; when the origin has the new
    /// ones those of cached blocks may go to flash, and the others are asked about if `allocates`.
    pub fn write_run(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        keys: &[u32],
        allocates: bool,
        mut each: impl FnMut(usize, Outcome),
    ) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        found.extend(keys.iter().map(|key| {
            let name = name(disk, *key);
            if self.staged.remove(&name) {
                self.tenancy.removed(arrival.tenant, name);
                Found::Memory
            } else if self.log.withdraw(disk, *key) {
                Found::Flash
            } else {
                Found::Nowhere
            }
        }));
        self.log.commit_withdrawn();
        self.charge();
        for cached in [true, false] {
            for (at, key) in keys.iter().enumerate() {
                if (found[at] == Found::Flash) == cached {
                    let stored = if cached {
                        self.rewrite(arrival, disk, *key)
                    } else {
                        allocates && self.missed(arrival, disk, *key, Source::Update)
                    };
                    each(at, Outcome::new(found[at], stored));
                }
            }
        }
        self.found = found;
    }

    /// A block that was cached until it was written.
    fn rewrite(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32) -> bool {
        self.tenancy.hit(arrival, name(disk, key));
        let (name, was_read) = (name(disk, key), self.log.was_warm(disk, key));
        let stored = self.tenancy.may_rewrite(arrival, name, was_read)
            && self.enter(disk, key, Source::Update);
        if !stored {
            self.tenancy.removed(arrival.tenant, name);
        }
        self.charge();
        stored
    }

    #[inline]
    fn is_staged(&self, disk: DiskSlot, key: u32) -> bool {
        !self.staged.is_empty() && self.staged.contains(&name(disk, key))
    }

    /// A staged block is read. True if it went to flash.
    fn staged_hit(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32) -> bool {
        let name = name(disk, key);
        let staged = self.tenancy.staged_hit(arrival, name, &mut self.left);
        self.settle();
        if staged != Staged::Stays {
            self.staged.remove(&name);
        }
        let stored =
            staged == Staged::Admit && self.let_in(arrival.tenant, disk, key, Source::Fill);
        self.charge();
        stored
    }

    /// The bytes of a block that is neither on flash nor staged are at hand. True if they went to flash.
    fn missed(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32, source: Source) -> bool {
        let name = name(disk, key);
        let verdict = self.tenancy.missed(arrival, name, &mut self.left);
        self.settle();
        if verdict == Verdict::Stage {
            self.staged.insert(name);
        }
        let stored = verdict == Verdict::Admit && self.let_in(arrival.tenant, disk, key, source);
        self.charge();
        stored
    }

    /// A block that was let in goes to flash, if there is room.
    fn let_in(&mut self, owner: TenantSlot, disk: DiskSlot, key: u32, source: Source) -> bool {
        let stored = self.enter(disk, key, source);
        if !stored {
            self.tenancy.withheld(owner, name(disk, key));
        }
        stored
    }

    fn enter(&mut self, disk: DiskSlot, key: u32, source: Source) -> bool {
        let (tenancy, owners) = (&mut self.tenancy, &self.owners);
        self.log.insert(disk, key, source, &mut |disk, key| {
            if let Some(owner) = owners[disk.index()] {
                tenancy.evicted(owner, name(disk, key));
            }
        })
    }

    /// What has left memory goes to flash or nowhere.
    fn settle(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let mut left = std::mem::take(&mut self.left);
        for (name, fate) in left.drain(..) {
            assert!(self.staged.remove(&name), "what leaves memory was staged");
            let (disk, key) = place(name);
            let owner = self.owners[disk.index()].expect("staged blocks have an owner");
            if fate == Fate::Admit && self.let_in(owner, disk, key, Source::Fill) {
                self.admitted_late += 1;
            }
        }
        self.left = left;
    }

    /// A run of blocks is discarded: it counts as demand no longer. [`Simulated::invalidate`] is for each
    /// of them.
    pub fn discarded(&mut self, request: &Request) {
        let (first, count) = (request.first.get(), request.count);
        self.tenancy
            .discarded(request.tenant, request.disk, first, count);
    }

    /// A block is written around the cache or in part, or erased: it leaves. Where it was.
    ///
    /// # Panics
    /// If the brain and the set of staged blocks differ, which would be a mistake here.
    pub fn invalidate(&mut self, disk: DiskSlot, key: u32) -> Found {
        let mut found = Found::Nowhere;
        self.invalidate_run(disk, &[key], |_, was| found = was);
        found
    }

    /// The blocks of one request are written around the cache or in part, or erased: they leave, and
    /// one commit distrusts them. `each` gets each key's position and where it was.
    ///
    /// # Panics
    /// If the brain and the set of staged blocks differ, which would be a mistake here.
    pub fn invalidate_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        mut each: impl FnMut(usize, Found),
    ) {
        for (at, key) in keys.iter().enumerate() {
            let was_cached = self.log.withdraw(disk, *key);
            let was_staged = self.staged.remove(&name(disk, *key));
            if let (true, Some(owner)) = (was_cached || was_staged, self.owners[disk.index()]) {
                let known = self.tenancy.removed(owner, name(disk, *key));
                assert_eq!(known, was_staged, "the brain knows what is staged");
            }
            each(
                at,
                match (was_cached, was_staged) {
                    (true, _) => Found::Flash,
                    (false, true) => Found::Memory,
                    (false, false) => Found::Nowhere,
                },
            );
        }
        self.log.commit_withdrawn();
        self.charge();
    }

    /// Tells the brain what was written since the last time.
    #[inline]
    fn charge(&mut self) {
        let (tenancy, owners) = (&mut self.tenancy, &self.owners);
        self.log.take_written(|disk, written| {
            tenancy.charge(owners[disk.index()], Wrote::from(written));
        });
        let journal = self.log.journal_written();
        let metadata = journal - std::mem::replace(&mut self.journal, journal);
        if metadata > 0 {
            let wrote = Wrote {
                metadata,
                ..Wrote::default()
            };
            self.tenancy.charge(None, wrote);
        }
    }
}
