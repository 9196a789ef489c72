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

use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::limits::REST_MORE_MIN;
use crate::ports::{Ports, Tag};
use crate::store::Store;
use crate::write_count::WriteCount;
use flash_format::Geometry;
use segment_log::{REGION_BLOCKS, resting_limit};
use std::collections::VecDeque;
use std::ops::Range;
use units::{BlockIndex, DiskSlot, FlashSlot, Instant};

#[derive(Clone, Copy)]
struct Rest {
    due: Instant,
    disk: DiskSlot,
    block: BlockIndex,
    slot: FlashSlot,
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
    /// Oldest commit first; each has a write that waits for it.
    neighbours: VecDeque<Neighbours>,
}

impl Resting {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self {
            queue: VecDeque::new(),
            limit: resting_limit(geometry),
            neighbours: VecDeque::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Rest>()
            + self.neighbours.capacity() * size_of::<Neighbours>()
    }
}

impl Store {
    /// Lays a block to rest whose bytes were taken when `count` writes had ended.
    pub(crate) fn rest<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
        count: WriteCount,
    ) {
        if !self.origins.is_reachable(disk) {
            ports.stats.never_trusted += 1;
            return;
        }
        let due = ports.now + self.config.trust_delay;
        ports.wake_at(due);
        self.resting.queue.push_back(Rest {
            due,
            disk,
            block,
            slot,
            count,
        });
        if self.resting.queue.len() > self.resting.limit
            && let Some(rest) = self.resting.queue.pop_front()
            && !self.end_rest(ports, rest)
        {
            ports.stats.never_trusted += 1;
            self.origins.tag_is_lost(rest.disk);
        }
    }

    /// The trusted copies beside a write's blocks go to rest, with the commit that the write waits for.
    pub fn rest_around<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        first: BlockIndex,
        blocks: u64,
    ) {
        let behind = first.get() + blocks;
        let start = first.get() / REGION_BLOCKS * REGION_BLOCKS;
        let end = behind.next_multiple_of(REGION_BLOCKS);
        let region = start..end;
        if holds(Guard::RestOnce) && self.is_coming_to_rest(disk, &region) {
            return;
        }
        let mut commit = None;
        for block in (start..first.get()).chain(behind..end.min(1 << BlockIndex::BITS)) {
            let block = BlockIndex::new(block);
            let slot = self.log.index().get(disk, block);
            let may_rest = |slot: &FlashSlot| {
                self.trusted.contains(*slot) && !self.log.segment_of(*slot).is_dirty
            };
            if let Some(slot) = slot.filter(may_rest) {
                commit = Some(self.distrust(ports, slot, 1));
                // It was trusted, so the origin has its bytes for good.
                self.rest(ports, disk, block, slot, WriteCount::default());
            }
        }
        if let Some(commit) = commit {
            self.resting.neighbours.push_back(Neighbours {
                commit,
                disk,
                blocks: region,
            });
        }
    }

    /// Whether copies of these blocks were put to rest by a commit that is not durable yet.
    fn is_coming_to_rest(&mut self, disk: DiskSlot, blocks: &Range<u64>) -> bool {
        let durable = self.journal.durable();
        let neighbours = &mut self.resting.neighbours;
        while neighbours
            .pop_front_if(|oldest| oldest.commit <= durable)
            .is_some()
        {}
        neighbours.iter().any(|of| {
            of.disk == disk && of.blocks.start < blocks.end && blocks.start < of.blocks.end
        })
    }

    /// Trusts a block at rest if it still counts. False if it cannot be trusted yet.
    fn end_rest<T: Tag>(&mut self, ports: &mut Ports<T>, rest: Rest) -> bool {
        if self.log.index().get(rest.disk, rest.block) != Some(rest.slot)
            || self.trusted.contains(rest.slot)
            || self.is_condemned(rest.slot)
        {
            return true;
        }
        if !self.origins.covers(rest.disk, rest.count) {
            self.origins.flush(ports, rest.disk);
            return false;
        }
        // In memory only: it must be on flash before it may be trusted there.
        if !self.log.is_written(rest.slot) {
            return false;
        }
        ports.stats.retrusted_blocks += 1;
        self.trust(ports, rest.slot, 1);
        true
    }

    /// Ends the rest of the longest-resting, or lets it rest a little longer.
    fn wake_longest_resting<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let Some(rest) = self.resting.queue.pop_front() else {
            return;
        };
        if !self.end_rest(ports, rest) {
            let due = ports.now + self.config.write_delay.max(REST_MORE_MIN);
            ports.wake_at(due);
            self.resting.queue.push_back(Rest { due, ..rest });
        }
    }

    /// Trusts the blocks that have rested long enough.
    pub(crate) fn tick_resting<T: Tag>(&mut self, ports: &mut Ports<T>) {
        // Those that go on resting are due later: each is looked at once.
        while self
            .resting
            .queue
            .front()
            .is_some_and(|rest| rest.due <= ports.now)
        {
            self.wake_longest_resting(ports);
        }
        if let Some(next) = self.resting.queue.front() {
            ports.wake_at(next.due);
        }
    }

    /// Takes out the blocks at rest whose bytes a disk's origin may still lose.
    pub(crate) fn take_resting_unflushed(
        &mut self,
        disk: DiskSlot,
    ) -> Vec<(BlockIndex, FlashSlot)> {
        let origins = &self.origins;
        let mut taken = Vec::new();
        self.resting.queue.retain(|rest| {
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
    pub(crate) fn check_resting(&self) {
        for rest in &self.resting.queue {
            assert!(
                self.origins.is_reachable(rest.disk),
                "only blocks of attached disks rest"
            );
        }
    }

    /// Trusts every block at rest whose disk is `disk` (or any, for none) and whose bytes the
    /// origin cannot lose. All chunks have been written.
    pub fn trust_resting<T: Tag>(&mut self, ports: &mut Ports<T>, disk: Option<DiskSlot>) {
        for _ in 0..self.resting.queue.len() {
            let Some(rest) = self.resting.queue.pop_front() else {
                return;
            };
            if disk.is_some_and(|disk| disk != rest.disk) {
                self.resting.queue.push_back(rest);
            } else if !self.origins.covers(rest.disk, rest.count) || !self.end_rest(ports, rest) {
                // Nobody will be there to flush its origin once the disk is detached.
                ports.stats.never_trusted += 1;
            }
        }
    }
}
