//! What the move does, step by step, as the row of its strategy says.
//!
//! ```text
//!   Begin ─► Ahead: lists, copies, Stale, Round ... ─► Stop ─► Settled ─► dirty ─► changes ─► held ─► Resume
//!                                                                                              └─► copied behind
//! ```

mod copying;
mod draining;

use super::{Event, Then, World};
use crate::devices::{Host, Way};
use crate::mover::{Decided, Phase, Step, Told, Wanted, blocks};
use crate::part::Part;
use crate::setup::{Arrival, Dirty};

use borrowing::{Ask, LOAN_TIME_MAX};
use strategies::{Ahead, Place, WaitsFor};
use units::{Bytes, Duration, Instant};

/// A round begins so many times as long after the last as that took, as in the daemon.
const ROUND_SHARE: u64 = 8;
/// Flushes of the origin that have failed: it has no faults here.
const FAILED_FLUSHES: u64 = 0;

/// Carries the move out: hears what is due and what has come.
pub(super) struct Moving<'w, 's> {
    world: &'w mut World<'s>,
}

impl<'w, 's> Moving<'w, 's> {
    pub(super) fn new(world: &'w mut World<'s>) -> Self {
        Self { world }
    }
}

impl Moving<'_, '_> {
    /// Something is due.
    pub(super) fn step(&mut self, step: Step) {
        let now = self.world.timeline.now();
        match step {
            Step::Begin => self.begin_move(),
            Step::Stale if self.world.mover.phase == Phase::Ahead => {
                self.tell_changes();
                self.pump_drain();
                self.world.timeline.push(
                    now + self.world.setup.stale_pause,
                    Event::Moves(Step::Stale),
                );
            }
            Step::Round if self.world.mover.phase == Phase::Ahead => self.list(),
            Step::Stop => self.stop(),
            Step::Settled if self.world.mover.phase == Phase::Stopped => {
                self.world.mover.phase = Phase::Draining;
                self.world.mover.drain.queue.clear();
                self.pump_drain();
            }
            Step::Pump => {
                self.world.mover.silence(step);
                self.pump();
            }
            Step::Late => {
                self.world.mover.silence(step);
                let decided = self.world.mover.tick(now);
                self.carry_out(decided);
                if let Some(next) = self.world.mover.next_deadline() {
                    self.due(next, Step::Late);
                }
            }
            Step::Resume => self.resume(),
            Step::Stale | Step::Round | Step::Settled => {}
        }
    }

    fn begin_move(&mut self) {
        let now = self.world.timeline.now();
        self.world.mover.phase = Phase::Ahead;
        let stop = now + self.world.setup.ahead;
        self.world.timeline.push(stop, Event::Moves(Step::Stop));
        if self.world.setup.row.ahead != Ahead::Nothing || self.world.setup.dirty == Dirty::Ship {
            self.world.mover.changes.watch(FAILED_FLUSHES);
        }
        if self.world.setup.row.ahead != Ahead::Nothing {
            self.world.mover.borrow();
            self.list();
        }
        self.step(Step::Stale);
    }

    fn stop(&mut self) {
        let now = self.world.timeline.now();
        self.world.mover.stop(now);
        for machine in &mut self.world.vms {
            machine.after.begin(now);
        }
        let machine = &mut self.world.vms[0];
        machine.is_stopped = true;
        self.world.mover.outcome.dirty_at_stop = machine.copies(Host::Here).dirty_blocks().into();
        if machine.under_way == 0 {
            self.step(Step::Settled);
        }
    }

    /// Everything has been copied.
    fn copied(&mut self) {
        let now = self.world.timeline.now();
        match self.world.mover.phase {
            Phase::Ahead => {
                let took = now.since(self.world.mover.round_began).as_nanos();
                let pause = took.saturating_mul(ROUND_SHARE);
                let pause = pause.max(self.world.setup.stale_pause.as_nanos() * 5);
                let at = now + Duration::from_nanos(pause);
                self.world.timeline.push(at, Event::Moves(Step::Round));
            }
            Phase::Holding => self.held(),
            Phase::There => {
                self.world.mover.outcome.copied = Some(self.world.mover.since_stop(now));
                if !self.world.setup.only_dirty {
                    let decided = self.world.mover.end_borrowing();
                    self.carry_out(decided);
                }
            }
            _ => {}
        }
    }

