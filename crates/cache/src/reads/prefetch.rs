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
//!   [`PREFETCH_DISK_BYTES_MAX`](crate::limits::PREFETCH_DISK_BYTES_MAX) and
//!   [`PREFETCH_BYTES_MAX`](crate::limits::PREFETCH_BYTES_MAX); a run may cross the bound.
//! - A step looks at [`PREFETCH_STEP_RUNS`] runs at most; more waits for the next tick, which is due
//!   at once, so that other requests come in between.
//! - Nothing is fetched that the write buffer has no room for: it would be fetched in vain.
//! - A prefetch in the queue is held: it is answered when all of it was asked for and has come.

use super::GuestReads;
use crate::limits::{PREFETCH_STEP_RUNS, RUN_BLOCKS_MAX};
use crate::prefetches::Pending;
use crate::under_way::ReadId;
use units::{BLOCK_BYTES, DiskSlot};

impl GuestReads<'_> {
    /// A prefetch has come.
    pub(super) fn begin_prefetch(&mut self, read: ReadId, disk: DiskSlot, at: u64) {
        self.state.prefetches.push(Pending { read, disk, at });
        self.step_prefetches();
    }

    /// Takes prefetches a step further.
    pub(crate) fn step_prefetches(&mut self) {
        for _ in 0..PREFETCH_STEP_RUNS {
            if !self.has_room_for_a_run() {
                return;
            }
            let Some(mut next) = self.state.prefetches.next() else {
                return;
            };
            let end = self.prefetch_end(next);
            if next.at < end {
                next.at = self.read_run(next.read, next.disk, next.at, end);
            }
            if next.at < end {
                self.state.prefetches.push(next);
            } else {
                self.let_go(next.read);
            }
        }
        if !self.state.prefetches.is_empty() {
            self.ports.wake_at(self.ports.now());
        }
    }

    /// Where a prefetch ends now: where it is, without flash that takes what comes and after an error.
    fn prefetch_end(&self, of: Pending) -> u64 {
        let read = self.state.reads.get(of.read);
        if !self.flash.is_in_use() || self.host_record.is_in_doubt() || read.has_failed() {
            return of.at;
        }
        read.end_of_range().min(self.disks.cached_end(of.disk))
    }

    /// Whether the write buffer takes what comes, beside all that is on its way.
    fn has_room_for_a_run(&self) -> bool {
        // What waits for flash that is late is not held up by it.
        self.host_record.is_in_doubt()
            || self.flash.as_ref().is_none_or(|flash| {
                let run = RUN_BLOCKS_MAX * BLOCK_BYTES;
                let coming = flash.facts().buffered().get() + self.state.prefetches.bytes();
                coming == 0 || coming + run <= flash.facts().config().write_buffer.get()
            })
    }

    /// Ends what prefetches of a disk have not asked for yet, as if it were not to be had: the disk is
    /// about to leave, and nobody waits for the rest.
    pub(crate) fn cut_prefetches(&mut self, disk: DiskSlot) {
        for read in self.state.prefetches.cut(disk) {
            self.let_go(read);
        }
    }
}
