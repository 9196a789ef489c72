//! Blocks at rest: in the cache, but not yet to be trusted after a crash.
//!
//! A block that a guest rewrites is likely to be rewritten again. Its new copy is therefore not
//! trusted at once: as long as it is not, further writes need no journal commit. When it has
//! rested for `trust_delay`, it is trusted, and survives a crash again.
//!
//! A copy of bytes that the origin may still lose rests too, until the origin has been flushed
//! (see `durability.rs`). If the guest has not done so by then, the cache does.
//!
//! Where a guest has written it writes again. So a write that has to wait for a commit in any case puts
//! the trusted copies beside its blocks to rest with the same commit, and what is written there next
//! waits for no other. Until that commit is durable they are not put to rest again: the first commit
//! would end, their rest would end, and the second commit would then have the cache take for
//! untrusted what the journal's last word about it trusts.
//!
//! How many may rest is bounded, so that a crash costs little: beyond the bound the
//! longest-resting is trusted early, and if it cannot be, it is never trusted at all, which
//! costs its warmth after a crash and nothing else.
//!
//! Only blocks of attached disks rest: when a disk leaves, nobody can flush its origin any more,
//! so what rests is trusted or given up then, and what reclaim keeps of it later is never trusted
//! unless it was before.

use crate::chunks::Chunk;
use crate::config::Config;
use crate::copies::Copies;
use crate::dirty::Settled;
use crate::durability::Origins;
use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::limits::REST_MORE_MIN;
use crate::ports::{Ports, Tag};
use crate::trust::distrust;
use crate::write_count::WriteCount;
use flash_format::Geometry;
use segment_log::{Index, Move, REGION_BLOCKS, Source, resting_limit};
use std::collections::VecDeque;
use std::ops::Range;
use units::{BlockIndex, DiskSlot, Duration, FlashSlot, Instant};

#[derive(Clone, Copy)]
struct Rest {
    due: Instant,
    disk: DiskSlot,
    block: BlockIndex,
    slot: FlashSlot,
    /// Which use of the slot's segment this is.
    generation: u64,
    count: WriteCount,
}

/// A region whose copies were put to rest by a commit that is not durable yet.
struct Neighbours {
    commit: Ticket,
    disk: DiskSlot,
    blocks: Range<u64>,
}

/// Blocks at rest, longest first. Some have been rewritten since and no longer count.
pub(crate) struct Resting {
    queue: VecDeque<Rest>,
    limit: usize,
    trust_delay: Duration,
    /// How long a block rests on that cannot be trusted yet.
    rest_more: Duration,
    /// Oldest commit first; each has a write that waits for it.
    neighbours: VecDeque<Neighbours>,
}

impl Resting {
    /// Nothing rests.
    pub(crate) fn new(geometry: &Geometry, config: &Config) -> Self {
        Self {
            queue: VecDeque::new(),
            limit: resting_limit(geometry),
            trust_delay: config.trust_delay,
            rest_more: config.write_delay.max(REST_MORE_MIN),
            neighbours: VecDeque::new(),
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Rest>()
            + self.neighbours.capacity() * size_of::<Neighbours>()
    }

    /// How many blocks can be laid to rest before one is trusted early.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.queue.len())
    }