    /// The hand-over has been told everything: what the guest waits for is copied.
    fn hold(&mut self) {
        self.world.mover.phase = Phase::Holding;
        match self.world.setup.row.waits_for {
            WaitsFor::Changes => self.held(),
            WaitsFor::LastRound | WaitsFor::Everything => {
                self.world.mover.borrow();
                self.list();
            }
        }
    }

    fn held(&mut self) {
        self.world.mover.phase = Phase::Resuming;
        let earliest = self.world.mover.stopped_at() + self.world.setup.pause;
        self.world
            .timeline
            .push(earliest, Event::Moves(Step::Resume));
    }

    fn resume(&mut self) {
        let now = self.world.timeline.now();
        self.world.mover.phase = Phase::There;
        let paused = self.world.mover.since_stop(now);
        self.world.mover.outcome.paused = paused;
        // What was copied ahead and has not come is nobody's.
        self.world.mover.puller = None;
        self.world.mover.borrow();
        let machine = &mut self.world.vms[0];
        machine.host = Host::There;
        machine.is_stopped = false;
        machine.behind = paused;
        if self.world.setup.row.lists() {
            self.list();
        }
        if let Some(request) = self.world.mover.take_kept() {
            self.world.begin_kept(request);
        } else if let Arrival::Depth(_) = self.world.setup.vms[0].arrival {
            // One whose requests have times has its next one before it.
            self.world.start(0);
        }
    }

    /// A block that is not cached where the VM has come to.
    pub(super) fn read_moved(&mut self, part: Part) {
        if self.world.mover.owed.contains(&part.block) {
            return self.ask_owed(part.block, Wanted::Guest(part));
        }
        if self.world.setup.row.reads_from == Place::Origin {
            return self.world.read_origin(part);
        }
        let now = self.world.timeline.now();
        let decided = self
            .world
            .mover
            .read(part.block, 1, Wanted::Guest(part), now);
        self.carry_out(decided);
    }

    fn ask_owed(&mut self, block: u32, wanted: Wanted) {
        let version = self.world.vms[0]
            .copies(Host::Here)
            .version(block)
            .unwrap_or(0);
        self.world.submit(
            Way::Loan,
            1,
            Then::Mover(Told::Owed(wanted, block, version)),
        );
    }

    fn carry_out(&mut self, decided: Decided) {
        if !decided.asks.is_empty() {
            self.lend(&decided.asks);
        }
        let mut kept = (self.world.mover.round, Vec::new());
        for (wanted, versions) in decided.done {
            match wanted {
                Wanted::Guest(part) => {
                    self.world.mover.outcome.from_lender += 1;
                    self.world
                        .answer(part, versions[0], self.world.setup.row.is_kept);
                }
                Wanted::Copy(round, first, changes) => {
                    self.world.mover.outcome.from_lender += changes.len() as u64;
                    let blocks = (first..).zip(changes);
                    let copies = blocks.zip(versions);
                    kept.0 = round;
                    kept.1
                        .extend(copies.map(|((block, at), version)| (block, at, version)));
                }
            }
        }
        if !kept.1.is_empty() {
            self.keep(kept.0, kept.1, false);
        }
        for wanted in decided.origin {
            match wanted {
                Wanted::Guest(part) => self.world.read_origin(part),
                // A guest's read brings it.
                Wanted::Copy(round, _, changes) => self.landed(round, changes.len()),
            }
        }
    }

    /// The other host answers from what it has now: of each loan from the first block on.
    fn lend(&mut self, asks: &[Ask]) {
        let now = self.world.timeline.now();
        let copies = self.world.vms[0].copies(Host::Here);
        let mut all = Vec::with_capacity(asks.len());
        let mut count = 0;
        for ask in asks {
            let versions = blocks(ask.run).map_while(|block| copies.version(block));
            let versions: Vec<u32> = versions.collect();
            count += versions.len() as u64;
            all.push((ask.number, versions));
        }
        self.world
            .submit(Way::Loan, count, Then::Mover(Told::Lent(all)));
        self.due(now + LOAN_TIME_MAX, Step::Late);
    }

    /// Something is due at that time, unless it is due before.
    fn due(&mut self, at: Instant, step: Step) {
        if self.world.mover.alarm(step, at) {
            self.world.timeline.push(at, Event::Moves(step));
        }
    }

