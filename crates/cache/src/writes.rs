//! A guest's write, discard or write-zeroes under `through` and `around`: the origin first, the
//! cache after. Under `back` they go into the dirty log (`back`).
//!
//! ```text
//!  request ─► out of the index ─► distrust durably ─► origin ─► answer ─► new copy (through)
//!             kill fills          only if a copy      │
//!                                 may be trusted      └─ error: answer; nothing is cached
//! ```
//!
//! From the moment a write arrives until it is answered its blocks are not in the index, so
//! reads in between come from the origin and are not admitted. Before the origin is written
//! no copy of the block may be trusted on flash, durably: otherwise a crash could bring back
//! the older bytes.
//!
//! Two writes to one block in flight together leave the origin with either's bytes, so neither
//! puts a copy into the cache. A block that was not cached may enter it after a write of all of it
//! (`admission.rs`), if no other write was under way on it at any time of this one.

use crate::RequestId;
use crate::WritePolicy;
use crate::admitter::{Admission, Admitter, write_arrives};
use crate::disks::Disks;
use crate::fills::Fills;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::host_record::HostRecord;
use crate::ports::{Ports, Wake};
use crate::purpose::{OriginPurpose, WriteId};
use crate::request::Span;
use admission::Key;
use block_io::{IoError, OriginVerb, PAGE_BYTES, Slice};
use block_store::{Taken, Ticket};
use dirty_log::ERASE_BLOCKS_MAX;
use segment_log::Source;
use slab::Slab;
use std::collections::VecDeque;
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Offset};

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Data { bytes: Slice, fua: bool },
    Discard,
    Zeroes { may_unmap: bool, fua: bool },
}

impl Change {
    pub(crate) fn is_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }
}

/// A write under way.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) request: RequestId,
    pub(crate) disk: DiskSlot,
    offset: u64,
    /// End of the piece that is under way.
    piece_end: u64,
    end: u64,
    change: Change,
    first: BlockIndex,
    blocks: u64,
    /// Another write overlapped it.
    contended: bool,
    /// Waits for its blocks to be distrusted, or for the flash to be given up.
    waiting: bool,
    /// Whole blocks that were in the cache: their copies are replaced.
    cached: Vec<BlockIndex>,
    /// No other write was under way on its blocks when it came, so those that were not cached may be.
    alone: bool,
    /// What is remembered of it for admission.
    arrival: Option<Arrival>,
}

/// All writes of a cache, and which belong to which disk.
pub(crate) struct Writes {
    /// Whether a write may bring blocks into the cache that were not there.
    allocates: bool,
    all: Slab<Write>,
    by_disk: Vec<Vec<WriteId>>,
    /// Those that wait until what they distrust is durable, in the order of their tickets.
    until_durable: VecDeque<(Ticket, WriteId)>,
}

impl Writes {
    /// None is under way.
    pub(crate) fn new(allocates: bool) -> Self {
        Self {
            allocates,
            all: Slab::new(),
            by_disk: Vec::new(),
            until_durable: VecDeque::new(),
        }
    }

    fn insert(&mut self, write: Write) -> WriteId {
        let disk = write.disk.index();
        let id = self.all.insert(write);
        if self.by_disk.len() <= disk {
            self.by_disk.resize_with(disk + 1, Vec::new);
        }
        self.by_disk[disk].push(id);
        id
    }

    fn remove(&mut self, id: WriteId) -> Write {
        let write = self.all.remove(id);
        self.by_disk[write.disk.index()].retain(|other| *other != id);
        write
    }

    fn of_disk(&self, disk: DiskSlot) -> &[WriteId] {
        self.by_disk.get(disk.index()).map_or(&[], Vec::as_slice)
    }

    fn overlapping(
        &self,
        disk: DiskSlot,
        first: BlockIndex,
        count: u64,
    ) -> impl Iterator<Item = WriteId> {
        let (start, end) = (first.get(), first.get() + count);
        self.of_disk(disk).iter().copied().filter(move |id| {
            let write = &self.all[*id];
            write.first.get() < end && start < write.first.get() + write.blocks
        })
    }

    /// Whether one of these blocks is being written.
    pub(crate) fn overlaps(&self, disk: DiskSlot, first: BlockIndex, count: u64) -> bool {
        self.overlapping(disk, first, count).next().is_some()
    }

    /// Whether a write of this disk is under way.
    pub(crate) fn any_of(&self, disk: DiskSlot) -> bool {
        !self.of_disk(disk).is_empty()
    }

