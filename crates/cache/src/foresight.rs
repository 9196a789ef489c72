//! What guests will read next: the miners of each disk, the guesses that wait, and what each tenant's may cost.
//!
//! ```text
//!   a guest's read ─► miners of the disk ─► guesses that wait ─► Price ─┬─► fetched (`reads/ahead.rs`)
//!                                                ▲                      └─► refused: the miner hears of it
//!                                                └─ until no read of the disk waits at its origin
//! ```
//!
//! The crate [`prefetch`] guesses and says what a guess may cost. What was fetched is in the pool of frames, which tells
//! of what left unread by its label.
//!
//! Invariants:
//! - A price hears of each block that was fetched on its word once: that it was used, or wasted. A price that was
//!   forgotten, or set anew, hears of none of those before it: a [`Promise`] names the price.
//! - What a guest reads because it was told of it teaches the price nothing: one guess of [`HELD_OUT`] is not told, and that one does.
//! - While guests' reads of a disk's origin take [`SLOW_PERCENT`] longer than they do with nothing fetched beside them, nothing
//!   is fetched for the disk.
//! - At most [`DISK_BLOCKS_MAX`] blocks are on their way for a disk and [`BLOCKS_MAX`] for all, and at most
//!   [`WAITING_MAX`] guesses of a disk wait.

use admission::Key as Frame;
use block_io::Slice;
use destage::ReadTimes;
use frames::{AHEAD_PARTS, Frames};
use prefetch::{Answer, Guess, Key, Label, Miner, Price, Run, Setup, Specs, price};
use std::collections::VecDeque;
use units::{BlockIndex, Bytes, DiskSlot, Duration, Map, Set, TenantSlot};

/// Blocks that may be on their way for a disk: two reads of a mebibyte.
const DISK_BLOCKS_MAX: u64 = 512;
/// The same for all disks: 16 MiB.
const BLOCKS_MAX: u64 = 4096;
/// Guesses of a disk that may wait: what one read may bring of each miner.
const WAITING_MAX: usize = prefetch::miner::GUESSES_MAX * Specs::COUNT_MAX;

/// A guest's reads of an origin may take so much longer than is usual while guesses are fetched.
const SLOW_PERCENT: u64 = 50;

/// The label of a block of which the guest was told is so much higher.
const TOLD: u8 = 32;

/// Of so many guesses one is held out: the guest is not told, so that what it reads says something of the guess.
const HELD_OUT: u64 = 8;

const _: () = assert!(TOLD as usize == Specs::COUNT_MAX * 8);
const _: () = assert!(frames::LABELS == 2 * TOLD as usize);

/// The frames of a cache.
type Pool = Frames<Frame, Slice>;

/// Whose price fetched a block, and which of its guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) tenant: TenantSlot,
    price: u64,
    label: Label,
    /// The guest is told when its blocks are here.
    pub(crate) is_told: bool,
}

impl Promise {
    /// For the frame of the block.
    pub(crate) fn label(self) -> u8 {
        self.label.get() + if self.is_told { TOLD } else { 0 }
    }
}

/// What became of the guesses of a tenant's disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// Blocks that were fetched.
    pub fetched_blocks: u64,
    /// Of these, read before they left memory.
    pub used_blocks: u64,
    /// Of those that were read, blocks of which the guest had been told: it may have read them ahead.
    pub told_blocks: u64,
    /// Of these, left unread.
    pub wasted_blocks: u64,
    /// Guesses that were not worth their price.
    pub refused_guesses: u64,
    /// Guesses that were overtaken: the guest's reads kept the origin busy.
    pub dropped_guesses: u64,
    /// Main memory of miners and price.
    pub memory: Bytes,
}

struct OfDisk {
    tenant: TenantSlot,
    miners: Vec<Box<dyn Miner>>,
    waiting: VecDeque<Due>,
    coming: u64,
    /// How long its origin's reads take that a guest waits for.
    origin: ReadTimes,
}

struct OfTenant {
    /// Told from any other one.
    number: u64,
    price: Price,
    /// Prefetched blocks that the tenant may have, as the price knows.
    ahead_max: u32,
    /// Guesses that were fetched.
    guesses: u64,
    seen: Foreseen,
}

/// A guess that waits for its turn, or whose turn has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    miner: usize,
    pub(crate) guess: Guess,
}

/// The miners of all disks, and the prices of all tenants.
#[derive(Default)]
pub(crate) struct Foresight {
    specs: Specs,
    disks: Map<DiskSlot, OfDisk>,
    tenants: Map<TenantSlot, OfTenant>,
    coming: u64,
    prices: u64,
    guesses: Vec<Guess>,
    /// Disks whose guests read ahead what they are told of.
    listening: Set<DiskSlot>,
}

impl Foresight {
    /// These guess from now on. What was fetched before, and is not read yet, is dropped.
    pub(crate) fn set(&mut self, specs: &Specs, frames: &mut Pool) {
        if *specs == self.specs {
            return;
        }
        self.specs = specs.clone();
        self.clear();
        frames.ahead().evict_all();
    }