    /// Lays a block to rest whose bytes were taken when `count` writes had ended.
    pub(crate) fn rest<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
        count: WriteCount,
    ) {
        if !copies.origins.is_reachable(disk) {
            ports.stats_mut().never_trusted += 1;
            return;
        }
        let due = ports.now() + self.trust_delay;
        ports.wake_at(due);
        self.queue.push_back(Rest {
            due,
            disk,
            block,
            slot,
            generation: copies.segments.table().segment_of(slot).generation,
            count,
        });
        if self.queue.len() > self.limit
            && let Some(rest) = self.queue.pop_front()
            && !end_rest(ports, copies, rest)
        {
            ports.stats_mut().never_trusted += 1;
            copies.origins.tag_is_lost(rest.disk);
        }
    }

    /// Trusts the blocks of a chunk on flash that came from the origin and are still in the index. Those
    /// whose bytes the origin may still lose rest first; rewritten ones rest already, and
    /// survivors wait for their reclaim to end.
    pub(crate) fn trust_fills<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        chunk: &Chunk<T::Payload>,
    ) {
        let geometry = copies.segments.table().geometry();
        let first = geometry.slot(chunk.segment, chunk.page + 1);
        // A count that the origin is known to have: most blocks of a chunk have the same.
        let mut covered = None;
        let (mut at, mut run) = (0, 0);
        for entry in &chunk.entries {
            let slot = first.advance(at);
            let mut fresh = entry.source == Source::Fill
                && copies.segments.index().get(chunk.disk, entry.block) == Some(slot);
            if fresh && covered != Some(entry.count) {
                if copies.origins.covers(chunk.disk, entry.count) {
                    covered = Some(entry.count);
                } else {
                    self.rest(ports, copies, chunk.disk, entry.block, slot, entry.count);
                    fresh = false;
                }
            }
            if fresh {
                run += 1;
            } else if run > 0 {
                trust(ports, copies, first.advance(at - run), run);
                run = 0;
            }
            at += 1;
        }
        if run > 0 {
            trust(ports, copies, first.advance(at - run), run);
        }
    }

    /// The index points at a copy that reclaim has made: it is trusted if the old one was.
    pub(crate) fn trust_survivor<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: DiskSlot,
        moved: &Move,
    ) {
        ports.stats_mut().blocks_kept += 1;
        if copies.trust.contains(moved.from) {
            trust(ports, copies, moved.to, 1);
        } else {
            // What kept the old copy from being trusted holds for the new one.
            let count = copies.origins.write_count(disk);
            self.rest(ports, copies, disk, moved.block, moved.to, count);
        }
    }

    /// Enters blocks of a log of which the origin has everything into the index. They are trusted if they
    /// are on flash, else they rest.
    pub(crate) fn trust_settled<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: DiskSlot,
        settled: &Settled,
    ) {
        let mut run: Option<(FlashSlot, u32)> = None;
        for (block, slot) in &settled.blocks {
            if copies.segments.enter(disk, *block, *slot).is_err() {
                ports.stats_mut().not_taken.index_full += 1;
                continue;
            }
            if !settled.written && !copies.segments.table().is_written(*slot) {
                let count = copies.origins.write_count(disk);
                self.rest(ports, copies, disk, *block, *slot, count);
                continue;
            }
            run = match run {
                Some((first, count)) if first.advance(count) == *slot => Some((first, count + 1)),
                Some((first, count)) => {
                    trust(ports, copies, first, count);
                    Some((*slot, 1))
                }
                None => Some((*slot, 1)),
            };
        }
        if let Some((first, count)) = run {
            trust(ports, copies, first, count);
        }
    }

    /// The trusted copies beside a write's blocks go to rest, with the commit that the write waits for.
    pub(crate) fn rest_around<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: DiskSlot,
        first: BlockIndex,
        blocks: u64,
    ) {
        let behind = first.get() + blocks;
        let start = first.get() / REGION_BLOCKS * REGION_BLOCKS;
        let end = behind.next_multiple_of(REGION_BLOCKS);
        let region = start..end;
        if holds(Guard::RestOnce) && self.is_coming_to_rest(copies.journal.durable(), disk, &region)
        {
            return;
        }
        let beside = (start..first.get()).chain(behind..end.min(1 << BlockIndex::BITS));
        let commit = self.rest_beside(ports, copies, disk, beside.map(BlockIndex::new));
        if let Some(commit) = commit {
            self.neighbours.push_back(Neighbours {
                commit,
                disk,
                blocks: region,
            });
        }
    }

    /// The trusted copies of these blocks go to rest. Returns the entry of the journal that distrusts them.
    pub(crate) fn rest_beside<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: DiskSlot,
        beside: impl Iterator<Item = BlockIndex>,
    ) -> Option<Ticket> {
        let mut commit = None;
        for block in beside {
            let slot = copies.segments.index().get(disk, block);
            let may_rest = |slot: &FlashSlot| {
                copies.trust.contains(*slot) && !copies.segments.table().segment_of(*slot).is_dirty
            };
            if let Some(slot) = slot.filter(may_rest) {
                commit = Some(distrust(ports, copies.journal, copies.segments, slot));
                // It was trusted, so the origin has its bytes for good.
                self.rest(ports, copies, disk, block, slot, WriteCount::default());
            }
        }
        commit
    }

    /// Whether copies of these blocks were put to rest by a commit that is not durable yet.
    fn is_coming_to_rest(&mut self, durable: Ticket, disk: DiskSlot, blocks: &Range<u64>) -> bool {
        let neighbours = &mut self.neighbours;
        while neighbours
            .pop_front_if(|oldest| oldest.commit <= durable)
            .is_some()
        {}
        neighbours.iter().any(|of| {
            of.disk == disk && of.blocks.start < blocks.end && blocks.start < of.blocks.end
        })
    }

    /// Trusts the blocks that have rested long enough.
    pub(crate) fn tick<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
    ) {
        // Those that go on resting are due later: each is looked at once.
        let now = ports.now();
        while let Some(rest) = self.queue.pop_front_if(|rest| rest.due <= now) {
            if !end_rest(ports, copies, rest) {
                let due = now + self.rest_more;
                ports.wake_at(due);
                self.queue.push_back(Rest { due, ..rest });
            }
        }
        if let Some(next) = self.queue.front() {
            ports.wake_at(next.due);
        }
    }

    /// Takes out the blocks at rest whose bytes a disk's origin may still lose.
    pub(crate) fn take_unflushed(
        &mut self,
        origins: &Origins,
        disk: DiskSlot,
    ) -> Vec<(BlockIndex, FlashSlot)> {
        let mut taken = Vec::new();
        self.queue.retain(|rest| {
            let is_suspect = rest.disk == disk && !origins.covers(disk, rest.count);
            if is_suspect {
                taken.push((rest.block, rest.slot));
            }
            !is_suspect
        });
        taken
    }

    /// Asserts that whoever rests can be trusted some day.
    ///
    /// # Panics
    /// If a block of a disk that is gone is at rest.
    pub(crate) fn self_check(&self, origins: &Origins) {
        for rest in &self.queue {
            assert!(
                origins.is_reachable(rest.disk),
                "only blocks of attached disks rest"
            );
        }
    }

    /// Trusts every block at rest whose disk is `disk` (or any, for none) and whose bytes the
    /// origin cannot lose. All chunks have been written.
    pub(crate) fn end<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        copies: &mut Copies<'_, T::Payload>,
        disk: Option<DiskSlot>,
    ) {
        for _ in 0..self.queue.len() {
            let Some(rest) = self.queue.pop_front() else {
                return;
            };
            if disk.is_some_and(|disk| disk != rest.disk) {
                self.queue.push_back(rest);
            } else if !copies.origins.covers(rest.disk, rest.count)
                || !end_rest(ports, copies, rest)
            {
                // Nobody will be there to flush its origin once the disk is detached.
                ports.stats_mut().never_trusted += 1;
            }
        }
    }
}

