//! What the move does, step by step, as the row of its strategy says.
//!
//! ```text
//!   Begin ─► Ahead: lists, copies, Stale, Round ... ─► Stop ─► Settled ─► dirty ─► changes ─► held ─► Resume
//!                                                                                              └─► copied behind
//! ```

use crate::devices::{Host, Way};
use crate::mover::{Decided, Phase, Step, Told, Wanted, blocks, runs};
use crate::part::Part;
use crate::puller::{From, Next, Puller};
use crate::setup::{Arrival, Dirty, Pace};
use crate::world::{Event, Then, World};
use borrowing::{Ask, LOAN_TIME_MAX};
use strategies::{Ahead, Place, WaitsFor};
use units::{Bytes, Duration, Instant};

/// Bytes of an address in a list.
const ADDRESS: u64 = 8;
/// So far apart blocks are read from a disk at once, with what lies between them.
const GAP_MAX: u32 = 32;
/// A round begins so many times as long after the last as that took, as in the daemon.
const ROUND_SHARE: u64 = 8;

impl World<'_> {
    /// Something is due.
    pub(crate) fn step(&mut self, step: Step) {
        let now = self.timeline.now();
        match step {
            Step::Begin => self.begin_move(),
            Step::Stale if self.mover.phase == Phase::Ahead => {
                self.tell_changes();
                self.pump_drain();
                self.timeline
                    .push(now + self.setup.stale_pause, Event::Moves(Step::Stale));
            }
            Step::Round if self.mover.phase == Phase::Ahead => self.list(),
            Step::Stop => self.stop(),
            Step::Settled if self.mover.phase == Phase::Stopped => {
                self.mover.phase = Phase::Draining;
                self.mover.drain.queue.clear();
                self.pump_drain();
            }
            Step::Pump => {
                self.mover.silence(step);
                self.pump();
            }
            Step::Late => {
                self.mover.silence(step);
                let decided = self.mover.tick(now);
                self.carry_out(decided);
                if let Some(next) = self.mover.next_deadline() {
                    self.due(next, Step::Late);
                }
            }
            Step::Resume => self.resume(),
            Step::Stale | Step::Round | Step::Settled => {}
        }
    }

    fn begin_move(&mut self) {
        let now = self.timeline.now();
        self.mover.phase = Phase::Ahead;
        let stop = now + self.setup.ahead;
        self.timeline.push(stop, Event::Moves(Step::Stop));
        if self.setup.row.ahead != Ahead::Nothing || self.setup.dirty == Dirty::Ship {
            self.mover.changes.watch();
        }
        if self.setup.row.ahead != Ahead::Nothing {
            self.mover.borrow();
            self.list();
        }
        self.step(Step::Stale);
    }

    fn stop(&mut self) {
        let now = self.timeline.now();
        self.mover.stop(now);
        for machine in &mut self.vms {
            machine.after.begin(now);
        }
        let machine = &mut self.vms[0];
        machine.is_stopped = true;
        self.mover.outcome.dirty_at_stop = machine.copies(Host::Here).dirty_blocks().into();
        if machine.under_way == 0 {
            self.step(Step::Settled);
        }
    }

    /// From where the strategy copies in this phase.
    fn from(&self) -> From {
        let row = &self.setup.row;
        let of = |place| match place {
            Place::Lender => From::Lender,
            Place::Origin => From::Origin,
        };
        match (self.mover.phase, row.ahead, row.behind) {
            (Phase::Ahead, Ahead::Passing, _) => From::Passing,
            (Phase::Ahead | Phase::Holding, Ahead::Copies(place), _) | (_, _, Some(place)) => {
                of(place)
            }
            _ => of(row.reads_from),
        }
    }

    /// What is cached is asked for.
    fn list(&mut self) {
        let from = self.from();
        self.mover.round_began = self.timeline.now();
        let copies = self.vms[0].copies(Host::Here);
        let mut list = copies.list();
        // The origin has older bytes of these.
        list.retain(|block| from == From::Lender || !copies.is_dirty(*block));
        if self.mover.phase == Phase::There && self.setup.only_dirty {
            list.retain(|block| self.mover.owed.contains(block));
        }
        if from == From::Passing || (from == From::Origin && self.setup.pace.by_address) {
            list.sort_unstable();
        }
        let bytes = Bytes::new(list.len() as u64 * ADDRESS);
        self.submit_bytes(Way::Link, bytes, Then::Mover(Told::Listed(list)));
    }

    fn listed(&mut self, list: Vec<u32>) {
        let from = self.from();
        let is_there = self.mover.phase == Phase::There;
        if from == From::Lender || (is_there && self.setup.row.reads_from == Place::Lender) {
            self.mover.list(&list);
        }
        if is_there && self.setup.row.behind.is_none() {
            return;
        }
        let pace = match self.mover.phase {
            // Nobody else wants the disk.
            Phase::Holding => Pace {
                rests: false,
                ..self.setup.pace
            },
            _ => self.setup.pace,
        };
        let now = self.timeline.now();
        self.mover.round += 1;
        self.mover.puller = Some(Puller::new(from, pace, list, now));
        self.pump();
    }

    /// Copies what may be copied now.
    pub(crate) fn pump(&mut self) {
        loop {
            let now = self.timeline.now();
            let Some(mut puller) = self.mover.puller.take() else {
                return;
            };
            let from = puller.from;
            let next = puller.next(now, |block| self.is_wanted(from, block));
            self.mover.puller = Some(puller);
            match next {
                Next::Blocks(blocks) => self.copy(from, blocks),
                Next::Later(at) => return self.due(at, Step::Pump),
                Next::UnderWay => return,
                Next::Over => {
                    self.mover.puller = None;
                    return self.copied();
                }
            }
        }
    }

    fn is_wanted(&mut self, from: From, block: u32) -> bool {
        if self.vms[0].copies(Host::There).version(block).is_some() {
            return false;
        }
        if self.mover.owed.contains(&block) {
            return from == From::Lender;
        }
        let is_dirty = self.vms[0].copies(Host::Here).is_dirty(block);
        let is_there = self.mover.phase == Phase::There;
        match from {
            From::Lender => self.mover.may_borrow(block),
            From::Origin | From::Passing => is_there || !is_dirty,
        }
    }

    fn copy(&mut self, from: From, mut list: Vec<u32>) {
        let now = self.timeline.now();
        let round = self.mover.round;
        list.sort_unstable();
        if from == From::Origin && self.setup.pace.by_address {
            for near in list.chunk_by(|one, next| next - one <= GAP_MAX) {
                let of = |block: &u32| (*block, self.vms[0].changes(Host::There, *block));
                let span = near[near.len() - 1] - near[0] + 1;
                let copied = Told::Copied(round, near.iter().map(of).collect());
                let way = Way::OriginRead(Host::There);
                self.submit(way, span.into(), Then::Mover(copied));
            }
            return;
        }
        if from != From::Lender {
            for run in runs(&list) {
                let of = |block| (block, self.vms[0].changes(Host::There, block));
                let parts: Vec<_> = blocks(run).map(of).collect();
                let way = match from {
                    From::Passing => Way::Link,
                    _ => Way::OriginRead(Host::There),
                };
                self.submit(
                    way,
                    parts.len() as u64,
                    Then::Mover(Told::Copied(round, parts)),
                );
            }
            return;
        }
        let (owed, lent): (Vec<u32>, Vec<u32>) = list
            .into_iter()
            .partition(|block| self.mover.owed.contains(block));
        let mut all = Decided::default();
        for run in runs(&lent) {
            let changes = |block| self.vms[0].changes(Host::There, block);
            let first = blocks(run).start;
            let wanted = Wanted::Copy(round, first, blocks(run).map(changes).collect());
            all.add(self.mover.read(first, run.count, wanted, now));
        }
        self.carry_out(all);
        for block in owed {
            let changes = vec![self.vms[0].changes(Host::There, block)];
            self.ask_owed(block, Wanted::Copy(round, block, changes));
        }
    }

    /// Everything has been copied.
    fn copied(&mut self) {
        let now = self.timeline.now();
        match self.mover.phase {
            Phase::Ahead => {
                let took = now.since(self.mover.round_began).as_nanos();
                let pause = took.saturating_mul(ROUND_SHARE);
                let pause = pause.max(self.setup.stale_pause.as_nanos() * 5);
                let at = now + Duration::from_nanos(pause);
                self.timeline.push(at, Event::Moves(Step::Round));
            }
            Phase::Holding => self.held(),
            Phase::There => {
                self.mover.outcome.copied = Some(self.mover.since_stop(now));
                if !self.setup.only_dirty {
                    let decided = self.mover.end_borrowing();
                    self.carry_out(decided);
                }
            }
            _ => {}
        }
    }

    /// The hand-over has been told everything: what the guest waits for is copied.
    fn hold(&mut self) {
        self.mover.phase = Phase::Holding;
        match self.setup.row.waits_for {
            WaitsFor::Changes => self.held(),
            WaitsFor::LastRound | WaitsFor::Everything => {
                self.mover.borrow();
                self.list();
            }
        }
    }

    fn held(&mut self) {
        self.mover.phase = Phase::Resuming;
        let earliest = self.mover.stopped_at() + self.setup.pause;
        self.timeline.push(earliest, Event::Moves(Step::Resume));
    }

    fn resume(&mut self) {
        let now = self.timeline.now();
        self.mover.phase = Phase::There;
        let paused = self.mover.since_stop(now);
        self.mover.outcome.paused = paused;
        // What was copied ahead and has not come is nobody's.
        self.mover.puller = None;
        self.mover.borrow();
        let machine = &mut self.vms[0];
        machine.host = Host::There;
        machine.is_stopped = false;
        machine.behind = paused;
        if self.setup.row.lists() {
            self.list();
        }
        if let Some(request) = self.mover.take_kept() {
            self.begin_kept(request);
        } else if let Arrival::Depth(_) = self.setup.vms[0].arrival {
            // One whose requests have times has its next one before it.
            self.start(0);
        }
    }

    /// A block that is not cached where the VM has come to.
    pub(crate) fn read_moved(&mut self, part: Part) {
        if self.mover.owed.contains(&part.block) {
            return self.ask_owed(part.block, Wanted::Guest(part));
        }
        if self.setup.row.reads_from == Place::Origin {
            return self.read_origin(part);
        }
        let now = self.timeline.now();
        let decided = self.mover.read(part.block, 1, Wanted::Guest(part), now);
        self.carry_out(decided);
    }

    fn ask_owed(&mut self, block: u32, wanted: Wanted) {
        let version = self.vms[0].copies(Host::Here).version(block).unwrap_or(0);
        self.submit(
            Way::Loan,
            1,
            Then::Mover(Told::Owed(wanted, block, version)),
        );
    }

    fn carry_out(&mut self, decided: Decided) {
        if !decided.asks.is_empty() {
            self.lend(&decided.asks);
        }
        let mut kept = (self.mover.round, Vec::new());
        for (wanted, versions) in decided.done {
            match wanted {
                Wanted::Guest(part) => {
                    self.mover.outcome.from_lender += 1;
                    self.answer(part, versions[0], self.setup.row.is_kept);
                }
                Wanted::Copy(round, first, changes) => {
                    self.mover.outcome.from_lender += changes.len() as u64;
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
                Wanted::Guest(part) => self.read_origin(part),
                // A guest's read brings it.
                Wanted::Copy(round, _, changes) => self.landed(round, changes.len()),
            }
        }
    }

    /// The other host answers from what it has now: of each loan from the first block on.
    fn lend(&mut self, asks: &[Ask]) {
        let now = self.timeline.now();
        let copies = self.vms[0].copies(Host::Here);
        let mut all = Vec::with_capacity(asks.len());
        let mut count = 0;
        for ask in asks {
            let versions = blocks(ask.run).map_while(|block| copies.version(block));
            let versions: Vec<u32> = versions.collect();
            count += versions.len() as u64;
            all.push((ask.number, versions));
        }
        self.submit(Way::Loan, count, Then::Mover(Told::Lent(all)));
        self.due(now + LOAN_TIME_MAX, Step::Late);
    }

    /// Something is due at that time, unless it is due before.
    fn due(&mut self, at: Instant, step: Step) {
        if self.mover.alarm(step, at) {
            self.timeline.push(at, Event::Moves(step));
        }
    }

    /// Blocks that were copied come into the cache, but for those that were changed meanwhile.
    fn keep(&mut self, round: u64, copies: Vec<(u32, u32, u32)>, is_dirty: bool) {
        let count = copies.len();
        for (block, changes, version) in copies {
            let machine = &mut self.vms[0];
            let is_current = machine.changes(Host::There, block) == changes;
            if is_current && machine.copies(Host::There).version(block).is_none() {
                self.insert(0, Host::There, block, version);
                let copies = self.vms[0].copies(Host::There);
                if is_dirty && copies.version(block).is_some() {
                    copies.soil(block);
                } else if is_dirty {
                    self.vms[0].versions.write_origin(block, version);
                }
            }
        }
        let kept = Then::Mover(Told::Kept(round, count));
        self.submit(Way::FlashWrite(Host::There), count as u64, kept);
    }

    /// Blocks of a round have come, or will not.
    fn landed(&mut self, round: u64, count: usize) {
        if round == self.mover.round
            && let Some(puller) = &mut self.mover.puller
        {
            puller.ended(u32::try_from(count).unwrap_or(u32::MAX));
            self.pump();
        }
    }

    /// Something has come.
    pub(crate) fn told(&mut self, told: Told) {
        let now = self.timeline.now();
        match told {
            Told::Lent(loans) => {
                // They were asked for together, and lie together.
                let mut all = Decided::default();
                for (number, versions) in loans {
                    all.add(self.mover.lent(number, &versions, now));
                }
                self.carry_out(all);
            }
            Told::Owed(wanted, block, version) => self.owed(wanted, block, version),
            Told::Listed(list) => self.listed(list),
            Told::Changed(runs, is_last) => self.changed(runs, is_last),
            Told::Drained(block, version) => {
                let machine = &mut self.vms[0];
                machine.versions.write_origin(block, version);
                let copies = machine.copies(Host::Here);
                if copies.version(block) == Some(version) {
                    copies.clean(block);
                }
                self.mover.drain.under_way -= 1;
                self.pump_drain();
            }
            Told::Shipped(block, version, changes) => {
                let machine = &mut self.vms[0];
                if machine.changes(Host::There, block) == changes {
                    machine.copies(Host::There).remove(block);
                    self.insert(0, Host::There, block, version);
                    self.vms[0].copies(Host::There).soil(block);
                    self.submit(Way::FlashWrite(Host::There), 1, Then::Nothing);
                }
                self.mover.drain.under_way -= 1;
                self.pump_drain();
            }
            Told::Copied(round, parts) => {
                self.mover.outcome.from_origin += parts.len() as u64;
                let versions = &self.vms[0].versions;
                let with = |(block, changes)| (block, changes, versions.origin(block));
                let copies = parts.into_iter().map(with).collect();
                self.keep(round, copies, false);
            }
            Told::Kept(round, count) => self.landed(round, count),
            Told::Addresses => self.hold(),
        }
    }

    fn owed(&mut self, wanted: Wanted, block: u32, version: u32) {
        let is_owed = self.mover.owed.remove(&block);
        let changes = self.vms[0].changes(Host::There, block);
        match wanted {
            Wanted::Guest(part) => {
                if is_owed && part.changes == changes {
                    self.insert(0, Host::There, block, version);
                    let copies = self.vms[0].copies(Host::There);
                    copies.soil(block);
                    self.submit(Way::FlashWrite(Host::There), 1, Then::Nothing);
                }
                self.mover.outcome.from_lender += 1;
                self.answer(part, version, false);
            }
            Wanted::Copy(round, _, at) if is_owed && at[0] == changes => {
                self.mover.outcome.from_lender += 1;
                self.keep(round, vec![(block, changes, version)], true);
            }
            Wanted::Copy(round, ..) => self.landed(round, 1),
        }
    }

    /// A write of the moving VM begins.
    pub(crate) fn change_begins(&mut self, part: Part, version: u32) {
        if part.host == Host::There {
            return self.mover.written_there(part.block, self.timeline.now());
        }
        let at = crate::mover::offset(part.block);
        let length = Bytes::new(units::BLOCK_BYTES);
        self.mover.changes.begins((part.block, version), at, length);
    }

    /// A write of the moving VM has ended.
    pub(crate) fn change_ends(&mut self, part: Part, version: u32) {
        if part.host == Host::Here {
            self.mover.changes.ends(&(part.block, version), false);
        }
    }
}
