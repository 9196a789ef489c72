//! What the origin lacks of a disk that is here goes to the other host: as far as this host knows of it.
//!
//! ```text
//!   the other host begins to copy ─► its questions are answered ─► settle: hold the destage ─► it has everything,
//!                                                                    or not in time: drain
//! ```

use super::{Around, Life, Site, Step, Work};
use crate::sites::bytes_of;
use crate::sites::guard::{Guard, holds};
use crate::sites::link::{Frame, Lent};
use crate::violation::Violation;
use cache::{
    Command, ControlError, ControlId, ControlOutcome, Follower, LoanId, LoanRequest, RecordsAsked,
    Shipment,
};
use handoff::{Action, Decision, Event, Kept, Ownership, Question, Shipping, Stretch};
use std::collections::BTreeMap;
use units::{DiskId, DiskSlot, Duration, Instant};

/// How long a hand-over waits for the other host to have the rest.
const SHIP_TIME_MAX: Duration = Duration::from_secs(3);
/// After how long without a question nothing is shipped any more.
const QUESTION_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A question that the cache has been asked for.
struct Asked {
    copy: u64,
    settling: Option<u64>,
    question: Question,
}

/// How a hand-over ends that waits for the other host to have the rest.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Kept(Kept),
    /// The origin lacks nothing.
    Nothing,
}

/// What is shipped of the disk, which is here.
#[derive(Default)]
pub(super) struct Ships {
    machine: Shipping,
    /// The other host copies the disk since this epoch, in this copy.
    watched: Option<(u64, u64)>,
    /// When it has asked last.
    asked: Option<Instant>,
    reads: BTreeMap<LoanId, Asked>,
    /// The destage stands still under this number.
    hold: Option<u64>,
    /// The command that has it stand still.
    holding: Option<ControlId>,
    /// How the hand-over that waited has ended.
    outcome: Option<Outcome>,
    /// Who has what the origin lacks, if the disk is settled so.
    kept: Option<Kept>,
}

impl Ships {
    /// What was copied in a session, or before the disk came, counts no more.
    pub(super) fn end_copy(&mut self) {
        self.machine.begins();
        self.watched = None;
        self.asked = None;
    }

    /// The other host begins to copy a disk that is served here in this epoch.
    fn begin_copy(&mut self, epoch: u64) {
        self.watched = Some((epoch, self.machine.begins()));
        self.asked = None;
    }

    /// What the cache is to be asked for, if it is shipped in this epoch.
    pub(super) fn request(
        &mut self,
        loan: LoanId,
        (disk, epoch): (DiskId, u64),
        question: Question,
    ) -> Option<LoanRequest> {
        let (_, copy) = self.watched.filter(|(of, _)| *of == epoch)?;
        let settling = self.machine.settling();
        let asked = Asked {
            copy,
            settling,
            question,
        };
        self.reads.insert(loan, asked);
        let Question { from, settled, .. } = question;
        Some(LoanRequest::Records(RecordsAsked {
            disk,
            from,
            settled,
        }))
    }

    /// The cache has answered. True if that ends the hand-over that waits.
    pub(super) fn answered(
        &mut self,
        loan: LoanId,
        shipment: Option<&Shipment>,
        now: Instant,
    ) -> bool {
        let (Some(asked), Some(shipment)) = (self.reads.remove(&loan), shipment) else {
            return false;
        };
        if !self.machine.is_under_way(asked.copy) {
            return false;
        }
        self.asked = Some(now);
        let of = (asked.copy, asked.settling);
        let ended = self.machine.answered(of, asked.question, stretch(shipment));
        self.outcome = ended.map(|kept| kept.map_or(Outcome::Nothing, Outcome::Kept));
        self.outcome.is_some()
    }

    /// A hand-over begins.
    pub(super) fn begin_hand_over(&mut self) {
        self.kept = None;
    }

    /// Who has what the origin lacks, if the disk is settled so.
    pub(super) fn kept(&self) -> Option<Kept> {
        self.kept
    }

    fn is_under_way(&self, now: Instant) -> bool {
        let is_recent = |asked: Instant| now.since(asked) < QUESTION_PAUSE_MAX;
        self.watched.is_some() && self.asked.is_some_and(is_recent)
    }
}

/// Which records a shipment has.
pub(super) fn stretch<B>(shipment: &Shipment<B>) -> Stretch {
    Stretch {
        period: shipment.period,
        first: shipment.first,
        count: shipment.records.len() as u64,
        base: shipment.base,
        end: shipment.end,
    }
}

/// A shipment as it goes over the link.
pub(super) fn on_the_link(shipment: Shipment) -> Lent {
    Lent::Records(shipment.map(|payload| bytes_of(&payload)))
}

/// A host whose disk is shipped.
pub(super) struct Shipper<'a> {
    number: usize,
    ships: bool,
    life: &'a mut Life,
}

