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

use super::{GuestReads, count_use};
use crate::admitter::Admitter;
use crate::guard::{Guard, holds};
use crate::purpose::Hit;
use crate::under_way::ReadId;
use admission::Key;
use block_io::{PAGE_BYTES, Place, Slice};
use segment_log::Source;
use units::{BlockIndex, Offset, TenantSlot};

// Calls of their own, so that a hit of the flash without memory before it does not pay for them.

/// Answers the block at byte `at`, which is on flash, from memory if it is hot; returns where it ends.
#[cold]
#[inline(never)]
pub(super) fn read_hot(of: &mut GuestReads<'_>, id: ReadId, at: u64, end: u64) -> Option<u64> {
    let block = BlockIndex::containing(Offset::new(at));
    let bytes = InMemory(of).hot_on_flash(id, block)?;
    Some(of.read_from_memory(id, at, end, &bytes))
}

/// Handles the run of blocks that starts at byte `at` and is not on flash: from memory, or else from the origin; returns
/// where it ends.
#[inline(never)]
pub(super) fn read_or_fetch(of: &mut GuestReads<'_>, id: ReadId, at: u64, end: u64) -> u64 {
    let block = BlockIndex::containing(Offset::new(at));
    if let Some(bytes) = InMemory(of).not_on_flash(id, block) {
        return of.read_from_memory(id, at, end, &bytes);
    }
    let disk = of.state.reads.get(id).disk();
    of.read_miss_run(id, disk, at, end)
}

/// Blocks of a hit that is over, whole: those whose copies the index still has may have frames.
#[cold]
#[inline(never)]
pub(super) fn keep(of: &mut GuestReads<'_>, hit: &Hit, pages: &[u8]) {
    InMemory(of).keep(hit, pages);
}

/// The same of what a read has brought into a guest's memory, which the guest may have changed meanwhile: it is looked at
/// again.
#[cold]
#[inline(never)]
pub(super) fn keep_from(of: &mut GuestReads<'_>, hit: &Hit, place: &Place) {
    InMemory(of).keep_from(hit, place);
}

/// What a read finds in memory, and what of a read is kept there.
struct InMemory<'a, 'b>(&'a mut GuestReads<'b>);

impl InMemory<'_, '_> {
    fn hot_on_flash(&mut self, id: ReadId, block: BlockIndex) -> Option<Slice> {
        let read = self.0.state.reads.get(id);
        let frames = self.0.admission.frames_mut();
        let bytes = frames.hit(Key::new(read.disk(), block))?.clone();
        count_use(read, self.0.disks, self.0.admission, block, 1);
        self.0.disks.stats(read.disk()).read_block_hot_hits += 1;
        Some(bytes)
    }

    fn not_on_flash(&mut self, id: ReadId, block: BlockIndex) -> Option<Slice> {
        let read = self.0.state.reads.get(id);
        let (disk, is_prefetch) = (read.disk(), read.is_prefetch());
        let key = Key::new(disk, block);
        if let Some(bytes) = self.0.admission.staged(key) {
            let bytes = bytes.clone();
            self.count_staged(id, block);
            return Some(bytes);
        }
        let frames = self.0.admission.frames_mut();
        // An operator's prefetch wants it on flash, and asks the origin for it; and who waits for a fill that is on its way
        // is asked about it with that.
        if !(frames.has_hot() || frames.has_ahead())
            || is_prefetch
            || self.0.state.fills.covering(disk, block).is_some()
        {
            return None;
        }
        let bytes = if let Some(bytes) = frames.hit(key) {
            self.0.disks.stats(disk).read_block_hot_hits += 1;
            bytes.clone()
        } else {
            let (label, bytes) = frames.ahead().read(key)?;
            let tenant = self.0.disks.tenant_of(disk)?;
            self.0.state.foresight.used_from_memory(tenant, label);
            self.0.disks.stats(disk).read_block_ahead_hits += 1;
            bytes
        };
        self.offer(id, block, &bytes);
        Some(bytes)
    }

    fn count_staged(&mut self, id: ReadId, block: BlockIndex) {
        let read = self.0.state.reads.get(id);
        let (vm, disk) = (read.vm(), read.disk());
        self.0.disks.stats(disk).read_block_staged_hits += 1;
        if let Some(views) = self.0.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        if let (Some(arrival), false) = (read.arrival(), read.is_prefetch()) {
            Admitter::new(
                self.0.admission,
                self.0.flash.as_mut(),
                self.0.disks,
                self.0.ports,
            )
            .staged_hit(arrival, disk, block);
        }
    }

    /// A block is read that is not on flash, and whose bytes are at hand.
    fn offer(&mut self, id: ReadId, block: BlockIndex, bytes: &Slice) {
        let read = self.0.state.reads.get(id);
        let (vm, arrival, disk) = (read.vm(), read.arrival().copied(), read.disk());
        if let Some(views) = self.0.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        Admitter::new(
            self.0.admission,
            self.0.flash.as_mut(),
            self.0.disks,
            self.0.ports,
        )
        .offer_at_hand(arrival, Source::Fill, (disk, block), bytes);
    }

    fn keep_from(&mut self, hit: &Hit, place: &Place) {
        if self.keeper(hit).is_none() {
            return;
        }
        let Some(flash) = self.0.flash.source_mut(hit.dirty) else {
            return;
        };
        let mut copy = self.0.ports.pool().take(place.len());
        let ports = &mut self.0.ports.store;
        let is_whole = flash.is_whole_in(ports, hit.slot, hit.count, place, |i, page| {
            let at = i as usize * PAGE_BYTES;
            copy[at..at + PAGE_BYTES].copy_from_slice(page);
        });
        if is_whole {
            self.keep(hit, &copy[..place.len()]);
        }
    }

    /// Whose frames what a read brings may have, if it may have any.
    fn keeper(&self, hit: &Hit) -> Option<TenantSlot> {
        let tenant = self.0.disks.tenant_of(hit.disk).filter(|_| !hit.dirty);
        tenant.filter(|tenant| self.0.admission.frames().keeps_hot(*tenant))
    }

    fn keep(&mut self, hit: &Hit, pages: &[u8]) {
        let (Some(tenant), Some(flash)) = (self.keeper(hit), self.0.flash.as_ref()) else {
            return;
        };
        let pool = self.0.ports.pool();
        for (i, page) in (0..hit.count).zip(pages.chunks_exact(PAGE_BYTES)) {
            let block = hit.first.advance(u64::from(i));
            let is_the_copy = flash.facts().copy_of(hit.disk, block) == Some(hit.slot.advance(i))
                && !self.0.writes.overlaps(hit.disk, block, 1);
            if is_the_copy || !holds(Guard::FrameDies) {
                let key = Key::new(hit.disk, block);
                let frames = self.0.admission.frames_mut();
                frames.read(tenant, key, || pool.copy_of(page));
            }
        }
    }
}
