//! What the flash has brought for a guest: verified, or had from elsewhere.
//!
//! Whole blocks go directly to where the guest wants them. Its memory can change while we look, so
//! a block that is not right there says nothing of the flash, nor does a read that failed: it is
//! read once more, into a buffer of ours, and that is believed.
//!
//! ```text
//!  read into the guest's memory ─► copied out, verified ─┬─ right ─► part
//!                                    wrong, failed ──────┴─► read into a buffer ─┐
//!  read into a buffer ◄──────────────────────────────────────────────────────────┘
//!          └─► verified ─┬─ right ─► part
//!                        └─ wrong, failed, late ─► origin ─► part
//! ```
//!
//! What the origin lacks comes from the log, and never from the origin. Flash that is slow is passed by, but for
//! probes that find out whether it is still (`slow_reads.rs`).
//!
//! Invariants:
//! - Nothing is answered as read that was not verified, here or by an origin.
//! - A read is not answered while the flash may still write into the guest's memory: one that takes
//!   too long has its bytes from the origin, and is answered when the flash has ended, too. Until
//!   it has, everybody else's reads go through buffers, which can be abandoned.

use super::{GuestReads, hit_of, in_memory};
use crate::guard::{Guard, holds};
use crate::limits::RUN_BLOCKS_MAX;
use crate::purpose::Hit;
use crate::under_way::{ReadId, blocks_to, index};
use block_io::{Buf, IoError, PAGE_BYTES, Place};
use block_store::Location;
use dirty_log::Found;
use std::ops::Range;
use units::{BLOCK_BYTES, BlockIndex, DiskSlot, FlashSlot, Offset};

/// What a read has filled.
pub(crate) enum Filled {
    /// A buffer, if the device gave it back.
    Ours(Option<Buf>),
    /// Where the guest wanted the bytes.
    Theirs(Place),
}