    /// All that was fetched has left memory, untold.
    pub(crate) fn clear(&mut self) {
        self.disks.clear();
        self.tenants.clear();
    }

    /// Whether anybody guesses.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.specs.is_empty()
    }

    /// A disk has left: what is on its way for it is nobody's.
    pub(crate) fn forget_disk(&mut self, disk: DiskSlot) {
        self.disks.remove(&disk);
        self.listening.remove(&disk);
    }

    /// Whether the guest of a disk reads ahead what it is told of, from now on.
    pub(crate) fn set_listening(&mut self, disk: DiskSlot, listens: bool) {
        if listens {
            self.listening.insert(disk);
        } else {
            self.listening.remove(&disk);
        }
    }

    /// The guest of a disk has read so many blocks because it was told of them, and has not used them.
    pub(crate) fn unused_by_guest(&mut self, disk: DiskSlot, blocks: u64) {
        let known = self.disks.get(&disk);
        if let Some(of) = known.and_then(|known| self.tenants.get_mut(&known.tenant)) {
            of.price.unused_by_guest(blocks);
        }
    }

    /// A tenant has left.
    pub(crate) fn forget_tenant(&mut self, tenant: TenantSlot) {
        self.tenants.remove(&tenant);
    }

    /// Blocks of a disk were changed.
    pub(crate) fn changed(&mut self, disk: DiskSlot, first: BlockIndex, count: u64) {
        let Some(of) = self.disks.get_mut(&disk) else {
            return;
        };
        if let Some(run) = Run::new(first.get(), count) {
            for miner in &mut of.miners {
                miner.changed(run);
            }
        }
    }

    /// A guest of this tenant reads blocks of a disk of so many; `hit` if no origin was asked. What the miners make of that
    /// waits.
    pub(crate) fn read(
        &mut self,
        (disk, disk_blocks): (DiskSlot, u64),
        tenant: TenantSlot,
        (run, hit): (Run, bool),
        frames: &mut Pool,
    ) {
        let ahead_max = frames.ahead_max(tenant);
        if ahead_max == 0 {
            return;
        }
        frames.ahead().demanded(tenant, u64::from(run.blocks()));
        let of = self.price_of(tenant, ahead_max);
        of.hear(tenant, frames);
        for block in run.iter() {
            of.price.demanded(key(disk, block));
        }
        let specs = &self.specs;
        let known = self.disks.entry(disk).or_insert_with(|| {
            let setup = Setup {
                disk_blocks,
                memory_blocks: u64::from(ahead_max) * u64::from(AHEAD_PARTS),
            };
            OfDisk {
                tenant,
                miners: specs.iter().map(|spec| spec.build(setup)).collect(),
                waiting: VecDeque::new(),
                coming: 0,
                origin: ReadTimes::default(),
            }
        });
        for (number, miner) in known.miners.iter_mut().enumerate() {
            self.guesses.clear();
            miner.read(run, hit, &mut self.guesses);
            let due = self.guesses.iter().map(|guess| Due {
                miner: number,
                guess: *guess,
            });
            known.waiting.extend(due);
        }
        while known.waiting.len() > WAITING_MAX
            && let Some(overtaken) = known.waiting.pop_front()
        {
            let from = overtaken.guess.run.first();
            known.miners[overtaken.miner].refused(from);
            if let Some(of) = self.tenants.get_mut(&tenant) {
                of.seen.dropped_guesses += 1;
            }
        }
    }

    fn price_of(&mut self, tenant: TenantSlot, ahead_max: u32) -> &mut OfTenant {
        // As many may be outstanding as the tenant may have.
        let memory_blocks = u64::from(ahead_max) * price::MEMORY_OF_OUTSTANDING;
        let (miners, prices) = (self.specs.len(), &mut self.prices);
        let of = self.tenants.entry(tenant).or_insert_with(|| {
            *prices += 1;
            OfTenant {
                number: *prices,
                price: Price::new(price::Settings::of_memory(memory_blocks), miners),
                ahead_max,
                guesses: 0,
                seen: Foreseen::default(),
            }
        });
        if of.ahead_max != ahead_max {
            of.ahead_max = ahead_max;
            of.price.set_memory(memory_blocks);
        }
        of
    }

    /// The next guess of a disk whose turn it is, if more may be on its way.
    pub(crate) fn next(&mut self, disk: DiskSlot) -> Option<Due> {
        let of = self.disks.get_mut(&disk)?;
        let is_slow = of.origin.is_slow(SLOW_PERCENT);
        if is_slow || of.coming >= DISK_BLOCKS_MAX || self.coming >= BLOCKS_MAX {
            return None;
        }
        of.waiting.pop_front()
    }

    /// A read of a disk's origin that a guest waited for took so long.
    pub(crate) fn origin_took(&mut self, disk: DiskSlot, time: Duration) {
        if let Some(of) = self.disks.get_mut(&disk) {
            of.origin.took(time, of.coming > 0);
        }
    }

    /// Whether a guess is worth the blocks that are nowhere here. If not, its miner hears of it.
    pub(crate) fn offer(
        &mut self,
        disk: DiskSlot,
        due: Due,
        lacking: impl Iterator<Item = BlockIndex>,
    ) -> Option<Promise> {
        let known = self.disks.get_mut(&disk)?;
        let tenant = known.tenant;
        let of = self.tenants.get_mut(&tenant)?;
        let keys: Vec<Key> = lacking.map(|block| key(disk, block)).collect();
        match of.price.offer(due.miner, due.guess.confidence, &keys) {
            Answer::Fetch(label) => {
                let count = keys.len() as u64;
                of.seen.fetched_blocks += count;
                of.guesses += 1;
                known.coming += count;
                self.coming += count;
                Some(Promise {
                    tenant,
                    price: of.number,
                    label,
                    is_told: self.listening.contains(&disk) && !of.guesses.is_multiple_of(HELD_OUT),
                })
            }
            Answer::Refuse => {
                of.seen.refused_guesses += 1;
                known.miners[due.miner].refused(due.guess.run.first());
                None
            }
        }
    }

    /// Blocks that were fetched have come, or will not.
    pub(crate) fn came(&mut self, disk: DiskSlot, promise: Promise, blocks: u64) {
        self.coming -= blocks;
        let is_its = self.is_current(promise);
        if let Some(of) = self.disks.get_mut(&disk)
            && is_its
        {
            of.coming = of.coming.saturating_sub(blocks);
        }
    }

    /// Whether the price that fetched a block is still there.
    pub(crate) fn is_current(&self, promise: Promise) -> bool {
        let of = self.tenants.get(&promise.tenant);
        of.is_some_and(|of| of.number == promise.price)
    }

    /// A guest waited for a block that was on its way, and has it.
    pub(crate) fn used(&mut self, promise: Promise) {
        if let Some(of) = self.current(promise) {
            of.used(promise.label.get());
        }
    }

    /// A block that came had no place, or is not right any more.
    pub(crate) fn wasted(&mut self, promise: Promise) {
        if let Some(of) = self.current(promise) {
            of.wasted(promise.label.get(), 1);
        }
    }

    /// A guest read a block from its frame, of a disk of this tenant.
    pub(crate) fn used_from_memory(&mut self, tenant: TenantSlot, label: u8) {
        if let Some(of) = self.tenants.get_mut(&tenant) {
            of.used(label);
        }
    }

    fn current(&mut self, promise: Promise) -> Option<&mut OfTenant> {
        let of = self.tenants.get_mut(&promise.tenant)?;
        (of.number == promise.price).then_some(of)
    }

    /// What became of a tenant's guesses; none if there were none.
    pub(crate) fn seen(&self, tenant: TenantSlot) -> Option<Foreseen> {
        let of = self.tenants.get(&tenant)?;
        let disks = self.disks.values().filter(|disk| disk.tenant == tenant);
        let miners: Bytes = disks.map(OfDisk::memory).sum();
        Some(Foreseen {
            memory: miners + of.price.memory(),
            ..of.seen
        })
    }

    /// Main memory of all miners and prices.
    pub(crate) fn memory(&self) -> Bytes {
        let miners = self.disks.values().map(OfDisk::memory);
        let prices = self.tenants.values().map(|of| of.price.memory());
        miners.chain(prices).sum()
    }
}

