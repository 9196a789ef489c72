//! A guest's read: runs of blocks from flash, from memory, and from the origin.
//!
//! ```text
//!  request ─► runs ─┬─ on flash ──► read, verify ──┬─► part
//!                   │                  wrong, late └─► origin ─► part
//!                   ├─ in memory, staged ─────────────► part
//!                   ├─ being fetched ─► join the fill ─► part
//!                   └─ nowhere ─► fill ─► part, and admit
//! ```
//!
//! The reply goes out when every part is there, or with the first error.

use crate::RequestId;
use crate::api::Effect;
use crate::cache::Cache;
use crate::fills::{Fill, Waiter};
use crate::guard::{Guard, holds};
use crate::limits::RUN_BLOCKS_MAX;
use crate::parts::{self, Part, Parts};
use crate::ports::{Hit, OriginPurpose};
use crate::request::Span;
use admission::Key;
use block_io::{Buf, IoError, Landing, OriginVerb, Payload, Place, Slice};
use block_store::Location;
use dirty_log::Found;
use std::ops::Range;
use std::rc::Rc;
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, FlashSlot, TenantSlot};

pub(crate) type ReadId = usize;

/// A read or prefetch under way.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) request: RequestId,
    pub(crate) disk: DiskSlot,
    /// Who asks.
    vm: TenantSlot,
    /// What is remembered of the request for admission.
    pub(crate) arrival: Option<Arrival>,
    offset: u64,
    pub(crate) end: u64,
    pub(crate) aim: Aim,
    parts: Parts,
    /// Parts whose bytes are where the guest wants them.
    landed: u32,
    left: u32,
    error: Option<IoError>,
}

/// What a read is for.
#[derive(Clone, Debug)]
pub(crate) enum Aim {
    /// Its bytes, in buffers of ours.
    Buffers,
    /// Its bytes, there.
    Into(Rc<dyn Landing>),
    /// Only to bring blocks into the cache, piece by piece (`prefetch.rs`): no bytes are answered.
    CacheOnly,
}

impl Cache {
    pub(crate) fn read(&mut self, span: Span, aim: Aim) {
        let Span {
            id: request,
            disk,
            vm,
            ..
        } = span;
        let (offset, end) = (span.offset.get(), span.end().get());
        let cached_end = if self.flash.is_in_use() || self.has_dirty(disk) {
            self.disks.cached_end(disk)
        } else {
            0
        };
        let prefetch = matches!(aim, Aim::CacheOnly);
        let arrival = self.read_arrives(disk, vm, offset, end.min(cached_end), prefetch);
        // Held until every part is issued, so that none completes the read early.
        let id = self.reads.insert(Read {
            request,
            disk,
            vm,
            arrival,
            offset,
            end,
            aim,
            parts: Parts::new(),
            landed: 0,
            left: 1,
            error: None,
        });
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
        self.part_done(id);
    }

    /// Handles the run of blocks that starts at byte `at`; returns where it ends.
    pub(crate) fn read_run(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) -> u64 {
        let block = BlockIndex::containing(Bytes::new(at));
        if let Some(end) = self.read_dirty_run(id, disk, at, end) {
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
            Location::Flash(slot) => self.read_hit_run(id, disk, at, end, slot),
            Location::Nowhere => match self.admission.staged(Key::new(disk, block)) {
                Some(bytes) => {
                    let bytes = bytes.clone();
                    self.read_staged(id, disk, block);
                    self.read_from_memory(id, at, end, &bytes)
                }
                None => self.read_miss_run(id, disk, at, end),
            },
        }
    }

