//! Accepting writes and erasures, in their order.

use super::{Back, BackRequests, Phase};
use crate::RequestId;
use crate::admitter::write_arrives;
use crate::guard::{Guard, holds};
use crate::limits::LAST_BYTES;
use crate::request::{Asked, Span};
use crate::writes::Change;
use admission::Key;
use block_io::{IoError, PAGE_BYTES, Slice};
use block_store::{DirtyDisk, NoRoom, Taken};
use dirty_log::{ERASE_BLOCKS_MAX, RecordNumber};
use flash_format::{Erasure, ErasureKind};
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Instant, Offset, TenantSlot};

/// A write that is not accepted yet, or only the first part of it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    request: RequestId,
    vm: TenantSlot,
    offset: u64,
    /// What comes before is accepted.
    at: u64,
    end: u64,
    change: Change,
    pub(super) since: Instant,
    /// The block that it begins or ends inside of, if it does: its bytes before the write.
    pub(super) head: Edge,
    pub(super) tail: Edge,
    arrival: Option<Arrival>,
    stalled: bool,
}

/// A block of which a part is written.
#[derive(Debug)]
pub(super) enum Edge {
    /// There is none.
    Whole,
    /// Its bytes have not been looked for yet.
    Wanted,
    /// They are on their way.
    Reading,
    /// Here they are.
    Ready(Slice),
    /// They could not be read.
    Failed(IoError),
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acceptance {
    Accepted,
    /// It waits for the rest of a block.
    Merging,
    /// It waits for room, and with it all that come after it.
    NoRoom,
    Failed(IoError),
}

impl Waiting {
    fn blocks(&self) -> (u64, u64) {
        (self.offset / BLOCK_BYTES, self.end.div_ceil(BLOCK_BYTES))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let ((a, b), (c, d)) = (self.blocks(), other.blocks());
        a < d && c < b
    }

    /// The block that begins or ends the write inside.
    pub(super) fn edge_block(&self, tail: bool) -> BlockIndex {
        let byte = if tail { self.end - 1 } else { self.offset };
        BlockIndex::containing(Offset::new(byte))
    }

    pub(super) fn edge_mut(&mut self, tail: bool) -> &mut Edge {
        if tail { &mut self.tail } else { &mut self.head }
    }

    fn fua(&self) -> bool {
        match self.change {
            Change::Data { fua, .. } | Change::Zeroes { fua, .. } => fua,
            Change::Discard => false,
        }
    }

    /// The edges of a write from `offset` to `end`.
    fn edges(offset: u64, end: u64) -> (Edge, Edge) {
        let one_block = offset / BLOCK_BYTES == (end - 1) / BLOCK_BYTES;
        let (begins, ends) = (
            !offset.is_multiple_of(BLOCK_BYTES),
            !end.is_multiple_of(BLOCK_BYTES),
        );
        let edge = |partial| if partial { Edge::Wanted } else { Edge::Whole };
        if one_block {
            (edge(begins || ends), Edge::Whole)
        } else {
            (edge(begins), edge(ends))
        }
    }
}

impl Back {
    /// Takes every write that waits out of the disk's queue.
    pub(super) fn take_waiting(&mut self, disk: DiskSlot) -> Vec<(Span, Change)> {
        let queue = self.queue.drain(..);
        let write = |waiting: Waiting| {
            let span = Span {
                id: waiting.request,
                disk,
                vm: waiting.vm,
                offset: Offset::new(waiting.offset),
                length: Bytes::new(waiting.end - waiting.offset),
            };
            (span, waiting.change)
        };
        queue.map(write).collect()
    }

    /// The write that waits under this number.
    pub(super) fn waiting_mut(&mut self, id: u64) -> Option<&mut Waiting> {
        self.queue.iter_mut().find(|waiting| waiting.id == id)
    }
}

impl BackRequests<'_> {
    /// A write, discard or write-zeroes to a disk under write-back.
    pub(crate) fn write(&mut self, span: Span, change: Change) {
        let now = self.ports.now();
        let arrival = change
            .is_data()
            .then(|| write_arrives(self.admission, self.disks, now, &span))
            .flatten();
        let Span {
            id: request,
            disk,
            vm,
            ..
        } = span;
        let (mut offset, mut end) = (span.offset.get(), span.end().get());
        if matches!(change, Change::Discard) {
            // What is left of a block at either end is left alone.
            offset = offset.next_multiple_of(BLOCK_BYTES);
            end = end / BLOCK_BYTES * BLOCK_BYTES;
            if offset >= end {
                self.disks.reply(self.ports, disk, request, Ok(()));
                return;
            }
        }
        let Some(back) = self.backs.get_mut(disk) else {
            return;
        };
        let (head, tail) = Waiting::edges(offset, end);
        back.waiting_next += 1;
        back.queue.push_back(Waiting {
            id: back.waiting_next,
            request,
            vm,
            offset,
            at: offset,
            end,
            change,
            since: now,
            head,
            tail,
            arrival,
            stalled: false,
        });
        self.ports.schedule(disk);
    }

