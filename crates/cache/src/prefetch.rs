//! Prefetches, piece by piece: a request for gigabytes holds up nobody and takes little memory.
//!
//! ```text
//!   request ─► queue ─► a run of blocks ─┬─ cached, or not to be had ────────► its next turn
//!                ▲                       └─ fetched: counts until it has come ─┐
//!                └──────────── behind the others, while it has more ◄──────────┘
//! ```
//!
//! Invariants:
//! - What prefetches have on its way from the origins of one disk and of all is bounded, by
//!   [`PREFETCH_DISK_BYTES_MAX`] and [`PREFETCH_BYTES_MAX`]; a run may cross the bound.
//! - A step looks at [`PREFETCH_STEP_RUNS`] runs at most; more waits for the next tick, which is due
//!   at once, so that other requests come in between.
//! - Nothing is fetched that the write buffer has no room for: it would be fetched in vain.
//! - A prefetch in the queue is held: it is answered when all of it was asked for and has come.

use crate::cache::Cache;
use crate::limits::{
    PREFETCH_BYTES_MAX, PREFETCH_DISK_BYTES_MAX, PREFETCH_STEP_RUNS, RUN_BLOCKS_MAX,
};
use crate::under_way::ReadId;
use std::collections::VecDeque;
use units::{BLOCK_BYTES, DiskSlot, Instant, Map};

/// A prefetch that has not been asked for as a whole.
#[derive(Clone, Copy, Debug)]
struct Pending {
    read: ReadId,
    disk: DiskSlot,
    /// The first byte that was not looked at.
    at: u64,
}

/// All of them, in the order of their turns, and what they have on its way.
#[derive(Debug, Default)]
pub(crate) struct Prefetches {
    queue: VecDeque<Pending>,
    bytes: u64,
    by_disk: Map<DiskSlot, u64>,
}

impl Prefetches {
    /// So many bytes were asked of an origin, or of who fetches them.
    pub(crate) fn fetches(&mut self, disk: DiskSlot, bytes: u64) {
        self.bytes += bytes;
        *self.by_disk.entry(disk).or_insert(0) += bytes;
    }

    /// They have come, or will not.
    ///
    /// # Panics
    /// If they were not asked for.
    pub(crate) fn fetched(&mut self, disk: DiskSlot, bytes: u64) {
        let of_disk = self.by_disk.get_mut(&disk);
        let of_disk = of_disk.expect("what comes was asked for");
        *of_disk -= bytes;
        if *of_disk == 0 {
            self.by_disk.remove(&disk);
        }
        self.bytes -= bytes;
    }

    fn is_full(&self) -> bool {
        self.bytes >= PREFETCH_BYTES_MAX.get()
    }

    /// The next one whose disk has room.
    fn next(&mut self) -> Option<Pending> {
        if self.is_full() {
            return None;
        }
        let has_room = |one: &Pending| {
            let bytes = self.by_disk.get(&one.disk).copied().unwrap_or(0);
            bytes < PREFETCH_DISK_BYTES_MAX.get()
        };
        let at = self.queue.iter().position(has_room)?;
        self.queue.remove(at)
    }
}

impl Cache {
    /// A prefetch has come.
    pub(crate) fn begin_prefetch(&mut self, read: ReadId, disk: DiskSlot, at: u64) {
        self.prefetches.queue.push_back(Pending { read, disk, at });
        self.step_prefetches();
    }

    /// Takes prefetches a step further.
    pub(crate) fn step_prefetches(&mut self) {
        for _ in 0..PREFETCH_STEP_RUNS {
            if !self.has_room_for_a_run() {
                return;
            }
            let Some(mut next) = self.prefetches.next() else {
                return;
            };
            let end = self.prefetch_end(next);
            if next.at < end {
                next.at = self.read_run(next.read, next.disk, next.at, end);
            }
            if next.at < end {
                self.prefetches.queue.push_back(next);
            } else {
                self.let_go(next.read);
            }
        }
        if !self.prefetches.queue.is_empty() {
            self.ports.wake_at(self.ports.now);
        }
    }

    /// Where a prefetch ends now: where it is, without flash that takes what comes and after an error.
    fn prefetch_end(&self, of: Pending) -> u64 {
        let read = self.reads.get(of.read);
        if !self.flash.is_in_use() || self.late_writes.is_in_doubt() || read.has_failed() {
            return of.at;
        }
        read.end_of_range().min(self.disks.cached_end(of.disk))
    }

    /// Whether the write buffer takes what comes, beside all that is on its way.
    fn has_room_for_a_run(&self) -> bool {
        // What waits for flash that is late is not held up by it.
        self.late_writes.is_in_doubt()
            || self.flash.as_ref().is_none_or(|flash| {
                let run = RUN_BLOCKS_MAX * BLOCK_BYTES;
                let coming = flash.facts().buffered().get() + self.prefetches.bytes;
                coming == 0 || coming + run <= flash.config().write_buffer.get()
            })
    }

    /// Ends what prefetches of a disk have not asked for yet, as if it were not to be had: the disk is
    /// about to leave, and nobody waits for the rest.
    pub fn cut_prefetches(&mut self, disk: DiskSlot, now: Instant) {
        self.ports.set_now(now);
        let queue = std::mem::take(&mut self.prefetches.queue);
        let (cut, kept): (VecDeque<Pending>, VecDeque<Pending>) =
            queue.into_iter().partition(|one| one.disk == disk);
        self.prefetches.queue = kept;
        for one in cut {
            self.let_go(one.read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_whose_origin_is_slow_leaves_room_for_others() {
        let (slow, other) = (DiskSlot::new(0), DiskSlot::new(1));
        let mut all = Prefetches::default();
        for disk in [slow, other, slow] {
            let (read, at) = (disk.index(), 0);
            all.queue.push_back(Pending { read, disk, at });
        }
        all.fetches(slow, PREFETCH_DISK_BYTES_MAX.get());
        assert_eq!(all.next().map(|one| one.disk), Some(other));
        assert!(all.next().is_none());
        all.fetched(slow, PREFETCH_DISK_BYTES_MAX.get());
        assert!(all.by_disk.is_empty() && all.bytes == 0);
        assert_eq!(all.next().map(|one| one.disk), Some(slow));
        all.fetches(other, PREFETCH_BYTES_MAX.get());
        assert!(all.next().is_none(), "all together have a bound, too");
    }
}