    /// Blocks that were copied come into the cache, but for those that were changed meanwhile.
    fn keep(&mut self, round: u64, copies: Vec<(u32, u32, u32)>, is_dirty: bool) {
        let count = copies.len();
        for (block, changes, version) in copies {
            let machine = &mut self.world.vms[0];
            let is_current = machine.changes(Host::There, block) == changes;
            if is_current && machine.copies(Host::There).version(block).is_none() {
                self.world.insert(0, Host::There, block, version);
                let copies = self.world.vms[0].copies(Host::There);
                if is_dirty && copies.version(block).is_some() {
                    copies.soil(block);
                } else if is_dirty {
                    self.world.vms[0].versions.write_origin(block, version);
                }
            }
        }
        let kept = Then::Mover(Told::Kept(round, count));
        self.world
            .submit(Way::FlashWrite(Host::There), count as u64, kept);
    }

    /// Blocks of a round have come, or will not.
    fn landed(&mut self, round: u64, count: usize) {
        if round == self.world.mover.round
            && let Some(puller) = &mut self.world.mover.puller
        {
            puller.ended(u32::try_from(count).unwrap_or(u32::MAX));
            self.pump();
        }
    }

    /// Something has come.
    pub(super) fn told(&mut self, told: Told) {
        let now = self.world.timeline.now();
        match told {
            Told::Lent(loans) => {
                // They were asked for together, and lie together.
                let mut all = Decided::default();
                for (number, versions) in loans {
                    all.add(self.world.mover.lent(number, &versions, now));
                }
                self.carry_out(all);
            }
            Told::Owed(wanted, block, version) => self.owed(wanted, block, version),
            Told::Listed(list) => self.listed(list),
            Told::Changed(runs, is_last) => self.changed(runs, is_last),
            Told::Drained(block, version) => {
                let machine = &mut self.world.vms[0];
                machine.versions.write_origin(block, version);
                let copies = machine.copies(Host::Here);
                if copies.version(block) == Some(version) {
                    copies.clean(block);
                }
                self.world.mover.drain.under_way -= 1;
                self.pump_drain();
            }
            Told::Shipped(block, version, changes) => {
                let machine = &mut self.world.vms[0];
                if machine.changes(Host::There, block) == changes {
                    machine.copies(Host::There).remove(block);
                    self.world.insert(0, Host::There, block, version);
                    self.world.vms[0].copies(Host::There).soil(block);
                    self.world
                        .submit(Way::FlashWrite(Host::There), 1, Then::Nothing);
                }
                self.world.mover.drain.under_way -= 1;
                self.pump_drain();
            }
            Told::Copied(round, parts) => {
                self.world.mover.outcome.from_origin += parts.len() as u64;
                let versions = &self.world.vms[0].versions;
                let with = |(block, changes)| (block, changes, versions.origin(block));
                let copies = parts.into_iter().map(with).collect();
                self.keep(round, copies, false);
            }
            Told::Kept(round, count) => self.landed(round, count),
            Told::Addresses => self.hold(),
        }
    }

    fn owed(&mut self, wanted: Wanted, block: u32, version: u32) {
        let is_owed = self.world.mover.owed.remove(&block);
        let changes = self.world.vms[0].changes(Host::There, block);
        match wanted {
            Wanted::Guest(part) => {
                if is_owed && part.changes == changes {
                    self.world.insert(0, Host::There, block, version);
                    let copies = self.world.vms[0].copies(Host::There);
                    copies.soil(block);
                    self.world
                        .submit(Way::FlashWrite(Host::There), 1, Then::Nothing);
                }
                self.world.mover.outcome.from_lender += 1;
                self.world.answer(part, version, false);
            }
            Wanted::Copy(round, _, at) if is_owed && at[0] == changes => {
                self.world.mover.outcome.from_lender += 1;
                self.keep(round, vec![(block, changes, version)], true);
            }
            Wanted::Copy(round, ..) => self.landed(round, 1),
        }
    }

    /// A write of the moving VM begins.
    pub(super) fn change_begins(&mut self, part: Part, version: u32) {
        if part.host == Host::There {
            return self
                .world
                .mover
                .written_there(part.block, self.world.timeline.now());
        }
        let at = crate::mover::offset(part.block);
        let length = Bytes::new(units::BLOCK_BYTES);
        self.world
            .mover
            .changes
            .begins((part.block, version), at, length);
    }

    /// A write of the moving VM has ended.
    pub(super) fn change_ends(&mut self, part: Part, version: u32) {
        if part.host == Host::Here {
            self.world.mover.changes.ends(&(part.block, version), false);
        }
    }
}