    /// Accepts of the writes that wait what can be accepted.
    pub(super) fn accept_waiting(&mut self, disk: DiskSlot) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        let mut ended = Vec::new();
        let mut at = 0;
        while at < back.queue.len() {
            let overlaps = |before: &Waiting| before.overlaps(&back.queue[at]);
            if back.queue.iter().take(at).any(overlaps) && holds(Guard::MergeAlone) {
                at += 1;
                continue;
            }
            match self.accept(disk, &mut back, at) {
                Acceptance::Merging => at += 1,
                Acceptance::NoRoom => break,
                Acceptance::Accepted => {
                    let waiting = back.queue.remove(at).expect("it waits");
                    ended.push((waiting.request, waiting.fua(), Ok(())));
                }
                Acceptance::Failed(error) => {
                    let waiting = back.queue.remove(at).expect("it waits");
                    ended.push((waiting.request, false, Err(error)));
                }
            }
        }
        self.backs.set(disk, back);
        let durable = ended.iter().any(|(_, fua, _)| *fua);
        // A write with FUA ends the interval behind its own record.
        let number = if durable {
            self.log_end_for_flush(disk)
        } else {
            RecordNumber::FIRST
        };
        for (request, fua, result) in ended {
            if fua {
                self.answer_when_durable(disk, number, (request, Asked::DurableWrite), true);
            } else {
                self.disks.reply(self.ports, disk, request, result);
            }
        }
    }

    fn accept(&mut self, disk: DiskSlot, back: &mut Back, at: usize) -> Acceptance {
        match back.phase {
            Phase::Entering | Phase::Closing => return Acceptance::NoRoom,
            Phase::Locked => return Acceptance::Failed(IoError::Failed),
            Phase::Open | Phase::Leaving => {}
        }
        if !self.flash.is_in_use() {
            return Acceptance::NoRoom;
        }
        let waiting = &mut back.queue[at];
        for tail in [false, true] {
            if matches!(waiting.edge_mut(tail), Edge::Wanted) {
                *waiting.edge_mut(tail) = self.begin_merge(disk, waiting, tail);
            }
        }
        match (&waiting.head, &waiting.tail) {
            (Edge::Failed(error), _) | (_, Edge::Failed(error)) => {
                return Acceptance::Failed(*error);
            }
            (Edge::Reading, _) | (_, Edge::Reading) => return Acceptance::Merging,
            _ => {}
        }
        let accepted = self.accept_records(disk, back, at);
        if accepted.is_err() {
            let waiting = &mut back.queue[at];
            let is_first = !std::mem::replace(&mut waiting.stalled, true);
            self.disks.stats(disk).stalled_writes += u64::from(is_first);
            return Acceptance::NoRoom;
        }
        Acceptance::Accepted
    }

    fn accept_records(&mut self, disk: DiskSlot, back: &mut Back, at: usize) -> Result<(), NoRoom> {
        let waiting = &back.queue[at];
        let since = waiting.since;
        let first = BlockIndex::containing(Offset::new(waiting.at));
        let blocks = waiting.end.div_ceil(BLOCK_BYTES) - first.get();
        // What is fetched now may be older than what is accepted.
        if holds(Guard::AcceptKillsFills) {
            self.fills.kill(disk, first, blocks);
        }
        while back.queue[at].at < back.queue[at].end {
            self.check_room(disk, back, since)?;
            let waiting = &mut back.queue[at];
            let block = BlockIndex::containing(Offset::new(waiting.at));
            let next = block.next().start().get();
            let whole = block.start().get() >= waiting.offset && next <= waiting.end;
            if whole && !matches!(waiting.change, Change::Data { .. }) {
                waiting.at = self.accept_erasure(disk, waiting, block)?;
                continue;
            }
            let page = self.page_of(waiting, block);
            self.accept_block(disk, waiting.arrival.as_ref(), block, &page)?;
            waiting.at = next.min(waiting.end);
        }
        Ok(())
    }

    /// Whether the log may have one more record.
    fn check_room(
        &mut self,
        disk: DiskSlot,
        back: &mut Back,
        since: Instant,
    ) -> Result<(), NoRoom> {
        let logged = self.flash.dirty_bytes(disk);
        if !back.settings.has_room(logged) {
            return Err(NoRoom::Segment);
        }
        if back.phase == Phase::Leaving {
            if logged <= LAST_BYTES || !back.credit.pays_for_block() {
                return Err(NoRoom::Segment);
            }
        } else if let Some(log) = self.flash.log_of(disk).map(DirtyDisk::log)
            && back.follows.outruns(
                log,
                since,
                self.ports.now(),
                back.destage.failing().is_none(),
            )
        {
            return Err(NoRoom::Segment);
        }
        Ok(())
    }

    /// The bytes of a block after the write.
    fn page_of(&self, waiting: &Waiting, block: BlockIndex) -> Slice {
        let (start, next) = (block.start().get(), block.next().start().get());
        let (from, to) = (waiting.offset.max(start), waiting.end.min(next));
        let index = |byte: u64| Bytes::new(byte).to_usize();
        if to - from == BLOCK_BYTES
            && let Change::Data { bytes, .. } = &waiting.change
        {
            let at = index(from - waiting.offset);
            return bytes.slice(at..at + PAGE_BYTES);
        }
        let edge = if block == waiting.edge_block(false) && !matches!(waiting.head, Edge::Whole) {
            &waiting.head
        } else {
            &waiting.tail
        };
        let Edge::Ready(base) = edge else {
            panic!("the rest of a block is there before it is accepted")
        };
        let mut page = self.ports.pool().take(PAGE_BYTES);
        page[..PAGE_BYTES].copy_from_slice(base);
        let part = &mut page[index(from - start)..index(to - start)];
        match &waiting.change {
            Change::Data { bytes, .. } => {
                let at = index(from - waiting.offset);
                part.copy_from_slice(&bytes[at..at + part.len()]);
            }
            Change::Zeroes { .. } | Change::Discard => part.fill(0),
        }
        page.freeze().slice(0..PAGE_BYTES)
    }

    pub(super) fn accept_block(
        &mut self,
        disk: DiskSlot,
        arrival: Option<&Arrival>,
        block: BlockIndex,
        page: &Slice,
    ) -> Result<(), NoRoom> {
        let Some(flash) = self.flash.as_mut() else {
            return Err(NoRoom::Segment);
        };
        flash
            .write_back()
            .log_block(&mut self.ports.store, disk, block, page)?;
        self.take_older_copy(disk, block, arrival);
        Ok(())
    }

    /// A record of a block was accepted: its clean copy counts no longer. The entry that distrusts it
    /// is queued before any that could make the record clean.
    fn take_older_copy(&mut self, disk: DiskSlot, block: BlockIndex, arrival: Option<&Arrival>) {
        let Some(flash) = self.flash.as_mut() else {
            return;
        };
        let taken = if holds(Guard::DistrustOlderCopy) {
            flash.take_for_write(&mut self.ports.store, disk, block)
        } else {
            flash.forget(disk, block)
        };
        let key = Key::new(disk, block);
        if !matches!(taken, Taken::NotCached)
            && let Some(arrival) = self.admission.still(arrival.copied())
        {
            self.admission.hits(&arrival, [key]);
        }
        if !self.admission.frames().is_empty()
            && holds(Guard::AcceptUnstages)
            && let Some(tenant) = self.disks.tenant_of(disk)
        {
            self.admission.change(tenant, key);
        }
    }

    /// Accepts a part of an erasure, from this whole block on. Returns where it ends.
    fn accept_erasure(
        &mut self,
        disk: DiskSlot,
        waiting: &Waiting,
        first: BlockIndex,
    ) -> Result<u64, NoRoom> {
        let last = waiting.end / BLOCK_BYTES;
        let blocks = (last - first.get()).min(u64::from(ERASE_BLOCKS_MAX));
        let erasure = Erasure {
            first,
            blocks: u32::try_from(blocks).expect("it was bounded"),
            kind: match waiting.change {
                Change::Zeroes { may_unmap, .. } => ErasureKind::Zeroes { may_unmap },
                Change::Discard | Change::Data { .. } => ErasureKind::Discard,
            },
        };
        self.log_erasure(disk, erasure)?;
        Ok(first.advance(blocks).start().get())
    }

    /// Appends an erasure to the log of a disk: what is cached of its blocks counts no longer.
    pub(super) fn log_erasure(&mut self, disk: DiskSlot, erasure: Erasure) -> Result<(), NoRoom> {
        let (first, blocks) = (erasure.first, u64::from(erasure.blocks));
        let Some(flash) = self.flash.as_mut() else {
            return Err(NoRoom::Segment);
        };
        flash
            .write_back()
            .log_erasure(&mut self.ports.store, disk, erasure)?;
        let cached = flash.facts().cached_blocks_of(disk) > 0;
        if let Some(tenant) = self.disks.tenant_of(disk) {
            self.admission.discarded(tenant, disk, first.get(), blocks);
        }
        if cached || !self.admission.frames().is_empty() {
            for block in (0..blocks).map(|i| first.advance(i)) {
                self.take_older_copy(disk, block, None);
            }
        }
        Ok(())
    }

    /// Writes that have waited for too long fail.
    pub(super) fn expire_waiting(&mut self, disk: DiskSlot, now: Instant) {
        let Some(back) = self.backs.get_mut(disk) else {
            return;
        };
        let longest = back.settings.stall_max;
        let mut expired = Vec::new();
        while let Some(waiting) = back
            .queue
            .pop_front_if(|waiting| now >= waiting.since + longest)
        {
            expired.push(waiting.request);
        }
        for request in expired {
            self.disks
                .reply(self.ports, disk, request, Err(IoError::TimedOut));
        }
    }
}