impl GuestReads<'_> {
    /// Where these bytes of a read can be put directly: whole blocks, as they lie on flash, while
    /// no other such read is stuck.
    #[inline(never)]
    pub(super) fn place_for(&self, id: ReadId, bytes: &Range<u64>) -> Option<Place> {
        let read = self.state.reads.get(id);
        let whole =
            bytes.start.is_multiple_of(BLOCK_BYTES) && bytes.end.is_multiple_of(BLOCK_BYTES);
        if !whole || self.state.stranded > 0 {
            return None;
        }
        let place = read.place(bytes)?;
        let flash = self.flash.as_ref()?;
        (!flash.ciphers().has(read.disk())).then_some(place)
    }

    /// A read from flash takes too long, and the guest's bytes come from elsewhere; but if they may
    /// still come into its memory, it has to wait for that.
    pub(super) fn hold_in_place(&mut self, hit: &Hit) {
        if hit.in_place {
            self.state.stranded += 1;
            self.state.reads.hold(hit.read);
        }
    }

    /// A run from flash has come, or has failed to. What is not surely right comes from the origin.
    #[inline]
    pub(crate) fn hit_done(&mut self, hit: &Hit, filled: Filled, result: Result<(), IoError>) {
        match filled {
            Filled::Ours(buf) => self.buffer_filled(hit, buf, result),
            Filled::Theirs(place) => self.place_filled(hit, &place, result),
        }
    }

    fn place_filled(&mut self, hit: &Hit, place: &Place, result: Result<(), IoError>) {
        if hit.abandoned {
            if let Some(flash) = self.flash.source_mut(hit.dirty) {
                flash.unpin(hit.slot);
            }
            self.state.stranded -= 1;
            return self.let_go(hit.read);
        }
        let Some(flash) = self.flash.source_mut(hit.dirty) else {
            return self.refetch(hit);
        };
        let ports = &mut self.ports.store;
        if result.is_ok() && flash.is_whole_in(ports, hit.slot, hit.count, place, |_, _| ()) {
            flash.succeeded();
            flash.unpin(hit.slot);
            self.ports.stats.in_place_bytes += place.len() as u64;
            if self.admission.frames().has_room_for_hot() {
                in_memory::keep_from(self, hit, place);
            }
            let ended = self.state.reads.filled_in_place(hit.read);
            return self.end_read(ended);
        }
        // Pinned anew before it is let go, so that the slot stays what it is.
        self.ports.stats.reads_repeated += 1;
        let again = Hit {
            in_place: false,
            ..hit.clone()
        };
        again.read(flash, self.ports, None);
        flash.unpin(hit.slot);
    }

    #[inline]
    fn buffer_filled(&mut self, hit: &Hit, mut buf: Option<Buf>, result: Result<(), IoError>) {
        let mut whole = false;
        // What has failed still has what is nowhere else.
        let flash = self.flash.source_mut(hit.dirty);
        if let Some(flash) = flash {
            flash.unpin(hit.slot);
            match (&result, &mut buf) {
                (Ok(()), Some(buf)) => {
                    flash.succeeded();
                    let pages = &mut buf[..hit.count as usize * PAGE_BYTES];
                    let ports = &mut self.ports.store;
                    whole = flash.verify(ports, hit.disk, hit.first, hit.slot, pages);
                    flash.ciphers().show(hit.disk, hit.first, pages);
                }
                _ => flash.failed(&mut self.ports.store),
            }
        }
        if hit.abandoned {
            return;
        }
        match buf {
            Some(buf) if whole => {
                let bytes = buf.freeze();
                if self.admission.frames().has_room_for_hot() {
                    in_memory::keep(self, hit, &bytes);
                }
                self.fill_part(
                    hit.read,
                    hit.part,
                    bytes.slice(hit.skip..hit.skip + hit.length),
                );
            }
            _ if hit.dirty && self.is_lost(hit) => {
                self.ports.stats.dirty_unreadable += 1;
                self.fail_part(hit.read, IoError::Failed);
            }
            _ => self.refetch(hit),
        }
    }

    /// A read from flash takes too long: the origin is asked instead.
    pub(crate) fn is_late(&mut self, hit: &Hit) {
        self.ports.stats.flash_timeouts += 1;
        self.hold_in_place(hit);
        self.refetch(hit);
        self.state.slow.late(self.ports.now());
    }

    /// A read from flash has ended.
    #[inline]
    pub(crate) fn took(&mut self, hit: &Hit, is_in_time: bool) {
        self.state
            .slow
            .ended(is_in_time, hit.is_probe, self.ports.now());
    }

    /// Reads the bytes `bytes` of a disk, which lie in slots that follow each other, past slow flash.
    pub(super) fn read_past_flash(
        &mut self,
        id: ReadId,
        bytes: Range<u64>,
        slot: FlashSlot,
        count: u32,
    ) {
        let part = self.state.reads.add_part(id, bytes.start);
        let (disk, length) = (self.state.reads.get(id).disk(), bytes.end - bytes.start);
        if self.state.slow.takes_probe(self.ports.now())
            && let Some(flash) = self.flash.as_mut()
        {
            let probe = Hit {
                // Nobody waits for it.
                abandoned: true,
                is_probe: true,
                ..hit_of(id, part, disk, &bytes, (slot, count))
            };
            probe.read(flash, self.ports, None);
        }
        self.fetch_part(id, part, disk, bytes.start, length);
    }

    /// Handles the run of blocks that starts at byte `at` if the origin lacks it; returns where it
    /// ends.
    #[inline(never)]
    pub(super) fn read_dirty_run(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
    ) -> Option<u64> {
        let block = BlockIndex::containing(Offset::new(at));
        let flash = self.flash.with_logs()?;
        match flash.dirty_logs().find(disk, block) {
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
        let first = BlockIndex::containing(Offset::new(at));
        let longest = first.advance(RUN_BLOCKS_MAX).start().get();
        let stop = erased.start().get().min(end).min(longest);
        let count = u32::try_from(blocks_to(first, stop)).expect("a run is short");
        self.count_hits(id, first, count);
        let length = index(stop - at);
        let zeroes = self.ports.pool().take_zeroed(length).freeze();
        let part = self.state.reads.add_part(id, at);
        self.fill_part(id, part, zeroes.slice(0..length));
        stop
    }

    /// Reads a run of blocks whose records follow each other.
    fn read_log(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64, slot: FlashSlot) -> u64 {
        let first = BlockIndex::containing(Offset::new(at));
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
        let first = BlockIndex::containing(Offset::new(at));
        let most = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let clean = |count: &u64| {
            let flash = self.flash.with_logs();
            flash.is_none_or(|flash| {
                flash.dirty_logs().find(disk, first.advance(*count)) == Found::Clean
            })
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
        blocks.any(|block| flash.dirty_logs().find(hit.disk, block) != Found::Clean)
    }
}
