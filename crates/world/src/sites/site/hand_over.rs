//! What the ownership asks of its host, one thing at a time.

use super::borrowing::Borrowing;
use super::shipping::{Shipper, kept_with, settle};
use super::standing::Standby;
use super::{Around, RETRY_PAUSE, Site, Step, Work};
use crate::attachment::Standing;
use crate::sites::guard::{Guard, holds};
use crate::sites::link::Frame;
use crate::sites::shared::Holder;
use crate::violation::Violation;
use block_io::IoError;
use cache::{Command, ControlError, ControlId, ControlOutcome, OfDirty, WriteBack, WritePolicy};
use handoff::{Action, Event, Message, TakeError};
use units::Duration;

impl Site {
    pub(super) fn tell(&mut self, event: Event, at: &mut Around) -> Result<(), Violation> {
        let Some(ownership) = &mut self.life.ownership else {
            return Ok(());
        };
        if let Event::Asked(_) = event {
            self.life.waits_since.get_or_insert(at.run.now());
        }
        let actions = ownership.take_event(event);
        self.life.lending.happened(event);
        self.borrows(at).arrives(event);
        self.act(actions, at)
    }

    pub(super) fn act(&mut self, actions: Vec<Action>, at: &mut Around) -> Result<(), Violation> {
        for action in actions {
            if !self.life.process.survives_operation() {
                return Ok(());
            }
            let number = self.number;
            at.run.event(&[34, number as u64], || {
                format!("host {number} has to {action:?}")
            });
            self.life.lending.begins(action);
            self.life.arrival.begins(action);
            self.carry_out_action(action, at)?;
        }
        Ok(())
    }

    fn carry_out_action(&mut self, action: Action, at: &mut Around) -> Result<(), Violation> {
        let now = at.run.now();
        match action {
            Action::Send(message) => {
                if let Message::Claim { is_return } = message {
                    self.life.are_returns &= is_return;
                    Standby::of(self).hurry(now);
                }
                at.link.send(self.number, Frame::Said(message), at.run);
            }
            Action::Serve => {
                if let Some(Work {
                    action: Action::Settle,
                    ..
                }) = self.life.work
                {
                    at.run.hit("hand-over ended by a request");
                    self.life.work = None;
                }
                Shipper::of(self).release(at);
                self.life.is_held = false;
                self.life.waits_since = None;
                // What waits goes on, in its order.
                for asked in self.life.clients.take_all() {
                    self.request(asked, at)?;
                }
            }
            Action::Fail => {
                at.run.hit("patience ended");
                self.life.waits_since = None;
                for asked in self.life.clients.take_all() {
                    self.answer(asked.request, Err(IoError::TimedOut));
                }
            }
            Action::EndOldClients => {
                self.life.waits_since = None;
                self.end_old_clients(at);
            }
            Action::Settle => {
                self.life.is_held = true;
                self.life.ships.begin_hand_over();
                self.begin(action, Step::InFlight);
            }
            Action::Close => {
                self.borrows(at).stop_asking();
                self.begin(action, Step::At(now));
            }
            Action::Decide(_) | Action::Record { .. } | Action::Unlock | Action::Take { .. } => {
                let wait = Duration::from_micros(1 + at.run.below(8_000));
                self.begin(action, Step::At(now + wait));
            }
        }
        Ok(())
    }

    fn begin(&mut self, action: Action, step: Step) {
        let before = self.life.work.replace(Work { action, step });
        assert!(
            before.is_none(),
            "two things are done at a time: {before:?}"
        );
    }

    fn end_old_clients(&mut self, at: &mut Around) {
        if !holds(Guard::DeadConnections) {
            return;
        }
        let (ended, count) = self.life.clients.end_old();
        at.run.hit_many("connection ended", count);
        for asked in ended {
            self.answer(asked.request, Err(IoError::Failed));
        }
    }

    /// Its work goes on.
    pub(super) fn work(&mut self, at: &mut Around) -> Result<(), Violation> {
        if !self.life.process.survives_operation() {
            return Ok(());
        }
        let Some(work) = self.life.work.take() else {
            return Ok(());
        };
        let fails = at.run.settings().back.map_or(0, |back| back.own_fails);
        let fails = at.run.one_in(fails);
        let stands = !fails || at.run.one_in(2);
        match (work.action, work.step) {
            (Action::Settle, step) => settle(self, step, at),
            (Action::Close, Step::Ghosts) => self.close(at),
            (Action::Close, _) => {
                if !holds(Guard::CloseBeforeGrant) {
                    return self.tell(Event::Closed, at);
                }
                let Some(disk) = self.life.slot() else {
                    return self.close(at);
                };
                self.life.process.disk_mut(0).detach(disk, false);
                let command = Command::Detach {
                    disk,
                    fingerprint: None,
                    dirty: match self.life.ships.kept() {
                        Some(_) => OfDirty::Keep,
                        None => OfDirty::Flush,
                    },
                };
                self.command(work.action, command, at);
                Ok(())
            }
            (Action::Decide(decision), _) => {
                if stands {
                    self.decision = Some((decision, self.life.ships.kept()));
                }
                self.tell(Event::Decided(!fails), at)
            }
            (Action::Record { epoch }, _) => {
                let is_recorded = stands && {
                    let kept = kept_with(self.decision, epoch);
                    at.shared.hand_over(self.number, (epoch, kept), at.run)?
                };
                self.tell(Event::Recorded(is_recorded && !fails), at)
            }
            (Action::Unlock, _) => {
                at.run.hit("given away");
                at.shared.unlock(self.number);
                self.tell(Event::Unlocked, at)
            }
            (Action::Take { epoch }, _) => self.take(epoch, fails, stands, at),
            (Action::Send(_) | Action::Serve | Action::Fail | Action::EndOldClients, _) => {
                unreachable!("these end at once")
            }
        }
    }

