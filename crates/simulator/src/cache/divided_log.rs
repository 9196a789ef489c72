//! A log that is divided among tenants, with the daemon's admission in front.
//!
//! [`DividedLog`] asks an [`AdmissionControl`] and drives a [`SimulatedStore`] as the daemon's cache does when
//! each request ends before the next one comes: the same questions in the same order, the same charges,
//! the same shares told to the log at the same moments. So verdicts, shares, hits and flash bytes are the
//! daemon's, which a test compares.
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
//! Blocks are numbered from zero over all disks. Of a staged block nothing waits.

mod logged;

use super::simulated_store::SimulatedStore;
use admission::{AdmissionControl, Key, Kind};
use policy::admission::Verdict;
use segment_log::{FlashWritten, Source};
use tenancy::{Arrival, Request, Tenancy};
use units::{BlockIndex, DiskSlot, Instant, TenantSlot};

/// The admission of a store that keeps nothing.
pub type Admission = AdmissionControl<Key, ()>;

/// A block's name as the daemon's: its disk and its number.
#[inline]
fn name(disk: DiskSlot, key: u32) -> Key {
    Key::new(disk, BlockIndex::new(key.into()))
}

/// The number of the block with this name.
fn number(name: Key) -> u32 {
    u32::try_from(name.block().get()).expect("it was one")
}

