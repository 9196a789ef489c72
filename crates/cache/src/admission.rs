//! What enters the flash: verdicts asked, and carried out.
//!
//! ```text
//!   a fill has come ───────────┐            ┌─ Admit ──► appended to the log
//!   a write of whole blocks,   ├─► verdict ─┼─ Stage ──► its bytes wait in memory (staging.rs)
//!   acknowledged (if allowed) ─┘            └─ Refuse ─► nothing is kept; the reason is counted
//! ```
//!
//! Asked is the brain (`brain.rs`); off, it admits every fill and no write. Whatever it says, only
//! bytes that surely equal the origin's get here: of a fill that crossed no write to its blocks, or
//! of a write that was alone on them.
//!
//! - A read that joined a fill is an access of its own: the block was read twice.
//! - A prefetch is explicit, so no policy is asked; the write budgets are. It is not demand.
//! - What a verdict of Admit could not carry out (no free segment, a full write buffer, no place in
//!   the index) is counted there and told to the brain.

use crate::cache::Cache;
use crate::fills::Fill;
use crate::guard::{Guard, holds};
use block_io::{PAGE_BYTES, Slice};
use policy::admission::{Fate, Staged, Verdict};
use segment_log::Source;
use tenancy::Arrival;
use units::{BlockIndex, DiskSlot, TenantSlot};

/// Names a block of any disk of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key(u64);

impl Key {
    #[inline]
    pub(crate) const fn new(disk: DiskSlot, block: BlockIndex) -> Self {
        Self((disk.get() as u64) << BlockIndex::BITS | block.get())
    }

    pub(crate) fn disk(self) -> DiskSlot {
        let disk = self.0 >> BlockIndex::BITS;
        DiskSlot::new(u16::try_from(disk).expect("a key begins with a disk"))
    }

    pub(crate) const fn block(self) -> BlockIndex {
        BlockIndex::new(self.0 & ((1 << BlockIndex::BITS) - 1))
    }
}

impl From<Key> for u64 {
    fn from(key: Key) -> Self {
        key.0
    }
}

/// Who asked, and how, for a block whose bytes are at hand.
#[derive(Clone, Copy)]
struct Asker {
    arrival: Option<Arrival>,
    prefetch: bool,
    source: Source,
}

impl Cache {
    /// The blocks of a fill are at hand.
    pub(crate) fn admit_fill(&mut self, fill: &Fill, bytes: &Slice) {
        if fill.killed && holds(Guard::KilledFillStaysOut) {
            self.ports.stats.killed_fills += 1;
            return;
        }
        for (number, waiter) in fill.waiters.iter().enumerate() {
            // Nobody is asked, so who else waited does not matter.
            if number > 0 && self.brain.is_off() {
                break;
            }
            let asker = self.asker_of(waiter.read);
            let first = waiter.skip / PAGE_BYTES;
            let end = (waiter.skip + waiter.length).div_ceil(PAGE_BYTES);
            let pages = bytes.chunks_exact(PAGE_BYTES).enumerate();
            for (at, page) in pages.take(end).skip(first) {
                let block = fill.first.advance(at as u64);
                if number == 0 || !self.is_kept(asker, fill.disk, block) {
                    self.offer(asker, fill.disk, block, page);
                }
            }
        }
    }

    fn asker_of(&self, read: crate::reads::ReadId) -> Asker {
        let read = &self.reads[read];
        Asker {
            arrival: self.brain.still(read.arrival),
            prefetch: read.is_prefetch(),
            source: Source::Fill,
        }
    }

    /// Another one who waited for a fill asks for a block of it: true if it is on flash or staged
    /// since the first one did.
    fn is_kept(&mut self, asker: Asker, disk: DiskSlot, block: BlockIndex) -> bool {
        let Some(flash) = self.flash.as_ref() else {
            return true;
        };
        let Some(arrival) = asker.arrival.filter(|_| !asker.prefetch) else {
            return true;
        };
        if flash.has_copy(disk, block) {
            self.told_hit(&arrival, disk, block, 1);
            return true;
        }
        let staged = self.staging.contains(Key::new(disk, block));
        if staged {
            self.staged_hit(&arrival, disk, block);
        }
        staged
    }

    /// A whole block was written that was not cached, and the origin has acknowledged it.
    pub(crate) fn offer_written(
        &mut self,
        arrival: Option<Arrival>,
        disk: DiskSlot,
        block: BlockIndex,
        page: &[u8],
    ) {
        let asker = Asker {
            arrival: self.brain.still(arrival),
            prefetch: false,
            source: Source::Update,
        };
        self.offer(asker, disk, block, page);
    }