/// Trusts these slots.
fn trust<T: Tag>(
    ports: &mut Ports<T>,
    copies: &mut Copies<'_, T::Payload>,
    first: FlashSlot,
    count: u32,
) {
    let (journal, segments) = (&mut *copies.journal, &*copies.segments);
    copies.trust.trust(ports, journal, segments, first, count);
}

/// Trusts a block at rest if it still counts. False if it cannot be trusted yet.
fn end_rest<T: Tag>(ports: &mut Ports<T>, copies: &mut Copies<'_, T::Payload>, rest: Rest) -> bool {
    // The slot may have a later copy of the same block by now, of bytes that the origin may still lose.
    let generation = copies.segments.table().segment_of(rest.slot).generation;
    if generation != rest.generation && holds(Guard::RestOfOneUse) {
        return true;
    }
    if copies.segments.index().get(rest.disk, rest.block) != Some(rest.slot)
        || copies.trust.contains(rest.slot)
        || copies.trust.is_condemned(rest.slot)
    {
        return true;
    }
    if !copies.origins.covers(rest.disk, rest.count) {
        copies.origins.flush(ports, rest.disk);
        return false;
    }
    // In memory only: it must be on flash before it may be trusted there.
    if !copies.segments.table().is_written(rest.slot) {
        return false;
    }
    ports.stats_mut().retrusted_blocks += 1;
    trust(ports, copies, rest.slot, 1);
    true
}
