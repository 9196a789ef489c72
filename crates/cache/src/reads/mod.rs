//! A guest's read: runs of blocks from flash, from memory, and from the origin.
//!
//! ```text
//!  request ─► runs ─┬─ on flash ──► read, verify ──┬─► part
//!                   │                  wrong, late └─► origin ─► part
//!                   ├─ in memory: staged, hot, ahead ─► part
//!                   ├─ being fetched ─► join the fill ─► part
//!                   └─ nowhere ─► fill ─► part, and admit
//! ```
//!
//! The reply goes out when every part is there, or with the first error.

mod ahead;
mod hits;
mod in_memory;
mod misses;
mod prefetch;

pub(crate) use hits::Filled;

use ahead::Foreseeing;

use crate::admitter::Admission;
use crate::disks::Disks;
use crate::fills::Fills;
use crate::flash_use::FlashUse;
use crate::foresight::Foresight;
use crate::host_record::HostRecord;
use crate::limits::RUN_BLOCKS_MAX;
use crate::ports::Ports;
use crate::prefetches::Prefetches;
use crate::purpose::Hit;
use crate::request::Span;
use crate::slow_reads::SlowReads;
use crate::under_way::{Aim, Ended, Read, ReadId, Reads, blocks_to, index};
use crate::writes::Writes;
use admission::Key;
use block_io::{IoError, Slice};
use block_store::Location;
use std::ops::Range;
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, DiskSlot, FlashSlot, Offset, TenantSlot};

/// The parts of a cache that guests' reads see, and change.
pub(crate) struct GuestReads<'a> {
    state: &'a mut ReadState,
    writes: &'a Writes,
    admission: &'a mut Admission,
    flash: &'a mut FlashUse,
    host_record: &'a HostRecord,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

/// Reads that are under way, prefetches among them, what is on its way for them, and whether the flash is slow.
#[derive(Default)]
pub(crate) struct ReadState {
    reads: Reads,
    fills: Fills,
    prefetches: Prefetches,
    foresight: Foresight,
    /// A guest's read that is being begun lacks a block.
    lacks: bool,
    slow: SlowReads,
    /// Reads into memory that is not ours which were given up and have not ended.
    stranded: usize,
}

impl ReadState {
    /// What is on its way from origins.
    pub(crate) fn fills(&self) -> &Fills {
        &self.fills
    }

    /// The same, for who writes: what is on its way may be older.
    pub(crate) fn fills_mut(&mut self) -> &mut Fills {
        &mut self.fills
    }

    /// What guests are thought to read next.
    pub(crate) fn foresight(&self) -> &Foresight {
        &self.foresight
    }

    /// The same, for who changes what it is about.
    pub(crate) fn foresight_mut(&mut self) -> &mut Foresight {
        &mut self.foresight
    }

    /// Whether the flash is late with reads.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.is_slow()
    }
}