    /// Whatever is on its way to a disk's origin leaves no copy: a flush has failed, and may have
    /// taken along what the origin has executed and not answered.
    pub(crate) fn spoil(&mut self, disk: DiskSlot) {
        for id in self.by_disk.get(disk.index()).into_iter().flatten() {
            self.all[*id].contended = true;
        }
    }

    /// Whether this one has not gone to the origin yet.
    pub(crate) fn is_waiting(&self, id: WriteId) -> bool {
        self.all.get(id).is_some_and(|write| write.waiting)
    }

    fn wait_for(&mut self, ticket: Ticket, id: WriteId) {
        self.all[id].waiting = true;
        let waiting = &mut self.until_durable;
        let at = waiting.partition_point(|waiting| waiting.0 <= ticket);
        waiting.insert(at, (ticket, id));
    }

    /// A write for which what it waited for is durable, as `is_durable` says of its ticket.
    pub(crate) fn pop_durable(&mut self, is_durable: impl Fn(Ticket) -> bool) -> Option<WriteId> {
        let next = self.until_durable.pop_front_if(|next| is_durable(next.0));
        next.map(|(_, id)| id)
    }

    /// Nothing is waited for any more.
    pub(crate) fn wait_no_more(&mut self) {
        self.until_durable.clear();
    }

    /// Writes that have not gone to the origin yet.
    pub(crate) fn waiting(&self) -> Vec<WriteId> {
        self.all
            .iter()
            .filter(|(_, write)| write.waiting)
            .map(|(id, _)| id)
            .collect()
    }
}

/// The parts of a cache that a write has to do with which goes to the origin first.
pub(crate) struct Through<'a> {
    writes: &'a mut Writes,
    fills: &'a mut Fills,
    admission: &'a mut Admission,
    flash: &'a mut FlashUse,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
    host_record: &'a mut HostRecord,
}

impl<'a> Through<'a> {
    /// For one event.
    pub(crate) fn new(
        writes: &'a mut Writes,
        fills: &'a mut Fills,
        admission: &'a mut Admission,
        flash: &'a mut FlashUse,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
        host_record: &'a mut HostRecord,
    ) -> Self {
        Self {
            writes,
            fills,
            admission,
            flash,
            disks,
            ports,
            host_record,
        }
    }