/// What hears of a block that has left the store.
fn leaves(admission: &mut Admission, owners: &[Option<TenantSlot>]) -> impl FnMut(DiskSlot, u32) {
    |disk, key| {
        if let Some(owner) = owners[disk.index()] {
            admission.evicted(owner, name(disk, key));
        }
    }
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

/// Such a log. See the module's header.
pub struct DividedLog {
    store: SimulatedStore,
    admission: Admission,
    /// By disk: whose it is.
    owners: Vec<Option<TenantSlot>>,
    /// Where the blocks of a write were.
    found: Vec<Found>,
    journal: u64,
    admitted_late: u64,
}

impl DividedLog {
    /// An empty log, and the admission in front of it.
    pub fn new(mut store: SimulatedStore, admission: Admission) -> Self {
        store.note_writes();
        let mut divided = Self {
            store,
            admission,
            owners: vec![None; DiskSlot::COUNT],
            found: Vec::new(),
            journal: 0,
            admitted_late: 0,
        };
        divided.tell_shares();
        divided
    }

    /// Who gives the verdicts.
    ///
    /// # Panics
    /// If the admission has no tenants.
    pub fn tenancy(&self) -> &Tenancy<Key> {
        self.admission.tenancy().expect("a divided log has tenants")
    }

    /// The store.
    pub fn store(&self) -> &SimulatedStore {
        &self.store
    }

    /// Blocks whose bytes the daemon would keep in memory.
    pub fn staged_blocks(&self) -> u64 {
        self.admission.frames().len(Kind::Staged).into()
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
        self.store.shares_mut().set_tenant(disk, Some(tenant));
    }

    /// Does something to the admission: attaches tenants, changes settings. What leaves memory for it is
    /// dealt with, and the log is told the new shares.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Admission) -> T) -> T {
        let changed = change(&mut self.admission);
        self.let_in_unstaged();
        self.tell_shares();
        changed
    }

    /// Time has passed: windows end, chunks and rewritten blocks have waited long enough.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        while self.admission.next_tick().is_some_and(|end| end <= now) && self.tick(now) {}
        self.store.advance(now);
        self.tell_left();
        self.charge();
    }

    /// Ends a window. False if none has ended.
    #[inline(never)]
    fn tick(&mut self, now: Instant) -> bool {
        let end = self.tenancy().next_tick();
        self.store.advance(end);
        self.tell_left();
        self.charge();
        let facts = self.store.facts();
        let mut cached = vec![0; TenantSlot::COUNT];
        for (disk, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = owner {
                let disk = DiskSlot::new(u16::try_from(disk).expect("slots are few"));
                cached[owner.index()] += facts.cached_blocks_of(disk);
            }
        }
        let has_ended = self.admission.tick(now, |slot| cached[slot.index()]);
        self.let_in_unstaged();
        self.tell_shares();
        has_ended
    }

    fn tell_shares(&mut self) {
        let Some(tenancy) = self.admission.tenancy() else {
            return;
        };
        self.store.shares_mut().set_spare(tenancy.settings().spare);
        for share in &tenancy.shares().of {
            self.store
                .shares_mut()
                .set_share(share.tenant, share.segments);
        }
        let (admission, owners) = (&mut self.admission, &self.owners);
        self.store.rebalance(&mut leaves(admission, owners));
        self.charge();
    }

    /// A request has come; what is returned goes with each call about its blocks.
    ///
    /// # Panics
    /// If its tenant is not attached.
    #[inline]
    pub fn arrives(&mut self, request: &Request) -> Arrival {
        let arrival = self.admission.arrives(request, true);
        arrival.expect("the tenant is attached")
    }

    /// Says where the blocks of a request lie; see [`SimulatedStore::note_places`].
    #[inline]
    pub fn note_places(&mut self, disk: DiskSlot, first: BlockIndex, keys: &[u32]) {
        self.store.note_places(disk, first, keys);
    }

    /// A block is read: [`DividedLog::read_run`] of one.
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
            if self.store.touch(disk, *key) {
                self.admission.hits(arrival, [name(disk, *key)]);
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
        if let Some(mut back) = self.store.back() {
            back.origin_was_read(disk);
        }
        let one = keys.len() == missing;
        for (at, key) in keys.iter().enumerate() {
            let is_missing =
                one || !(self.store.contains(disk, *key) || self.is_staged(disk, *key));
            if is_missing {
                let stored = self.missed(arrival, disk, *key, Source::Fill);
                each(at, Outcome::new(Found::Nowhere, stored));
            }
        }
    }

    /// A whole block is written: [`DividedLog::write_run`] of one.
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
            if self.admission.change(arrival.tenant, name(disk, *key)) {
                Found::Memory
            } else if self.store.withdraw(disk, *key) {
                Found::Flash
            } else {
                Found::Nowhere
            }
        }));
        self.store.commit_withdrawn();
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
        let (name, was_read) = (name(disk, key), self.store.was_warm(disk, key));
        let stored = self.admission.rewrites(arrival, name, was_read)
            && self.enter(disk, key, Source::Update);
        if !stored {
            self.admission.removed(arrival.tenant, name);
        }
        self.charge();
        stored
    }

    #[inline]
    fn is_staged(&self, disk: DiskSlot, key: u32) -> bool {
        self.admission.staged(name(disk, key)).is_some()
    }

    /// A staged block is read. True if it went to flash.
    fn staged_hit(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32) -> bool {
        let name = name(disk, key);
        self.admission.staged_hit(arrival, name);
        let mut stored = false;
        while let Some((let_in, ())) = self.admission.next_let_in() {
            if let_in == name {
                stored = self.let_in(let_in, Source::Fill);
            } else {
                self.let_in_late(let_in);
            }
        }
        self.charge();
        stored
    }

    /// The bytes of a block that is neither on flash nor staged are at hand. True if they went to flash.
    fn missed(&mut self, arrival: &Arrival, disk: DiskSlot, key: u32, source: Source) -> bool {
        let name = name(disk, key);
        let verdict = self.admission.missed(arrival, name, || ());
        self.let_in_unstaged();
        let stored = verdict == Some(Verdict::Admit) && self.let_in(name, source);
        self.charge();
        stored
    }

    /// What has left memory for flash goes there.
    #[inline]
    fn let_in_unstaged(&mut self) {
        while let Some((name, ())) = self.admission.next_let_in() {
            self.let_in_late(name);
        }
    }

    fn let_in_late(&mut self, name: Key) {
        self.admitted_late += u64::from(self.let_in(name, Source::Fill));
    }

    /// A block that was let in goes to flash, if there is room.
    fn let_in(&mut self, name: Key, source: Source) -> bool {
        let stored = self.enter(name.disk(), number(name), source);
        if let (false, Some(owner)) = (stored, self.owners[name.disk().index()]) {
            self.admission.withheld(owner, name);
        }
        stored
    }

    fn enter(&mut self, disk: DiskSlot, key: u32, source: Source) -> bool {
        let (admission, owners) = (&mut self.admission, &self.owners);
        self.store
            .insert(disk, key, source, &mut leaves(admission, owners))
    }

    /// A run of blocks is discarded: it counts as demand no longer. [`DividedLog::invalidate`] is for each
    /// of them.
    pub fn discarded(&mut self, request: &Request) {
        let (first, count) = (request.first.get(), request.count);
        self.admission
            .discarded(request.tenant, request.disk, first, count);
    }

    /// A block is written around the cache or in part, or erased: it leaves. Where it was.
    pub fn invalidate(&mut self, disk: DiskSlot, key: u32) -> Found {
        let mut found = Found::Nowhere;
        self.invalidate_run(disk, &[key], |_, was| found = was);
        found
    }

    /// The blocks of one request are written around the cache or in part, or erased: they leave, and
    /// one commit distrusts them. `each` gets each key's position and where it was.
    pub fn invalidate_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        mut each: impl FnMut(usize, Found),
    ) {
        let owner = self.owners[disk.index()];
        for (at, key) in keys.iter().enumerate() {
            let was_cached = self.store.withdraw(disk, *key);
            let name = name(disk, *key);
            if let (true, Some(owner)) = (was_cached, owner) {
                self.admission.removed(owner, name);
            }
            let was_staged = owner.is_some_and(|owner| self.admission.change(owner, name));
            each(
                at,
                match (was_cached, was_staged) {
                    (true, _) => Found::Flash,
                    (false, true) => Found::Memory,
                    (false, false) => Found::Nowhere,
                },
            );
        }
        self.store.commit_withdrawn();
        self.charge();
    }

    /// Charges what was written since the last time.
    #[inline]
    fn charge(&mut self) {
        let (admission, owners) = (&mut self.admission, &self.owners);
        self.store.take_written(|disk, written| {
            admission.charge(owners[disk.index()], written);
        });
        let journal = self.store.journal_written();
        let metadata = journal - std::mem::replace(&mut self.journal, journal);
        if metadata > 0 {
            let written = FlashWritten {
                journal: metadata,
                ..FlashWritten::default()
            };
            admission.charge(None, written);
        }
    }
}