    /// Tells the admission of the request, but for the part that is never cached.
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
        let first = BlockIndex::containing(Bytes::new(offset));
        let request = tenancy::Request {
            vm,
            tenant: self.disks.tenant_of(disk)?,
            disk,
            first,
            count: blocks_to(first, end),
            write: false,
            now: self.ports.now,
        };
        self.admission.arrives(&request, !prefetch)
    }

    /// Answers the rest of a block, from byte `at`, from its bytes in memory.
    pub(crate) fn read_from_memory(&mut self, id: ReadId, at: u64, end: u64, bytes: &Slice) -> u64 {
        let block = BlockIndex::containing(Bytes::new(at));
        let stop = block.next().start().get().min(end);
        let from = index(at % BLOCK_BYTES);
        let part = self.new_part(id, at);
        self.set_part(id, part, bytes.slice(from..from + index(stop - at)));
        self.part_done(id);
        stop
    }

    /// Counts a read of a staged block, and asks what becomes of it.
    fn read_staged(&mut self, id: ReadId, disk: DiskSlot, block: BlockIndex) {
        self.disks.stats(disk).read_block_staged_hits += 1;
        let read = &self.reads[id];
        let (vm, arrival, prefetch) = (read.vm, read.arrival, read.is_prefetch());
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, block, 1, true);
        }
        if let (Some(arrival), false) = (arrival, prefetch) {
            self.staged_hit(&arrival, disk, block);
        }
    }

    fn read_hit_run(
        &mut self,
        id: ReadId,
        disk: DiskSlot,
        at: u64,
        end: u64,
        slot: FlashSlot,
    ) -> u64 {
        let first = BlockIndex::containing(Bytes::new(at));
        let blocks = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let flash = self.flash.as_mut().expect("the block was located on it");
        let count = flash.clean_run(disk, first, slot, blocks);
        let stop = first.advance(u64::from(count)).start().get().min(end);
        self.count_hits(id, first, count);
        if self.is_prefetch(id) {
            return stop;
        }
        if self.slow_reads.is_slow() {
            self.read_past_flash(id, at..stop, slot, count);
        } else {
            self.read_slots(id, at..stop, slot, count, false);
        }
        stop
    }

    /// Reads the bytes `bytes` of the disk from slots that follow each other, from `slot` on.
    #[inline]
    pub(crate) fn read_slots(
        &mut self,
        id: ReadId,
        bytes: Range<u64>,
        slot: FlashSlot,
        count: u32,
        dirty: bool,
    ) {
        let part = self.new_part(id, bytes.start);
        // Only what the origin has as well: a read that has to be repeated may find it elsewhere.
        let place = match &self.reads[id].aim {
            Aim::Into(_) if !dirty => self.place_for(id, &bytes),
            _ => None,
        };
        let hit = Hit {
            read: id,
            part,
            disk: self.reads[id].disk,
            first: BlockIndex::containing(Bytes::new(bytes.start)),
            slot,
            count,
            skip: index(bytes.start % BLOCK_BYTES),
            length: index(bytes.end - bytes.start),
            abandoned: false,
            is_probe: false,
            dirty,
            in_place: place.is_some(),
        };
        // What has failed still has what is nowhere else.
        let flash = self.flash.source_mut(dirty);
        let flash = flash.expect("the blocks were located on it");
        hit.read(flash, &mut self.ports, place);
    }

    fn read_miss_run(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) -> u64 {
        let first = BlockIndex::containing(Bytes::new(at));
        let (fill, fill_first, count) = match self.fills.covering(disk, first) {
            Some(found) => {
                self.ports.stats.shared_fills += 1;
                found
            }
            None => self.start_fill(disk, first, end),
        };
        let stop = fill_first.advance(count).start().get().min(end);
        self.count_misses(id, first, blocks_to(first, stop));
        let part = self.new_part(id, at);
        if self.is_prefetch(id) {
            self.prefetches.fetches(disk, stop - at);
        }
        let skip = index(at - fill_first.start().get());
        self.fills.join(
            fill,
            Waiter {
                read: id,
                part,
                skip,
                length: index(stop - at),
            },
        );
        stop
    }

    /// Fetches the run of blocks from `first` that nobody has or fetches.
    fn start_fill(
        &mut self,
        disk: DiskSlot,
        first: BlockIndex,
        end: u64,
    ) -> (usize, BlockIndex, u64) {
        let blocks = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let mut limit = first.advance(blocks);
        if let Some(covered) = self.fills.next_covered(disk, first, limit) {
            limit = covered;
        }
        let mut count = 1;
        let flash = self.flash.as_ref().expect("a fill is for the flash");
        let staged = |block| {
            self.admission.staged(Key::new(disk, block)).is_some() && holds(Guard::NoFillOfStaged)
        };
        let lacking = flash.is_dirty(disk) && holds(Guard::NoFillOfDirty);
        let dirty = |block| lacking && flash.dirty_state(disk, block) != Found::Clean;
        while first.advance(count) < limit
            && !flash.has_copy(disk, first.advance(count))
            && !staged(first.advance(count))
            && !dirty(first.advance(count))
        {
            count += 1;
        }
        // Blocks that are being written come from the origin too, but are not admitted.
        let killed = self.writes.overlaps(disk, first, count) && holds(Guard::NoFillDuringWrite);
        let fill = self.fills.insert(Fill {
            disk,
            first,
            count,
            killed,
            waiters: Vec::new(),
        });
        let length = count * BLOCK_BYTES;
        self.disks.stats(disk).origin_read_bytes += length;
        let buf = self.ports.pool.take(index(length));
        let verb = OriginVerb::Read {
            offset: first.start(),
            length: Bytes::new(length),
            buf,
        };
        self.ports.origin(OriginPurpose::Fill(fill), disk, verb);
        (fill, first, count)
    }

    /// A fill has come, or has failed to.
    pub(crate) fn fill_done(&mut self, fill: usize, buf: Option<Buf>, result: Result<(), IoError>) {
        let fill = self.fills.remove(fill);
        for waiter in &fill.waiters {
            if self.is_prefetch(waiter.read) {
                self.prefetches.fetched(fill.disk, waiter.length as u64);
            }
        }
        let bytes = match (result, buf) {
            (Ok(()), Some(buf)) => Ok(buf.freeze()),
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(IoError::Failed),
        };
        match bytes {
            Ok(bytes) => {
                self.admit_fill(&fill, &bytes);
                for waiter in &fill.waiters {
                    self.set_part(
                        waiter.read,
                        waiter.part,
                        bytes.slice(waiter.skip..waiter.skip + waiter.length),
                    );
                    self.part_done(waiter.read);
                }
            }
            Err(error) => {
                self.disks.stats(fill.disk).origin_errors += 1;
                for waiter in &fill.waiters {
                    self.part_failed(waiter.read, error);
                }
            }
        }
        self.step_prefetches();
    }

    /// Asks the origin for what the flash could not give.
    pub(crate) fn refetch(&mut self, hit: &Hit) {
        let at = hit.first.start().get() + hit.skip as u64;
        self.fetch_part(hit.read, hit.part, hit.disk, at, hit.length as u64);
    }

    pub(crate) fn is_prefetch(&self, id: ReadId) -> bool {
        self.reads[id].is_prefetch()
    }

    /// Counts a run of blocks (or parts) that a read found on flash or on its way there.
    #[inline]
    pub(crate) fn count_hits(&mut self, id: ReadId, first: BlockIndex, count: u32) {
        let read = &self.reads[id];
        let (disk, vm, arrival) = (read.disk, read.vm, read.arrival);
        let prefetch = read.is_prefetch();
        self.disks.stats(disk).read_block_hits += u64::from(count);
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, first, count.into(), true);
        }
        if let (Some(arrival), false) = (arrival, prefetch) {
            self.told_hit(&arrival, disk, first, count);
        }
    }

    /// Counts a run of blocks (or parts) that a read did not find.
    fn count_misses(&mut self, id: ReadId, first: BlockIndex, count: u64) {
        let (disk, vm) = (self.reads[id].disk, self.reads[id].vm);
        self.disks.stats(disk).read_block_misses += count;
        if let Some(views) = self.disks.views(disk) {
            views.read(vm, first, count, false);
        }
    }

    /// One more part has to come. A prefetch only counts its parts: it answers no bytes, and must not
    /// keep those of gigabytes.
    pub(crate) fn new_part(&mut self, id: ReadId, offset: u64) -> usize {
        let read = &mut self.reads[id];
        read.left += 1;
        if read.is_prefetch() {
            return 0;
        }
        read.parts.push(Part {
            offset,
            bytes: None,
        });
        read.parts.len() - 1
    }

    pub(crate) fn set_part(&mut self, id: ReadId, part: usize, bytes: Slice) {
        let read = &mut self.reads[id];
        if !read.is_prefetch() {
            read.parts[part].bytes = Some(bytes);
        }
    }

    /// A part's bytes are where the guest wanted them.
    pub(crate) fn part_landed(&mut self, id: ReadId) {
        self.reads[id].landed += 1;
        self.part_done(id);
    }

    /// One more thing has to happen before the read is answered.
    pub(crate) fn hold_read(&mut self, id: ReadId) {
        self.reads[id].left += 1;
    }

    pub(crate) fn part_failed(&mut self, id: ReadId, error: IoError) {
        self.reads[id].error.get_or_insert(error);
        self.part_done(id);
    }

    pub(crate) fn part_done(&mut self, id: ReadId) {
        let read = &mut self.reads[id];
        read.left -= 1;
        if read.left > 0 {
            return;
        }
        let read = self.reads.remove(id);
        let (disk, request) = (read.disk, read.request);
        let answer = match read.error {
            Some(error) => Effect::Reply {
                request,
                result: Err(error),
            },
            None if read.is_prefetch() => Effect::Reply {
                request,
                result: Ok(Payload::new()),
            },
            None if read.landed > 0 => {
                parts::landed(request, read.offset..read.end, read.parts, read.landed)
            }
            None => parts::reply(request, read.offset..read.end, read.parts),
        };
        self.answer(disk, answer);
    }
}

impl Read {
    pub(crate) fn is_prefetch(&self) -> bool {
        matches!(self.aim, Aim::CacheOnly)
    }

    /// Whether it will be answered with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Where it wants the bytes `bytes` of the disk, if not in buffers of ours.
    pub(crate) fn place(&self, bytes: &Range<u64>) -> Option<Place> {
        let Aim::Into(memory) = &self.aim else {
            return None;
        };
        let range = index(bytes.start - self.offset)..index(bytes.end - self.offset);
        Some(Place::new(Rc::clone(memory), range))
    }
}

/// Blocks from `first` that begin before byte `end`.
pub(crate) fn blocks_to(first: BlockIndex, end: u64) -> u64 {
    end.div_ceil(BLOCK_BYTES) - first.get()
}

pub(crate) fn index(bytes: u64) -> usize {
    Bytes::new(bytes).to_usize()
}
