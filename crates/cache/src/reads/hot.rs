//! Blocks that are hot: copies in memory of what guests read.
//!
//! ```text
//!   on flash, hot ────► counted as a hit of the flash ─► part from memory
//!   not on flash, hot ► a miss with its bytes at hand ─► part from memory; admit | stage | refuse
//!   read from flash, whole, its copy still the one ─► worth a frame?
//!   fill that may be admitted ──────────────────────► worth a frame? (`admitter.rs`)
//! ```
//!
//! Use is counted as without the copies, so that admission, demand, reclaim and curves see what they would see.
//!
//! **A frame equals the origin's bytes, or is gone.** It leaves when a change to its block arrives, as a staged block
//! does. What comes from flash may be older than a change that arrived while it was read: it has a frame only if the
//! index still has that very copy, which a change takes out of it, and no write to the block is under way.

use super::GuestReads;
use crate::admitter::Admitter;
use crate::guard::{Guard, holds};
use crate::purpose::Hit;
use crate::under_way::ReadId;
use admission::Key;
use block_io::{Buf, PAGE_BYTES};
use units::{BlockIndex, DiskSlot, Offset};

impl GuestReads<'_> {
    /// Answers the block at byte `at`, which is on flash, from memory if it is hot; returns where it ends.
    #[inline(never)]
    pub(super) fn read_hot(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
    ) -> Option<u64> {
        let block = BlockIndex::containing(Offset::new(at));
        let bytes = self
            .admission
            .frames_mut()
            .hit(Key::new(disk, block))?
            .clone();
        self.count_use(id, block, 1);
        self.disks.stats(disk).read_block_hot_hits += 1;
        Some(self.read_from_memory(id, at, end, &bytes))
    }

    /// The same of a block that is not on flash: what becomes of it is asked as of a block that was fetched.
    pub(super) fn read_hot_miss(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
    ) -> Option<u64> {
        // A prefetch wants it on flash, and asks the origin for it.
        if !self.admission.frames().has_hot() || self.state.reads.get(id).is_prefetch() {
            return None;
        }
        let block = BlockIndex::containing(Offset::new(at));
        // A fill on its way would be asked about it as well.
        if self.state.fills.covering(disk, block).is_some() {
            return None;
        }
        let bytes = self
            .admission
            .frames_mut()
            .hit(Key::new(disk, block))?
            .clone();
        self.disks.stats(disk).read_block_hot_hits += 1;
        let read = self.state.reads.get(id);
        let (vm, arrival) = (read.vm(), read.arrival());
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        Admitter::new(self.admission, self.flash.as_mut(), self.disks, self.ports)
            .offer_hot(arrival, disk, block, &bytes);
        Some(self.read_from_memory(id, at, end, &bytes))
    }

    /// Where what a read brings into a guest's memory is copied to, if it may have frames.
    #[inline(never)]
    pub(super) fn page_for_hot(&self, hit: &Hit) -> Option<Buf> {
        let length = hit.count as usize * PAGE_BYTES;
        (!hit.abandoned && self.keeps_hot(hit)).then(|| self.ports.pool().take(length))
    }

    /// Whether what a read brings may have frames.
    pub(super) fn keeps_hot(&self, hit: &Hit) -> bool {
        let tenant = self.disks.tenant_of(hit.disk);
        !hit.dirty && tenant.is_some_and(|tenant| self.admission.frames().keeps_hot(tenant))
    }

    /// Blocks of a hit that is over, whole: those whose copies the index still has may have frames.
    #[inline(never)]
    pub(super) fn keep_hot(&mut self, hit: &Hit, pages: &[u8]) {
        let (Some(tenant), Some(flash)) = (self.disks.tenant_of(hit.disk), self.flash.as_ref())
        else {
            return;
        };
        let pool = self.ports.pool();
        for (i, page) in (0..).zip(pages.chunks_exact(PAGE_BYTES)) {
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
