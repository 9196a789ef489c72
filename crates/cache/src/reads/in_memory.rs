//! What a read finds in memory: blocks that are staged, hot, or were prefetched.
//!
//! ```text
//!   on flash, hot ────────► counted as a hit of the flash ─► part from memory
//!   not on flash, staged ─► admit | stay | drop            ─► part from memory
//!   not on flash, hot ────► a miss with its bytes at hand  ─► part from memory; admit | stage | refuse
//!   not on flash, ahead ──► the same, and its frame goes
//!
//!   read from flash, whole, its copy still the one ─► worth a frame?
//!   fill that may be admitted ──────────────────────► worth a frame? (`admitter.rs`)
//! ```
//!
//! Use is counted as without memory, so that admission, demand, reclaim and curves see what they would see.
//!
//! **A frame equals the origin's bytes, or is gone.** It leaves when a change to its block arrives, whatever its kind.
//! What comes from flash may be older than a change that arrived while it was read: it has a frame only if the index
//! still has that very copy, which a change takes out of it, and no write to the block is under way.

use super::{GuestReads, ReadState, count_use};
use crate::admitter::{Admission, Admitter};
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::ports::Ports;
use crate::purpose::Hit;
use crate::under_way::ReadId;
use crate::writes::Writes;
use admission::Key;
use block_io::{PAGE_BYTES, Place, Slice};
use units::{BlockIndex, Offset};

// Calls of their own, so that a hit of the flash without memory before it does not pay for them.

/// Answers the block at byte `at`, which is on flash, from memory if it is hot; returns where it ends.
#[cold]
#[inline(never)]
pub(super) fn read_hot(of: &mut GuestReads<'_>, id: ReadId, at: u64, end: u64) -> Option<u64> {
    let block = BlockIndex::containing(Offset::new(at));
    let bytes = InMemory::new(of).hot_on_flash(id, block)?;
    Some(of.read_from_memory(id, at, end, &bytes))
}

/// Handles the run of blocks that starts at byte `at` and is not on flash: from memory, or else from the origin; returns
/// where it ends.
#[inline(never)]
pub(super) fn read_or_fetch(of: &mut GuestReads<'_>, id: ReadId, at: u64, end: u64) -> u64 {
    let block = BlockIndex::containing(Offset::new(at));
    if let Some(bytes) = InMemory::new(of).not_on_flash(id, block) {
        return of.read_from_memory(id, at, end, &bytes);
    }
    let disk = of.state.reads.get(id).disk();
    of.read_miss_run(id, disk, at, end)
}

/// Blocks of a hit that is over, whole: those whose copies the index still has may have frames.
#[cold]
#[inline(never)]
pub(super) fn keep(of: &mut GuestReads<'_>, hit: &Hit, pages: &[u8]) {
    InMemory::new(of).keep(hit, pages);
}

/// The same of what a read has brought into a guest's memory, which the guest may have changed meanwhile: it is looked at
/// again.
#[cold]
#[inline(never)]
pub(super) fn keep_from(of: &mut GuestReads<'_>, hit: &Hit, place: &Place) {
    InMemory::new(of).keep_from(hit, place);
}

/// The parts of a cache that blocks in memory touch.
struct InMemory<'a> {
    state: &'a mut ReadState,
    writes: &'a Writes,
    admission: &'a mut Admission,
    flash: &'a mut FlashUse,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

impl<'a> InMemory<'a> {
    fn new(of: &'a mut GuestReads<'_>) -> Self {
        Self {
            state: of.state,
            writes: of.writes,
            admission: of.admission,
            flash: of.flash,
            disks: of.disks,
            ports: of.ports,
        }
    }

    fn hot_on_flash(&mut self, id: ReadId, block: BlockIndex) -> Option<Slice> {
        let read = self.state.reads.get(id);
        let frames = self.admission.frames_mut();
        let bytes = frames.hit(Key::new(read.disk(), block))?.clone();
        count_use(read, self.disks, self.admission, block, 1);
        self.disks.stats(read.disk()).read_block_hot_hits += 1;
        Some(bytes)
    }