impl OfDisk {
    fn memory(&self) -> Bytes {
        self.miners.iter().map(|miner| miner.memory()).sum()
    }
}

impl OfTenant {
    /// Hears of what has left the pool unread.
    fn hear(&mut self, tenant: TenantSlot, frames: &mut Pool) {
        frames.ahead().take_unread(tenant, |label, count| {
            self.wasted(label, count);
        });
    }

    fn used(&mut self, label: u8) {
        let (label, is_told) = kind_of(label);
        if is_told {
            self.price.read_when_told(label);
        } else {
            self.price.used(label);
        }
        self.seen.used_blocks += 1;
        self.seen.told_blocks += u64::from(is_told);
    }

    fn wasted(&mut self, label: u8, count: u32) {
        let (label, is_told) = kind_of(label);
        for _ in 0..count {
            if is_told {
                self.price.wasted_when_told(label);
            } else {
                self.price.wasted(label);
            }
        }
        self.seen.wasted_blocks += u64::from(count);
    }
}

/// Which guesses a label is of, and whether the guest was told.
fn kind_of(label: u8) -> (Label, bool) {
    (Label::from_number(label % TOLD), label >= TOLD)
}

fn key(disk: DiskSlot, block: BlockIndex) -> Key {
    let disk = u16::try_from(disk.index()).expect("a slot is 16 bits");
    Key::new(disk, block)
}