    fn admitter(&mut self) -> Admitter<'_> {
        let flash = self.flash.as_mut();
        Admitter::new(self.admission, flash, self.disks, self.ports)
    }

    /// Sends on whatever waits for the journal: nothing has to be waited for any more.
    pub(crate) fn let_waiting_pass(&mut self) {
        self.writes.wait_no_more();
        if let Some(flash) = self.flash.as_mut() {
            flash.journal_mut().hurry();
        }
        for write in self.writes.waiting() {
            self.send_to_origin(write);
        }
    }

    /// Fails whatever waits for the journal or for the record that the flash is given up.
    pub(crate) fn fail_waiting(&mut self) {
        for write in self.writes.waiting() {
            self.fail_write(write);
        }
    }

    /// A guest writes, discards or writes zeroes.
    pub(crate) fn write(&mut self, span: Span, change: Change) {
        let now = self.ports.now();
        let arrival = change
            .is_data()
            .then(|| write_arrives(self.admission, self.disks, now, &span))
            .flatten();
        let offset = span.offset.get();
        let id = self.writes.insert(Write {
            request: span.id,
            disk: span.disk,
            offset,
            piece_end: offset,
            end: span.end().get(),
            change,
            first: BlockIndex::new(0),
            blocks: 0,
            contended: false,
            waiting: false,
            cached: Vec::new(),
            alone: true,
            arrival,
        });
        self.start_piece(id);
    }

    /// Starts the next piece: all of a write of data, a bounded part of an erasure.
    fn start_piece(&mut self, id: WriteId) {
        let write = &mut self.writes.all[id];
        let (disk, at) = (write.disk, write.piece_end);
        write.offset = at;
        let piece_limit = (at / BLOCK_BYTES + u64::from(ERASE_BLOCKS_MAX)) * BLOCK_BYTES;
        write.piece_end = match write.change {
            Change::Data { .. } => write.end,
            Change::Discard | Change::Zeroes { .. } => write.end.min(piece_limit),
        };
        let first = BlockIndex::containing(Offset::new(at));
        let blocks = write.piece_end.div_ceil(BLOCK_BYTES) - first.get();
        // Not yet counted among the others: a write does not contend with itself.
        write.blocks = 0;
        let others: Vec<WriteId> = self.writes.overlapping(disk, first, blocks).collect();
        let mut wait = false;
        for other in &others {
            self.writes.all[*other].contended = holds(Guard::NoCopyOfContendedWrite);
            wait |= self.writes.all[*other].waiting && holds(Guard::WaitForOverlappingWrite);
        }
        self.ports.stats.contended_writes += u64::from(!others.is_empty());
        let write = &mut self.writes.all[id];
        write.first = first;
        write.blocks = blocks;
        // What the others have taken out of the index this one does not find there, so it cannot
        // put a copy of it back: only they have to be told.
        write.contended = false;
        write.alone = others.is_empty() || !holds(Guard::NoAllocationOfContendedWrite);
        write.cached.clear();
        if holds(Guard::KillFills) {
            self.fills.kill(disk, first, blocks);
        }
        if self.host_record.is_awaited(self.flash) && holds(Guard::RetireBeforeOrigin) {
            self.writes.all[id].waiting = true;
            self.host_record.retire_again(self.ports);
            return;
        }
        let wait_for = self.distrust_blocks(id, wait);
        match (wait_for, self.flash.as_mut()) {
            (Some(_), Some(flash)) if self.host_record.lets_pass() => {
                if !flash.journal_mut().pass() {
                    let reason = "the flash was late for too long while guests wrote";
                    self.ports.wake(Wake::FlashFailed(reason));
                }
                self.send_to_origin(id);
            }
            (Some(ticket), _) if holds(Guard::DistrustBeforeOrigin) => {
                self.wait_until_durable(id, ticket);
            }
            (Some(_) | None, _) => self.send_to_origin(id),
        }
    }

    /// Takes the write's blocks out of the index and out of staging. Returns what has to be durable
    /// before the origin may be written.
    fn distrust_blocks(&mut self, id: WriteId, overtakes_a_waiting_write: bool) -> Option<Ticket> {
        let cached_end = self.disks.cached_end(self.writes.all[id].disk);
        self.unstage_written(id);
        let passes = self.host_record.lets_pass();
        let flash = self.flash.as_mut()?;
        let write = &mut self.writes.all[id];
        let update = matches!(write.change, Change::Data { .. });
        // What an overlapping write waits for, this one has to wait for too.
        let mut ticket = overtakes_a_waiting_write.then(|| flash.journal().last());
        let mut commits = false;
        for i in 0..write.blocks {
            let block = write.first.advance(i);
            let whole = block.start().get() >= write.offset
                && block.next().start().get() <= write.piece_end;
            if block.next().start().get() > cached_end {
                break;
            }
            if (!whole && !holds(Guard::PartialWriteDrops))
                || (!update && !holds(Guard::ErasureDrops))
            {
                continue;
            }
            match flash.take_for_write(&mut self.ports.store, write.disk, block) {
                Taken::NotCached => continue,
                Taken::Untrusted => {}
                Taken::Trusted(found) => {
                    ticket = ticket.max(Some(found));
                    commits = true;
                }
            }
            if whole && update {
                write.cached.push(block);
            } else if let Some(tenant) = self.disks.tenant_of(write.disk) {
                let key = Key::new(write.disk, block);
                self.admission.removed(tenant, key);
            }
        }
        if commits && !passes {
            flash.rest_around(&mut self.ports.store, write.disk, write.first, write.blocks);
        }
        ticket.filter(|ticket| !flash.journal().is_durable(*ticket))
    }

    /// The blocks of a write that comes leave staging, and those of an erasure count as demand no
    /// longer.
    fn unstage_written(&mut self, id: WriteId) {
        let write = &self.writes.all[id];
        let (disk, first, blocks) = (write.disk, write.first, write.blocks);
        let erases = !matches!(write.change, Change::Data { .. });
        let Some(tenant) = self.disks.tenant_of(disk) else {
            return;
        };
        if erases {
            self.admission.discarded(tenant, disk, first.get(), blocks);
        }
        let kept = if erases {
            !holds(Guard::ErasureUnstages)
        } else {
            !holds(Guard::WriteUnstages)
        };
        if self.admission.frames().is_empty() || kept {
            return;
        }
        for i in 0..blocks {
            let key = Key::new(disk, first.advance(i));
            self.admission.change(tenant, key);
        }
    }

    fn wait_until_durable(&mut self, id: WriteId, ticket: Ticket) {
        self.ports.stats.writes_waited += 1;
        self.writes.wait_for(ticket, id);
        let flash = self.flash.as_mut().expect("there is a flash to wait for");
        flash.journal_mut().hurry();
    }

    /// Nothing older can come back any more: on to the origin.
    pub(crate) fn send_to_origin(&mut self, id: WriteId) {
        let write = &mut self.writes.all[id];
        write.waiting = false;
        let offset = Offset::new(write.offset);
        let length = Bytes::new(write.piece_end - write.offset);
        let disk = write.disk;
        let verb = match &write.change {
            Change::Data { bytes, fua } => OriginVerb::Write {
                offset,
                data: bytes.clone(),
                fua: *fua,
            },
            Change::Discard => OriginVerb::Discard { offset, length },
            Change::Zeroes { may_unmap, fua } => OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap: *may_unmap,
                fua: *fua,
            },
        };
        if matches!(verb, OriginVerb::Write { .. }) {
            self.disks.stats(disk).origin_written_bytes += length.get();
        }
        self.ports.origin(OriginPurpose::GuestWrite(id), disk, verb);
    }

    /// The origin has the write, or has failed it.
    pub(crate) fn origin_write_done(&mut self, id: WriteId, result: Result<(), IoError>) {
        let write = &self.writes.all[id];
        if let Some(flash) = self.flash.as_mut() {
            flash.origins_mut().write_ended(write.disk);
        }
        if result.is_ok() && write.piece_end < write.end {
            self.start_piece(id);
            return;
        }
        let write = self.writes.remove(id);
        if result.is_ok() {
            self.update_copies(&write);
        } else {
            self.disks.stats(write.disk).origin_errors += 1;
            self.forget_copies(&write);
        }
        self.disks
            .reply(self.ports, write.disk, write.request, result);
    }

    /// The write cannot be made safe: the guest gets an error and the origin stays as it was.
    pub(crate) fn fail_write(&mut self, id: WriteId) {
        let write = self.writes.remove(id);
        self.disks
            .reply(self.ports, write.disk, write.request, Err(IoError::Failed));
    }

    /// The origin has all of a write: its blocks that were cached get their new copies, and those
    /// that were not are offered.
    fn update_copies(&mut self, write: &Write) {
        let Change::Data { bytes, .. } = &write.change else {
            return;
        };
        if write.contended || self.disks.policy(write.disk) != WritePolicy::Through {
            self.forget_copies(write);
            return;
        }
        let page = |block: BlockIndex| {
            let at = Bytes::new(block.start().get() - write.offset).to_usize();
            &bytes[at..at + PAGE_BYTES]
        };
        for block in &write.cached {
            self.update_copy(write, *block, page(*block));
        }
        if !self.writes.allocates || !write.alone || !self.flash.is_in_use() {
            return;
        }
        let first = write.offset.div_ceil(BLOCK_BYTES);
        let end = write.piece_end.min(self.disks.cached_end(write.disk)) / BLOCK_BYTES;
        let mut cached = write.cached.iter().peekable();
        for block in (first..end).map(BlockIndex::new) {
            if cached.next_if_eq(&&block).is_none() {
                let (at, mut admitter) = ((write.disk, block), self.admitter());
                admitter.offer_at_hand(write.arrival, Source::Update, at, page(block));
            }
        }
    }

    fn update_copy(&mut self, write: &Write, block: BlockIndex, page: &[u8]) {
        let (key, flash) = (Key::new(write.disk, block), self.flash.as_ref());
        let was_read = flash.is_some_and(|flash| flash.facts().was_warm(write.disk, block));
        let may = match self.admission.still(write.arrival) {
            Some(arrival) => {
                self.admission.rewrites(&arrival, key, was_read)
                    || !holds(Guard::RewriteWithinBudget)
            }
            None => self.admission.is_open(),
        };
        if !may {
            self.ports.stats.not_rewritten += 1;
        }
        if !(may
            && self
                .admitter()
                .append(write.disk, block, Source::Update, page))
        {
            self.forget_copy(write.disk, block);
        }
    }

    /// The copies that a write took out of the cache are not replaced.
    fn forget_copies(&mut self, write: &Write) {
        for block in &write.cached {
            self.forget_copy(write.disk, *block);
        }
    }

    fn forget_copy(&mut self, disk: DiskSlot, block: BlockIndex) {
        if let Some(tenant) = self.disks.tenant_of(disk) {
            self.admission.removed(tenant, Key::new(disk, block));
        }
    }
}
