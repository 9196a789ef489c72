//! What the hand-over sends besides copies: dirty blocks, what has been changed, the addresses of what stays.

use super::{FAILED_FLUSHES, Moving};
use crate::devices::{Host, Way};
use crate::mover::{Phase, Told, blocks};
use crate::setup::{Dirty, Writes};
use crate::world::Then;
use borrowing::Run;
use strategies::Ahead;
use units::Bytes;

/// Bytes of an address in a list.
const ADDRESS: u64 = 8;
/// A message without blocks.
const MESSAGE: Bytes = Bytes::new(64);
/// Most runs of changes in one answer, as in the daemon.
const RUNS_MAX: usize = 4_096;
/// Dirty blocks that are on their way at a time: while guests run, and while one waits.
const DRAIN_BESIDE_GUESTS: u32 = 8;
const DRAIN_ALONE: u32 = 128;

impl Moving<'_, '_> {
    /// Dirty blocks go, as far as they may.
    pub(super) fn pump_drain(&mut self) {
        let is_stopped = self.world.mover.phase == Phase::Draining;
        let goes = match self.world.setup.dirty {
            Dirty::Flush => is_stopped,
            Dirty::Drain | Dirty::Ship => is_stopped || self.world.mover.phase == Phase::Ahead,
            Dirty::Addresses => false,
        };
        let is_back = self.world.setup.writes == Writes::Back;
        if !goes || !is_back {
            if is_stopped {
                self.tell_changes();
            }
            return;
        }
        let most = if is_stopped {
            DRAIN_ALONE
        } else {
            DRAIN_BESIDE_GUESTS
        };
        if self.world.mover.drain.queue.is_empty() && self.world.mover.drain.under_way == 0 {
            let list = self.world.vms[0].copies(Host::Here).dirty();
            let due = list.into_iter().filter(|block| self.is_due(*block));
            let due: Vec<u32> = due.collect();
            self.world.mover.drain.queue = due.into();
        }
        while self.world.mover.drain.under_way < most
            && let Some(block) = self.world.mover.drain.queue.pop_front()
        {
            if !self.is_due(block) {
                continue;
            }
            self.world.mover.drain.under_way += 1;
            let machine = &mut self.world.vms[0];
            let changes = machine.changes(Host::There, block);
            let version = machine.copies(Host::Here).version(block).unwrap_or(0);
            let (way, told) = match self.world.setup.dirty {
                Dirty::Ship => (Way::Loan, Told::Shipped(block, version, changes)),
                _ => (Way::OriginWrite(Host::Here), Told::Drained(block, version)),
            };
            self.world.submit(way, 1, Then::Mover(told));
        }
        if is_stopped && self.world.mover.drain.under_way == 0 {
            self.tell_changes();
        }
    }

    /// Whether a block is dirty, and only here.
    fn is_due(&mut self, block: u32) -> bool {
        let machine = &mut self.world.vms[0];
        let version = machine.copies(Host::Here).version(block);
        machine.copies(Host::Here).is_dirty(block)
            && (self.world.setup.dirty != Dirty::Ship
                || machine.copies(Host::There).version(block) != version
                || !machine.copies(Host::There).is_dirty(block))
    }

    /// The other host asks for what has been changed, and for the addresses of what is dirty if the VM is stopped.
    pub(super) fn tell_changes(&mut self) {
        let is_last = self.world.mover.phase == Phase::Draining;
        if is_last {
            self.world.mover.phase = Phase::Telling;
        }
        let changes = &mut self.world.mover.changes;
        let changed = changes.take(RUNS_MAX, FAILED_FLUSHES).unwrap_or_default();
        let is_last = is_last && changed.len() < RUNS_MAX;
        if changed.is_empty() && !is_last {
            return;
        }
        let message = Then::Mover(Told::Changed(changed, is_last));
        self.world.submit_bytes(Way::Link, MESSAGE, message);
    }

    pub(super) fn changed(&mut self, runs: Vec<Run>, is_last: bool) {
        for block in runs.into_iter().flat_map(blocks) {
            let machine = &mut self.world.vms[0];
            let was_cached = machine.copies(Host::There).version(block).is_some();
            // What was shipped of it meanwhile is the last of it.
            let here = machine.copies(Host::Here).version(block);
            let is_shipped = machine.copies(Host::There).is_dirty(block)
                && machine.copies(Host::There).version(block) == here;
            if is_shipped {
                continue;
            }
            self.world.mover.outcome.discarded += u64::from(was_cached);
            machine.learn_change(Host::There, block);
            let is_dirty = machine.copies(Host::Here).is_dirty(block);
            if was_cached && !is_dirty && self.world.setup.row.ahead == Ahead::Passing {
                // The copy of the disk brings what is written after it has passed; no round waits for it.
                let parts = vec![(block, self.world.vms[0].changes(Host::There, block))];
                self.world
                    .submit(Way::Link, 1, Then::Mover(Told::Copied(0, parts)));
            }
        }
        if self.world.mover.phase != Phase::Telling {
            return;
        }
        if !is_last {
            self.world.mover.phase = Phase::Draining;
            return self.tell_changes();
        }
        self.world.mover.changes.unwatch();
        let copies = self.world.vms[0].copies(Host::Here);
        let mut owed = copies.dirty();
        if self.world.setup.dirty == Dirty::Ship {
            for block in owed.drain(..) {
                copies.clean(block);
            }
        }
        let bytes = Bytes::new(owed.len() as u64 * ADDRESS);
        self.world.mover.owed = owed.into_iter().collect();
        self.world
            .submit_bytes(Way::Link, bytes, Then::Mover(Told::Addresses));
    }
}