    /// Asks what becomes of a block that is neither on flash nor staged, and does it.
    fn offer(&mut self, asker: Asker, disk: DiskSlot, block: BlockIndex, page: &[u8]) {
        let key = Key::new(disk, block);
        if self.brain.is_off() {
            if asker.source == Source::Fill {
                self.append(disk, block, asker.source, page);
            }
            return;
        }
        let verdict = match (self.brain.parts(), asker.arrival) {
            (Some((tenancy, _)), Some(arrival)) if asker.prefetch => {
                tenancy.asked_for(&arrival, key)
            }
            (Some((tenancy, left)), Some(arrival)) => tenancy.missed(&arrival, key, left),
            (None, _) | (_, None) => {
                self.ports.stats.not_admitted.settings += 1;
                return;
            }
        };
        self.let_go();
        match verdict {
            Verdict::Admit => self.let_in(disk, block, asker.source, page),
            Verdict::Stage => {
                // The flash may be gone for what the brain sent off before.
                if self.flash.is_in_use() {
                    self.staging.insert(key, page, &self.ports.pool);
                }
            }
            Verdict::Refuse(reason) => {
                self.ports.stats.not_admitted.refused.add(reason);
                if !holds(Guard::RefusedStaysOut) {
                    self.append(disk, block, asker.source, page);
                }
            }
        }
    }

    /// Appends a block that the brain lets in, and tells it if that cannot be done.
    fn let_in(&mut self, disk: DiskSlot, block: BlockIndex, source: Source, page: &[u8]) {
        if self.append(disk, block, source, page) {
            self.ports.stats.writes_allocated += u64::from(source == Source::Update);
            return;
        }
        if let (Some(tenant), Some(tenancy)) = (self.tenant_of(disk), self.brain.tenancy_mut()) {
            tenancy.withheld(tenant, Key::new(disk, block));
        }
    }

    /// Appends a block. True if it is in the cache now.
    pub(crate) fn append(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        page: &[u8],
    ) -> bool {
        let Some(flash) = self.flash.as_mut() else {
            return false;
        };
        let entered = flash.admit(&mut self.ports, disk, block, source, page);
        self.account();
        entered
    }

    /// A run of blocks that somebody reads, or writes, is on flash.
    #[inline]
    pub(crate) fn told_hit(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        first: BlockIndex,
        count: u32,
    ) {
        if let Some(tenancy) = self.brain.tenancy_mut() {
            let blocks = (0..u64::from(count)).map(|i| first.advance(i));
            tenancy.hits(arrival, blocks.map(|block| Key::new(disk, block)));
        }
    }

    /// A staged block is read: its bytes were served.
    pub(crate) fn staged_hit(&mut self, arrival: &Arrival, disk: DiskSlot, block: BlockIndex) {
        let key = Key::new(disk, block);
        let Some((tenancy, left)) = self.brain.parts() else {
            return;
        };
        let staged = tenancy.staged_hit(arrival, key, left);
        self.let_go();
        match staged {
            Staged::Stays => {}
            Staged::Drop => {
                self.staging.remove(key);
            }
            Staged::Admit => {
                if let Some(bytes) = self.staging.remove(key) {
                    self.let_in(disk, block, Source::Fill, &bytes);
                }
            }
        }
    }

    /// Does what the brain said about blocks that leave staging.
    pub(crate) fn let_go(&mut self) {
        if self.brain.left.is_empty() {
            return;
        }
        let mut left = std::mem::take(&mut self.brain.left);
        for (key, fate) in left.drain(..) {
            let bytes = self.staging.remove(key);
            if let (Some(bytes), Fate::Admit) = (bytes, fate) {
                self.let_in(key.disk(), key.block(), Source::Fill, &bytes);
            }
        }
        assert!(self.brain.left.is_empty(), "appending sends nothing off");
        self.brain.left = left;
    }

    /// A block is about to change, or its disk to leave: its staged bytes are stale.
    pub(crate) fn unstage(&mut self, tenant: TenantSlot, key: Key) {
        if self.staging.remove(key).is_some() {
            self.removed(tenant, key);
        }
    }

    /// A block is cached no longer for another reason than reclaim.
    pub(crate) fn removed(&mut self, tenant: TenantSlot, key: Key) {
        if let Some(tenancy) = self.brain.tenancy_mut() {
            tenancy.removed(tenant, key);
        }
    }

    /// Forgets every staged block of a disk.
    pub(crate) fn unstage_disk(&mut self, disk: DiskSlot, tenant: TenantSlot) {
        if self.staging.is_empty() {
            return;
        }
        for key in self.staging.of_disk(disk) {
            self.unstage(tenant, key);
        }
    }

    /// Tells disks and brain what was written to flash, and what reclaim dropped.
    pub(crate) fn account(&mut self) {
        for (disk, written) in self.ports.written.drain(..) {
            let tenant = disk.and_then(|disk| Some(self.disks[disk.index()].as_ref()?.tenant));
            if let Some(disk) = disk {
                let blocks = written.fill + written.update + written.reclaim;
                self.disk_stats[disk.index()].flash_written_bytes += blocks;
            }
            self.brain.charge(tenant, written);
        }
        for (disk, block) in self.ports.evicted.drain(..) {
            let served = self.disks[disk.index()].as_ref();
            if let (Some(served), Some(tenancy)) = (served, self.brain.tenancy_mut()) {
                tenancy.evicted(served.tenant, Key::new(disk, block));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_disk_and_block() {
        let (disk, block) = (
            DiskSlot::new(1023),
            BlockIndex::new((1 << BlockIndex::BITS) - 1),
        );
        let key = Key::new(disk, block);
        assert_eq!((key.disk(), key.block()), (disk, block));
        assert_eq!(u64::from(key) >> (BlockIndex::BITS + 10), 0);
    }
}