impl<'a> GuestReads<'a> {
    /// For one event.
    #[inline]
    pub(crate) fn new(
        state: &'a mut ReadState,
        writes: &'a Writes,
        admission: &'a mut Admission,
        flash: &'a mut FlashUse,
        host_record: &'a HostRecord,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            state,
            writes,
            admission,
            flash,
            host_record,
            disks,
            ports,
        }
    }

    /// What is read ahead of guests.
    fn foreseeing(&mut self) -> Foreseeing<'_, 'a> {
        Foreseeing::of(self)
    }

    /// A guest asks to read.
    #[inline]
    pub(crate) fn read(&mut self, span: Span, aim: Aim) {
        let Span { disk, vm, .. } = span;
        let (offset, end) = (span.offset.get(), span.end().get());
        let cached_end = if self.flash.is_in_use() || self.flash.has_dirty(disk) {
            self.disks.cached_end(disk)
        } else {
            0
        };
        let prefetch = matches!(aim, Aim::CacheOnly);
        let arrival = self.read_arrives(disk, vm, offset, end.min(cached_end), prefetch);
        // Held until every part is issued, so that none completes the read early.
        let id = self.state.reads.begin(&span, arrival, aim);
        if prefetch {
            return self.begin_prefetch(id, disk, offset);
        }
        let mut at = offset;
        while at < end.min(cached_end) {
            at = self.read_run(id, disk, at, end.min(cached_end));
        }
        if at < end {
            self.read_direct(id, disk, at, end);
        }
        self.let_go(id);
        if self.state.foresight.is_on() {
            ahead::after_read(self, disk, offset..end.min(cached_end));
        }
    }

    /// Handles the run of blocks that starts at byte `at`; returns where it ends.
    #[allow(
        clippy::inline_always,
        reason = "a hit's path: a call costs 20 instructions of 3,900"
    )]
    #[inline(always)]
    pub(super) fn read_run(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) -> u64 {
        let block = BlockIndex::containing(Offset::new(at));
        if self.flash.has_dirty(disk)
            && let Some(end) = self.read_dirty_run(id, disk, at, end)
        {
            return end;
        }
        let Some(flash) = self.flash.as_mut() else {
            return self.read_between_dirty(id, disk, at, end);
        };
        match flash.locate(&self.ports.store, disk, block) {
            Location::Memory(bytes) => {
                self.count_hits(id, block, 1);
                self.read_from_memory(id, at, end, &bytes)
            }
            Location::Flash(slot) => {
                if self.admission.frames().has_hot()
                    && let Some(end) = in_memory::read_hot(self, id, at, end)
                {
                    return end;
                }
                self.read_hit_run(id, disk, at, end, slot)
            }
            Location::Nowhere => in_memory::read_or_fetch(self, id, at, end),
        }
    }

    /// Tells the admission of the request, but for the part that is never cached.
    #[inline]
    fn read_arrives(
        &mut self,
        disk: DiskSlot,
        vm: TenantSlot,
        offset: u64,
        end: u64,
        prefetch: bool,
    ) -> Option<Arrival> {
        if offset >= end || self.admission.is_open() {
            return None;
        }
        let first = BlockIndex::containing(Offset::new(offset));
        let request = tenancy::Request {
            vm,
            tenant: self.disks.tenant_of(disk)?,
            disk,
            first,
            count: blocks_to(first, end),
            write: false,
            now: self.ports.now(),
        };
        self.admission.arrives(&request, !prefetch)
    }

    /// Answers the rest of a block, from byte `at`, from its bytes in memory.
    pub(super) fn read_from_memory(&mut self, id: ReadId, at: u64, end: u64, bytes: &Slice) -> u64 {
        let block = BlockIndex::containing(Offset::new(at));
        let stop = block.next().start().get().min(end);
        let from = index(at % BLOCK_BYTES);
        let part = self.state.reads.add_part(id, at);
        self.fill_part(id, part, bytes.slice(from..from + index(stop - at)));
        stop
    }

    #[allow(
        clippy::inline_always,
        reason = "a hit's path: a call costs 20 instructions of 3,900"
    )]
    #[inline(always)]
    fn read_hit_run(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
        slot: FlashSlot,
    ) -> u64 {
        let first = BlockIndex::containing(Offset::new(at));
        let blocks = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let flash = self.flash.as_mut().expect("the block was located on it");
        let count = flash.clean_run(disk, first, slot, blocks);
        let stop = first.advance(u64::from(count)).start().get().min(end);
        let read = self.state.reads.get(id);
        let is_prefetch = read.is_prefetch();
        count_hits(read, self.disks, self.admission, first, count);
        if is_prefetch {
            return stop;
        }
        if self.state.slow.is_slow() {
            self.read_past_flash(id, at..stop, slot, count);
        } else {
            self.read_slots(id, at..stop, slot, count, false);
        }
        stop
    }

    /// Reads the bytes `bytes` of the disk from slots that follow each other, from `slot` on.
    #[allow(
        clippy::inline_always,
        reason = "a hit's path: a call costs 20 instructions of 3,900"
    )]
    #[inline(always)]
    pub(super) fn read_slots(
        &mut self,
        id: ReadId,
        bytes: Range<u64>,
        slot: FlashSlot,
        count: u32,
        dirty: bool,
    ) {
        let part = self.state.reads.add_part(id, bytes.start);
        // Only what the origin has as well: a read that has to be repeated may find it elsewhere.
        let read = self.state.reads.get(id);
        let disk = read.disk();
        let place = if read.has_place() && !dirty {
            self.place_for(id, &bytes)
        } else {
            None
        };
        let hit = Hit {
            dirty,
            in_place: place.is_some(),
            ..hit_of(id, part, disk, &bytes, (slot, count))
        };
        // What has failed still has what is nowhere else.
        let flash = self.flash.source_mut(dirty);
        let flash = flash.expect("the blocks were located on it");
        hit.read(flash, self.ports, place);
    }

    /// Counts a run of blocks (or parts) that a read found on flash or on its way there.
    #[inline]
    pub(super) fn count_hits(&mut self, id: ReadId, first: BlockIndex, count: u32) {
        let read = self.state.reads.get(id);
        count_hits(read, self.disks, self.admission, first, count);
    }

    /// A part of a read has come.
    #[inline]
    pub(super) fn fill_part(&mut self, id: ReadId, part: usize, bytes: Slice) {
        let ended = self.state.reads.fill(id, part, bytes);
        self.end_read(ended);
    }

    /// A part of a read cannot be had.
    pub(super) fn fail_part(&mut self, id: ReadId, error: IoError) {
        let ended = self.state.reads.fail(id, error);
        self.end_read(ended);
    }

    /// What a read was held for once is over.
    #[inline]
    pub(super) fn let_go(&mut self, id: ReadId) {
        let ended = self.state.reads.let_go(id);
        self.end_read(ended);
    }

    /// Answers a read, if it has ended.
    #[inline]
    pub(super) fn end_read(&mut self, ended: Option<Ended>) {
        if let Some(Ended { disk, answer }) = ended {
            self.disks.answer(self.ports, disk, answer);
        }
    }
}

