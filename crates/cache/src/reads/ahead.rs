//! Blocks that are prefetched into memory, before a guest reads them.
//!
//! ```text
//!   a guest's read ─► miners ─► guesses wait ─► no read of the disk waits at its origin ─► worth its price?
//!                                                                                   │ yes
//!        ┌── a guest reads one of its blocks meanwhile: joins, as any fill ◄── fill ◄┘
//!        ▼                                                                     │
//!   admit | stage | refuse ◄── a miss with its bytes at hand ◄── read ── frame, `ahead`
//! ```
//!
//! - A guess is no demand: nothing counts it, and its blocks go to memory only. The first read of a block asks admission
//!   about it as a miss does, so the flash is earned as ever.
//! - A guess is in nobody's way: it goes to the origin while no read of its disk waits there.
//! - **A frame equals the origin's bytes, or is gone.** What a write has overtaken on its way is killed as any fill is,
//!   and has no frame (guard `KilledGuessStaysOut`).

use super::GuestReads;
use super::misses::fetch;
use crate::api::{Effect, Tenure};
use crate::fills::Fill;
use crate::foresight::{Due, Promise};
use crate::guard::{Guard, holds};
use crate::under_way::index;
use admission::Key;
use block_io::{PAGE_BYTES, Slice};
use dirty_log::Found;
use prefetch::Run;
use std::ops::Range;
use units::{BLOCK_BYTES, BlockIndex, DiskSlot};

/// A guest has asked for these bytes of a disk. What it may read next is fetched, if it is worth that.
#[cold]
#[inline(never)]
pub(super) fn after_read(of: &mut GuestReads<'_>, disk: DiskSlot, bytes: Range<u64>) {
    let hit = !std::mem::take(&mut of.state.lacks);
    Foreseeing::of(of).after_read(disk, bytes, hit);
}

/// What is read ahead of guests.
pub(super) struct Foreseeing<'a, 'b>(&'a mut GuestReads<'b>);

impl<'a, 'b> Foreseeing<'a, 'b> {
    pub(super) fn of(reads: &'a mut GuestReads<'b>) -> Self {
        Self(reads)
    }

    fn after_read(&mut self, disk: DiskSlot, bytes: Range<u64>, hit: bool) {
        let known = self.0.disks.get(disk);
        let Some(known) = known.filter(|known| known.tenure != Tenure::Standby) else {
            return;
        };
        let tenant = known.tenant;
        if bytes.is_empty() || !self.0.flash.is_in_use() {
            return;
        }
        let first = bytes.start / BLOCK_BYTES;
        let Some(run) = Run::new(first, bytes.end.div_ceil(BLOCK_BYTES) - first) else {
            return;
        };
        let blocks = self.0.disks.cached_end(disk) / BLOCK_BYTES;
        let (foresight, frames) = (&mut self.0.state.foresight, self.0.admission.frames_mut());
        foresight.read((disk, blocks), tenant, (run, hit), frames);
        self.fetch(disk);
    }

    /// Fetches guesses of a disk, as long as nothing else is to be done at its origin.
    pub(super) fn fetch(&mut self, disk: DiskSlot) {
        while !self.0.state.fills.is_waited_for(disk)
            && let Some(due) = self.0.state.foresight.next(disk)
        {
            self.fetch_guess(disk, due);
        }
    }

    fn fetch_guess(&mut self, disk: DiskSlot, due: Due) {
        let run = due.guess.run;
        let end = self.0.disks.cached_end(disk) / BLOCK_BYTES;
        let lacking: Vec<BlockIndex> = run
            .iter()
            .filter(|block| block.get() < end && self.is_nowhere(disk, *block))
            .collect();
        let (Some(&first), Some(&last)) = (lacking.first(), lacking.last()) else {
            return;
        };
        // A write to one of them would kill what is fetched.
        let span = last.get() + 1 - first.get();
        if self.0.writes.overlaps(disk, first, span) {
            return;
        }
        let foresight = &mut self.0.state.foresight;
        let Some(promise) = foresight.offer(disk, due, lacking.iter().copied()) else {
            return;
        };
        for piece in lacking.chunk_by(|one, next| one.next() == *next) {
            let fill = Fill {
                ahead: Some(promise),
                ..Fill::new(disk, piece[0], piece.len() as u64)
            };
            fetch(&mut self.0.state.fills, self.0.disks, self.0.ports, fill);
        }
    }

    /// Whether a block is neither here nor on its way here.
    fn is_nowhere(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        let Some(flash) = self.0.flash.as_ref() else {
            return false;
        };
        let is_clean =
            !flash.dirty_logs().has(disk) || flash.dirty_logs().find(disk, block) == Found::Clean;
        is_clean
            && !flash.facts().has_copy(disk, block)
            && !self.0.admission.frames().has(Key::new(disk, block))
            && self.0.state.fills.covering(disk, block).is_none()
    }

    /// Blocks that a guess was fetched for have come, or have failed to: those that nobody waits for go to memory.
    pub(super) fn done(&mut self, fill: &Fill, promise: Promise, bytes: Option<&Slice>) {
        self.0.state.foresight.came(fill.disk, promise, fill.count);
        let is_right = !fill.killed || !holds(Guard::KilledGuessStaysOut);
        let pages = bytes.filter(|_| is_right && self.may_keep(fill.disk, promise));
        let mut kept = Vec::new();
        for at in 0..fill.count {
            let block = fill.first.advance(at);
            if fill.waiters.iter().any(|waiter| waiter.has(at)) {
                self.0.state.foresight.used(promise);
                continue;
            }
            let has_frame = pages.is_some_and(|pages| {
                let from = index(at * BLOCK_BYTES);
                self.keep((fill.disk, block), promise, &pages[from..from + PAGE_BYTES])
            });
            if has_frame {
                kept.push(block);
            } else {
                self.0.state.foresight.wasted(promise);
            }
        }
        for run in kept
            .chunk_by(|one, next| one.next() == *next)
            .filter(|_| promise.is_told)
        {
            self.0.ports.push(Effect::Expected {
                disk: fill.disk,
                first: run[0],
                count: run.len() as u64,
            });
        }
    }

    fn may_keep(&self, disk: DiskSlot, promise: Promise) -> bool {
        self.0.disks.tenant_of(disk) == Some(promise.tenant)
            && self.0.state.foresight.is_current(promise)
    }

    fn keep(
        &mut self,
        (disk, block): (DiskSlot, BlockIndex),
        promise: Promise,
        page: &[u8],
    ) -> bool {
        let has_copy = self
            .0
            .flash
            .as_ref()
            .is_none_or(|flash| flash.facts().has_copy(disk, block));
        if has_copy {
            return false;
        }
        let bytes = self.0.ports.pool().copy_of(page);
        let (key, label) = (Key::new(disk, block), promise.label());
        let frames = self.0.admission.frames_mut();
        frames.ahead().put(promise.tenant, key, label, bytes)
    }
}