    pub(super) fn command(&mut self, action: Action, command: Command, at: &mut Around) {
        let id = ControlId(at.run.next_id());
        let now = at.run.now();
        self.life.work = Some(Work {
            action,
            step: Step::Commanded(id),
        });
        at.run
            .event(&[35], || format!("command {}: {command:?}", id.0));
        let cache = self.life.process.cache_mut().expect("it serves");
        cache.control(id, command, now);
    }

    fn close(&mut self, at: &mut Around) -> Result<(), Violation> {
        if holds(Guard::GhostsHoldGrant) && !at.shared.is_settled() {
            at.run.hit("waited for what was given up");
            // Looked at again after the next operation of the origin, or soon.
            let wait = Duration::from_millis(5);
            self.begin(Action::Close, Step::At(at.run.now() + wait));
            self.life.work.as_mut().expect("it has begun").step = Step::At(at.run.now() + wait);
            return Ok(());
        }
        self.life.borrowing = None;
        if let Some(opened) = self.life.opened.take() {
            at.shared.close(opened, at.run)?;
        }
        self.life.clients.disk_goes();
        self.life.is_held = false;
        self.life.are_returns = true;
        for flush in self.life.clients.take_flushes() {
            self.stand_by(flush, at)?;
        }
        self.tell(Event::Closed, at)
    }

    fn take(
        &mut self,
        epoch: u64,
        fails: bool,
        stands: bool,
        at: &mut Around,
    ) -> Result<(), Violation> {
        let host = self.number;
        self.life.ships.end_copy();
        self.life.noted.unwatch();
        if Standby::of(self).leaves_standing(epoch, at) {
            let soon = at.run.now() + Duration::from_micros(300);
            self.begin(Action::Take { epoch }, Step::At(soon));
            return Ok(());
        }
        if !at.shared.lock(host) {
            at.run.hit("locked by the other host");
            return self.tell(Event::Taken(Err(TakeError::Failed)), at);
        }
        let is_ours = at.shared.holder().host == host && at.shared.holder().epoch <= epoch;
        let is_ours = is_ours && (!stands || at.shared.raise(host, epoch));
        if !is_ours || fails {
            at.shared.unlock(host);
            let why = if is_ours {
                TakeError::Failed
            } else {
                TakeError::NotOurs
            };
            return self.tell(Event::Taken(Err(why)), at);
        }
        if !self.life.are_returns {
            self.end_old_clients(at);
        }
        if self.life.opened.is_none() {
            self.life.opened = Some(at.shared.open(Holder { host, epoch }));
            self.life.borrowing = Some(Borrowing::new(at.run.next_id() << 20));
        }
        let (is_back, now) = (self.policy == WritePolicy::Back, at.run.current_moment());
        at.shared.is_taken(is_back, now);
        let disk = at.shared.disk();
        let command = Command::Attach {
            disk: disk.id(),
            name: "disk".to_owned(),
            size: disk.size(),
            policy: self.policy,
            read_only: false,
            tenant: "vm".to_owned(),
            shared: false,
            fingerprint: None,
            owner: disk.owner(),
            write_back: WriteBack::default(),
            tenure: self.life.stands_by.tenure(epoch),
        };
        self.life.process.disk_mut(0).attach(None);
        self.command(Action::Take { epoch }, command, at);
        Ok(())
    }

    pub(super) fn commanded(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
        at: &mut Around,
    ) -> Result<(), Violation> {
        at.run
            .event(&[36], || format!("command {}: {result:?}", id.0));
        if Standby::of(self).stood(id, result, at) || Shipper::of(self).is_held(id, result, at) {
            return Ok(());
        }
        // A destage of a hand-over that has ended is nobody's.
        let is_it = |work: &Work| work.step == Step::Commanded(id);
        let Some(work) = self.life.work.take_if(|work| is_it(work)) else {
            return Ok(());
        };
        let attachment = self.life.process.disk_mut(0);
        match (work.action, result) {
            (Action::Settle, result) => {
                if result.is_err() {
                    at.run.hit("not settled");
                }
                self.tell(Event::Settled(result.is_ok()), at)
            }
            (Action::Close, Ok(_)) => {
                attachment.set_away();
                self.begin(Action::Close, Step::Ghosts);
                Ok(())
            }
            (Action::Close, Err(_)) => {
                at.run.hit("detach refused");
                let Standing::Detaching(slot) = attachment.standing() else {
                    unreachable!("a detach was under way");
                };
                attachment.stay(slot);
                self.begin(Action::Close, Step::At(at.run.now() + RETRY_PAUSE));
                Ok(())
            }
            (_, Ok(ControlOutcome::Attached { disk, dropped, .. })) => {
                if dropped.is_some() {
                    at.run.hit("leftovers dropped");
                }
                attachment.attached(disk);
                at.run.hit("taken");
                self.tell(Event::Taken(Ok(())), at)
            }
            (_, result) => {
                at.run.hit("attach refused");
                at.run.event(&[37], || format!("attach: {result:?}"));
                attachment.set_away();
                self.life.borrowing = None;
                if let Some(opened) = self.life.opened.take() {
                    at.shared.close(opened, at.run)?;
                }
                at.shared.unlock(self.number);
                self.tell(Event::Taken(Err(TakeError::Failed)), at)
            }
        }
    }
}