    fn not_on_flash(&mut self, id: ReadId, block: BlockIndex) -> Option<Slice> {
        let read = self.state.reads.get(id);
        let (disk, is_prefetch) = (read.disk(), read.is_prefetch());
        let key = Key::new(disk, block);
        if let Some(bytes) = self.admission.staged(key) {
            let bytes = bytes.clone();
            self.count_staged(id, block);
            return Some(bytes);
        }
        let frames = self.admission.frames_mut();
        // An operator's prefetch wants it on flash, and asks the origin for it; and who waits for a fill that is on its way
        // is asked about it with that.
        if !(frames.has_hot() || frames.has_ahead())
            || is_prefetch
            || self.state.fills.covering(disk, block).is_some()
        {
            return None;
        }
        let bytes = if let Some(bytes) = frames.hit(key) {
            self.disks.stats(disk).read_block_hot_hits += 1;
            bytes.clone()
        } else {
            let (label, bytes) = frames.ahead().read(key)?;
            let tenant = self.disks.tenant_of(disk)?;
            self.state.foresight.used_from_memory(tenant, label);
            self.disks.stats(disk).read_block_ahead_hits += 1;
            bytes
        };
        self.offer(id, block, &bytes);
        Some(bytes)
    }

    fn count_staged(&mut self, id: ReadId, block: BlockIndex) {
        let read = self.state.reads.get(id);
        let (vm, disk) = (read.vm(), read.disk());
        self.disks.stats(disk).read_block_staged_hits += 1;
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        if let (Some(arrival), false) = (read.arrival(), read.is_prefetch()) {
            Admitter::new(self.admission, self.flash.as_mut(), self.disks, self.ports)
                .staged_hit(arrival, disk, block);
        }
    }

    /// A block is read that is not on flash, and whose bytes are at hand.
    fn offer(&mut self, id: ReadId, block: BlockIndex, bytes: &Slice) {
        let read = self.state.reads.get(id);
        let (vm, arrival, disk) = (read.vm(), read.arrival().copied(), read.disk());
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        Admitter::new(self.admission, self.flash.as_mut(), self.disks, self.ports)
            .offer_at_hand(arrival, disk, block, bytes);
    }

    fn keep_from(&mut self, hit: &Hit, place: &Place) {
        if !self.keeps(hit) {
            return;
        }
        let Some(flash) = self.flash.source_mut(hit.dirty) else {
            return;
        };
        let mut copy = self.ports.pool().take(place.len());
        let ports = &mut self.ports.store;
        let is_whole = flash.is_whole_in(ports, hit.slot, hit.count, place, |i, page| {
            let at = i as usize * PAGE_BYTES;
            copy[at..at + PAGE_BYTES].copy_from_slice(page);
        });
        if is_whole {
            self.keep(hit, &copy[..place.len()]);
        }
    }

    /// Whether what a read brings may have frames.
    fn keeps(&self, hit: &Hit) -> bool {
        let tenant = self.disks.tenant_of(hit.disk);
        !hit.dirty && tenant.is_some_and(|tenant| self.admission.frames().keeps_hot(tenant))
    }

    fn keep(&mut self, hit: &Hit, pages: &[u8]) {
        let (Some(tenant), Some(flash)) = (self.disks.tenant_of(hit.disk), self.flash.as_ref())
        else {
            return;
        };
        if !self.keeps(hit) {
            return;
        }
        let pool = self.ports.pool();
        for (i, page) in (0..hit.count).zip(pages.chunks_exact(PAGE_BYTES)) {
            let block = hit.first.advance(u64::from(i));
            let is_the_copy = flash.facts().copy_of(hit.disk, block) == Some(hit.slot.advance(i))
                && !self.writes.overlaps(hit.disk, block, 1);
            if is_the_copy || !holds(Guard::FrameDies) {
                let key = Key::new(hit.disk, block);
                let frames = self.admission.frames_mut();
                frames.read(tenant, key, || pool.copy_of(page));
            }
        }
    }
}