/// Counts blocks (or parts) that a read found on flash or on its way there.
#[inline]
fn count_hits(
    read: &Read,
    disks: &mut Disks,
    admission: &mut Admission,
    first: BlockIndex,
    count: u32,
) {
    disks.stats(read.disk()).read_block_hits += u64::from(count);
    count_use(read, disks, admission, first, count);
}

/// Tells views and admission of blocks that are on flash, wherever a read has them from.
#[allow(
    clippy::inline_always,
    reason = "a hit's path: a call costs 20 instructions of 3,900"
)]
#[inline(always)]
fn count_use(
    read: &Read,
    disks: &mut Disks,
    admission: &mut Admission,
    first: BlockIndex,
    count: u32,
) {
    let disk = read.disk();
    if let Some(views) = disks.views(disk) {
        views.read(read.vm(), first, count.into(), true);
    }
    if let (Some(arrival), false) = (read.arrival(), read.is_prefetch()) {
        let blocks = (0..u64::from(count)).map(|i| first.advance(i));
        let keys = blocks.map(|block| Key::new(disk, block));
        admission.hits(arrival, keys);
    }
}

/// The read of a part of a request, into a buffer, from `count` slots that follow each other.
#[inline]
fn hit_of(
    read: ReadId,
    part: usize,
    disk: DiskSlot,
    bytes: &Range<u64>,
    (slot, count): (FlashSlot, u32),
) -> Hit {
    Hit {
        read,
        part,
        disk,
        first: BlockIndex::containing(Offset::new(bytes.start)),
        slot,
        count,
        skip: index(bytes.start % BLOCK_BYTES),
        length: index(bytes.end - bytes.start),
        abandoned: false,
        is_probe: false,
        dirty: false,
        in_place: false,
    }
}