impl<'a> Shipper<'a> {
    pub(super) fn of(site: &'a mut Site) -> Self {
        Self {
            number: site.number,
            ships: site.ships,
            life: &mut site.life,
        }
    }

    /// The other host, which stands by, begins to copy the disk.
    pub(super) fn watch(&mut self, number: u64, at: &mut Around) {
        // Who begins to copy drops what it had kept, which a claim that is open may count on.
        let ownership = self.life.ownership.as_ref();
        let serving = ownership.filter(|one| one.serves());
        let epoch = serving.and_then(Ownership::epoch);
        if let (Some(epoch), Some(disk)) = (epoch, self.life.slot()) {
            self.life.ships.begin_copy(epoch);
            let cache = self.life.process.cache().expect("it serves");
            let failed = cache.facts().failed_flushes(disk);
            self.life.noted.watch(epoch, (disk, failed));
            self.name_follower(disk, at);
        }
        let epoch = epoch.filter(|epoch| self.life.noted.is_copied(*epoch));
        let watched = Frame::Watched { number, epoch };
        at.link.send(self.number, watched, at.run);
    }

    /// Who copies the disk follows what is written to it, or its origin does.
    fn name_follower(&mut self, disk: DiskSlot, at: &mut Around) {
        let follower = if self.ships {
            Follower::Host
        } else {
            Follower::Origin
        };
        let id = ControlId(at.run.next_id());
        let follow = Command::Follow { disk, follower };
        let cache = self.life.process.cache_mut().expect("it serves");
        cache.control(id, follow, at.run.now());
    }

    /// What goes to the origin may do so again.
    pub(super) fn release(&mut self, at: &mut Around) {
        let ships = &mut self.life.ships;
        ships.machine.give_up();
        (ships.holding, ships.outcome) = (None, None);
        let (number, disk) = (ships.hold.take(), self.life.slot());
        if let Some((number, disk)) = number.zip(disk) {
            let id = ControlId(at.run.next_id());
            let release = Command::ReleaseDestage { disk, number };
            let cache = self.life.process.cache_mut().expect("it serves");
            cache.control(id, release, at.run.now());
        }
    }

    /// A command of the settling has ended: whether it was the one that holds the destage.
    pub(super) fn is_held(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
        at: &mut Around,
    ) -> bool {
        let ships = &mut self.life.ships;
        if ships.holding.take_if(|holding| *holding == id).is_none() {
            return false;
        }
        let now = at.run.now();
        let step = if result.is_ok() {
            ships.machine.settle();
            Step::Shipped(now + SHIP_TIME_MAX)
        } else {
            at.run.hit("not held");
            Step::At(now)
        };
        self.life.work = Some(Work {
            action: Action::Settle,
            step,
        });
        true
    }

    /// The other host has everything, or there is nothing: the hand-over goes on at once.
    pub(super) fn ends_shipping(&mut self, now: Instant) {
        if let Some(work) = &mut self.life.work
            && let Step::Shipped(_) = work.step
        {
            work.step = Step::Shipped(now);
        }
    }
}

/// Requests of a disk that is to be given away have ended: the rest is shipped, or brought to the origin.
pub(super) fn settle(site: &mut Site, step: Step, at: &mut Around) -> Result<(), Violation> {
    let now = at.run.now();
    let disk = site.life.slot().expect("it was served");
    if step == Step::InFlight && site.ships && site.life.ships.is_under_way(now) {
        let number = at.run.next_id();
        let hold = Command::HoldDestage { disk, number };
        site.command(Action::Settle, hold, at);
        site.life.ships.hold = Some(number);
        site.life.ships.holding = match site.life.work.map(|work| work.step) {
            Some(Step::Commanded(id)) => Some(id),
            _ => None,
        };
        return Ok(());
    }
    if let Some(Outcome::Kept(kept)) = site.life.ships.outcome.take() {
        at.run.hit("shipped");
        at.run
            .event(&[70, kept.period], || format!("shipped: {kept:?}"));
        site.life.ships.kept = Some(kept);
        if !holds(Guard::HeldUntilClosed) {
            Shipper::of(site).release(at);
        }
        return site.tell(Event::Settled(true), at);
    }
    if let Step::Shipped(_) = step {
        at.run.hit("not shipped in time");
    }
    Shipper::of(site).release(at);
    site.command(Action::Settle, Command::Destage { disk }, at);
    Ok(())
}

/// Who has what the origin lacked when this host decided to give the disk away with this epoch.
pub(super) fn kept_with(decision: Option<(Decision, Option<Kept>)>, epoch: u64) -> Option<Kept> {
    let (decision, kept) = decision?;
    kept.filter(|_| decision.gives(epoch) && holds(Guard::DecisionNamesKept))
}
