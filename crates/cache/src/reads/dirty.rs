//! Reads of what the origin lacks: from the log, never from the origin.

use super::GuestReads;
use crate::guard::{Guard, holds};
use crate::limits::RUN_BLOCKS_MAX;
use crate::purpose::Hit;
use crate::under_way::{ReadId, blocks_to, index};
use block_io::IoError;
use block_store::Location;
use dirty_log::Found;
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

impl GuestReads<'_> {
    /// Handles the run of blocks that starts at byte `at` if the origin lacks it; returns where it
    /// ends.
    #[inline]
    pub(super) fn read_dirty_run(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
    ) -> Option<u64> {
        if !self.flash.has_dirty(disk) {
            return None;
        }
        let block = BlockIndex::containing(Bytes::new(at));
        let flash = self.flash.with_logs()?;
        match flash.dirty_state(disk, block) {
            Found::Clean => None,
            Found::Erased(_) if !holds(Guard::ErasedReadsZeroes) => None,
            Found::Erased(erased) => Some(self.read_zeroes(id, at, end, erased)),
            Found::Dirty(slot) => match flash.bytes_of(&self.ports.store, slot) {
                Location::Memory(bytes) => {
                    self.count_hits(id, block, 1);
                    Some(self.read_from_memory(id, at, end, &bytes))
                }
                Location::Flash(_) | Location::Nowhere => {
                    Some(self.read_log(id, disk, at, end, slot))
                }
            },
        }
    }

    fn read_zeroes(&mut self, id: ReadId, at: u64, end: u64, erased: BlockIndex) -> u64 {
        let first = BlockIndex::containing(Bytes::new(at));
        let longest = first.advance(RUN_BLOCKS_MAX).start().get();
        let stop = erased.start().get().min(end).min(longest);
        let count = u32::try_from(blocks_to(first, stop)).expect("a run is short");
        self.count_hits(id, first, count);
        let length = index(stop - at);
        let zeroes = self.ports.pool.take_zeroed(length).freeze();
        let part = self.state.reads.add_part(id, at);
        self.fill_part(id, part, zeroes.slice(0..length));
        stop
    }

    /// Reads a run of blocks whose records follow each other.
    fn read_log(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64, slot: FlashSlot) -> u64 {
        let first = BlockIndex::containing(Bytes::new(at));
        let most = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let flash = self.flash.with_logs().expect("the log is on it");
        let count = flash.dirty_run(&self.ports.store, disk, first, slot, most);
        let stop = first.advance(u64::from(count)).start().get().min(end);
        self.count_hits(id, first, count);
        if self.state.reads.get(id).is_prefetch() {
            return stop;
        }
        self.read_slots(id, at..stop, slot, count, true);
        stop
    }

    /// Without flash: what lies before the next block that the origin lacks comes from there.
    pub(super) fn read_between_dirty(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
    ) -> u64 {
        let first = BlockIndex::containing(Bytes::new(at));
        let most = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let clean = |count: &u64| {
            let flash = self.flash.with_logs();
            flash.is_none_or(|flash| flash.dirty_state(disk, first.advance(*count)) == Found::Clean)
        };
        let count = 1 + (1..most).take_while(clean).count() as u64;
        let stop = first.advance(count).start().get().min(end);
        if !self.state.reads.get(id).is_prefetch() {
            let part = self.state.reads.add_part(id, at);
            self.fetch_part(id, part, disk, at, stop - at);
        }
        stop
    }

    /// A read from a log will not end any more: what nobody else has is lost to its guest.
    pub(crate) fn is_unreadable(&mut self, hit: &Hit) {
        self.hold_in_place(hit);
        if self.is_lost(hit) {
            self.ports.stats.dirty_unreadable += 1;
            self.fail_part(hit.read, IoError::Failed);
        } else {
            // The origin has it since.
            self.refetch(hit);
        }
    }

    /// Whether what a read from the log could not get is nowhere else. If the origin has had it
    /// meanwhile, and nothing was written since, it can give it.
    pub(super) fn is_lost(&self, hit: &Hit) -> bool {
        if !holds(Guard::NoRefetchOfDirty) {
            return false;
        }
        let Some(flash) = self.flash.with_logs() else {
            return false;
        };
        let mut blocks = (0..u64::from(hit.count)).map(|i| hit.first.advance(i));
        blocks.any(|block| flash.dirty_state(hit.disk, block) != Found::Clean)
    }
}
