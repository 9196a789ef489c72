//! Who owns a unit, as one of two hosts sees it.

use crate::event::{Action, Client, Decision, Event, Found, Holder, Record, TakeError};
use crate::guard::{Guard, holds};
use crate::message::{Message, Refusal};

/// What a host is to a unit, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The peer, or nobody, has it.
    Standby,
    /// A guest here waits for it, and the peer is asked.
    Claiming,
    /// It is about to be locked and opened here.
    Taking,
    /// It is here: guests' requests are carried out.
    Owner,
    /// The peer has claimed it, and nothing is decided: guests' requests wait.
    Granting,
    /// It is decided that the peer has it, and this host has not let go of it yet.
    Giving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// The peer, or nobody, has it.
    Standby,
    /// The peer was asked for it.
    Claiming { is_sent: bool },
    /// The record names this host, or is about to.
    Taking {
        epoch: u64,
        is_changed: bool,
        is_under_way: bool,
    },
    /// `is_changed`: a guest here may have changed the unit since it was granted.
    Owning { epoch: u64, is_changed: bool },
    /// The peer has claimed it; nothing is decided.
    Stopping(Stopping),
    /// It is decided.
    Giving { epoch: u64, step: Giving },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stopping {
    epoch: u64,
    step: Step,
    is_changed: bool,
    /// Why the claim was refused meanwhile, while the step could not be stopped.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Settling,
    Closing,
    Deciding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Giving {
    /// The record could not be written; tried again soon.
    Paused,
    Recording,
    Unlocking,
}

/// Who owns a unit, as one of two hosts sees it; the first page of the crate has the picture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ownership {
    state: State,
    /// The client that waits for the unit.
    asked: Option<Client>,
    /// The epoch in which this host gave it to its peer, as far as it remembers.
    given: Option<u64>,
    is_linked: bool,
}

impl Ownership {
    /// A host that has just started, and what it does at once.
    pub fn found(found: Found) -> (Self, Vec<Action>) {
        let mut ownership = Self {
            state: State::Standby,
            asked: None,
            given: None,
            is_linked: false,
        };
        let mut actions = Vec::new();
        let decided = found.decision.map(|decision| decision.epoch);
        match found.record {
            Some(Record {
                owner: Holder::Here,
                epoch,
            }) if decided == Some(epoch) => {
                ownership.give(epoch + 1, &mut actions);
            }
            Some(Record {
                owner: Holder::Here,
                epoch,
            }) => {
                // What was changed before the start is not known.
                let is_changed = holds(Guard::ChangedUnlessGranted);
                ownership.take(epoch + 1, is_changed, &mut actions);
            }
            // Not every disk's record may name the peer yet, and the grant may not have arrived.
            Some(Record {
                owner: Holder::Peer,
                epoch,
            }) if decided == epoch.checked_sub(1) => ownership.give(epoch, &mut actions),
            Some(_) | None => {}
        }
        (ownership, actions)
    }

    /// Whether guests' requests are carried out.
    pub fn serves(&self) -> bool {
        matches!(self.state, State::Owning { .. })
    }

    /// What this host is to the unit.
    pub fn role(&self) -> Role {
        match self.state {
            State::Standby => Role::Standby,
            State::Claiming { .. } => Role::Claiming,
            State::Taking { .. } => Role::Taking,
            State::Owning { .. } => Role::Owner,
            State::Stopping(_) => Role::Granting,
            State::Giving { .. } => Role::Giving,
        }
    }

    /// The epoch of the last owner that this host knows of; `None` if that is only in the record.
    pub fn epoch(&self) -> Option<u64> {
        match self.state {
            State::Standby | State::Claiming { .. } => self.given,
            State::Taking { epoch, .. }
            | State::Owning { epoch, .. }
            | State::Stopping(Stopping { epoch, .. })
            | State::Giving { epoch, .. } => Some(epoch),
        }
    }

    /// Whether the other host can be another one from now on: no hand-over is under way.
    pub(crate) fn may_turn(&self) -> bool {
        matches!(
            self.state,
            State::Standby | State::Claiming { .. } | State::Owning { .. }
        )
    }

    /// The other host is another one from now on, with which no session stands yet; this host gave it the unit in the epoch
    /// `given`, if it did.
    pub(crate) fn turn(&mut self, given: Option<u64>) {
        self.is_linked = false;
        match &mut self.state {
            State::Claiming { .. } => self.state = State::Standby,
            // What the unit was when that host had it last is not known.
            State::Owning { is_changed, .. } => *is_changed |= holds(Guard::TurnedIsChanged),
            _ => {}
        }
        self.given = given;
    }

    /// Takes an event.
    pub fn take_event(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let out = &mut actions;
        match event {
            Event::Asked(client) => self.asked(client, out),
            Event::Changing => {
                if let State::Owning { is_changed, .. } = &mut self.state {
                    *is_changed = true;
                }
            }
            Event::PatienceEnded => self.patience_ended(out),
            Event::Retry => self.retry(out),
            Event::Linked => {
                self.is_linked = true;
                self.grant_again(out);
                self.claim(out);
            }
            Event::LinkLost => self.link_lost(out),
            Event::Said {
                message,
                guest_has_stopped,
            } => match message {
                Message::Claim { is_return } => self.claimed(is_return, guest_has_stopped, out),
                Message::Grant { epoch } => self.granted(epoch, out),
                Message::Refuse { why } => self.refused(why, out),
            },
            Event::Settled(ok) => self.settled(ok, out),
            Event::Closed => self.closed(out),
            Event::Decided(ok) => self.decided(ok, out),
            Event::Recorded(ok) => self.recorded(ok, out),
            Event::Unlocked => self.unlocked(out),
            Event::Taken(outcome) => self.taken(outcome, out),
        }
        actions
    }

    fn asked(&mut self, client: Client, out: &mut Vec<Action>) {
        self.asked = Some(client);
        match self.state {
            State::Stopping(_) if holds(Guard::HoldWhileGranting) => {
                self.refuse(Refusal::GuestAsked, out);
            }
            State::Owning { .. }
            | State::Stopping(Stopping {
                step: Step::Settling,
                ..
            }) => self.serve(out),
            State::Standby => self.claim(out),
            State::Stopping(_)
            | State::Claiming { .. }
            | State::Taking { .. }
            | State::Giving { .. } => {}
        }
    }

    fn patience_ended(&mut self, out: &mut Vec<Action>) {
        if let State::Claiming { .. } = self.state {
            self.state = State::Standby;
        }
        if self.asked.take().is_some() {
            out.push(Action::Fail);
        }
    }

    fn retry(&mut self, out: &mut Vec<Action>) {
        match self.state {
            State::Claiming { is_sent: false } => self.claim(out),
            State::Taking {
                epoch,
                is_changed,
                is_under_way: false,
            } => self.take(epoch, is_changed, out),
            State::Giving {
                epoch,
                step: Giving::Paused,
            } => self.give(epoch, out),
            _ => {}
        }
    }

    /// Claims the unit, if a guest asks for it and the peer can be asked.
    fn claim(&mut self, out: &mut Vec<Action>) {
        let (State::Standby | State::Claiming { is_sent: false }, Some(client)) =
            (self.state, self.asked)
        else {
            return;
        };
        if self.is_linked {
            let is_return = client == Client::Old;
            out.push(Action::Send(Message::Claim { is_return }));
        }
        let is_sent = self.is_linked;
        self.state = State::Claiming { is_sent };
    }

    /// The grant may have been lost with the link, or with this host's daemon.
    fn grant_again(&self, out: &mut Vec<Action>) {
        if let (State::Standby | State::Claiming { .. }, Some(epoch)) = (self.state, self.given)
            && holds(Guard::GrantAgain)
        {
            out.push(Action::Send(Message::Grant { epoch }));
        }
    }

    fn link_lost(&mut self, out: &mut Vec<Action>) {
        self.is_linked = false;
        match &mut self.state {
            State::Claiming { is_sent } => *is_sent = false,
            State::Stopping(_) => self.refuse(Refusal::Failed, out),
            _ => {}
        }
    }

    fn claimed(&mut self, is_return: bool, guest_has_stopped: bool, out: &mut Vec<Action>) {
        let why = match (&mut self.state, self.given) {
            (
                State::Owning {
                    is_changed: true, ..
                },
                _,
            ) if is_return && holds(Guard::ReturnIfUnchanged) => Refusal::Changed,
            (State::Owning { epoch, is_changed }, _)
                if is_return || guest_has_stopped || !holds(Guard::ProofOrSigns) =>
            {
                self.state = State::Stopping(Stopping {
                    epoch: *epoch,
                    step: Step::Settling,
                    is_changed: *is_changed,
                    refused: false,
                });
                out.push(Action::Settle);
                return;
            }
            (State::Owning { .. }, _) => Refusal::GuestRuns,
            // It is answered with the one before it.
            (State::Stopping(Stopping { refused: false, .. }) | State::Giving { .. }, _) => return,
            (State::Standby | State::Claiming { .. }, Some(epoch)) => {
                out.push(Action::Send(Message::Grant { epoch }));
                return;
            }
            (State::Standby | State::Claiming { .. }, None) => Refusal::NotOwner,
            (State::Stopping(_) | State::Taking { .. }, _) => Refusal::Busy,
        };
        out.push(Action::Send(Message::Refuse { why }));
    }

    /// Serves on, as soon as what is under way lets it.
    fn refuse(&mut self, why: Refusal, out: &mut Vec<Action>) {
        let State::Stopping(stopping) = &mut self.state else {
            return;
        };
        if !stopping.refused {
            out.push(Action::Send(Message::Refuse { why }));
        }
        stopping.refused = true;
        if stopping.step == Step::Settling {
            self.state = State::Owning {
                epoch: stopping.epoch,
                is_changed: stopping.is_changed,
            };
            self.serve(out);
        }
    }

    fn serve(&mut self, out: &mut Vec<Action>) {
        self.asked = None;
        out.push(Action::Serve);
    }

    fn settled(&mut self, ok: bool, out: &mut Vec<Action>) {
        let State::Stopping(stopping) = &mut self.state else {
            return;
        };
        if ok || !holds(Guard::SettledBeforeGrant) {
            stopping.step = Step::Closing;
            out.push(Action::Close);
        } else {
            self.refuse(Refusal::Failed, out);
        }
    }

    fn closed(&mut self, out: &mut Vec<Action>) {
        let State::Stopping(stopping) = &mut self.state else {
            return;
        };
        let (epoch, is_changed) = (stopping.epoch, stopping.is_changed);
        if stopping.refused {
            self.take(epoch + 1, is_changed, out);
        } else if holds(Guard::DecisionFirst) {
            stopping.step = Step::Deciding;
            out.push(Action::Decide(Decision { epoch }));
        } else {
            self.give(epoch + 1, out);
        }
    }

    /// A decision that failed may stand. With a later epoch of this host in the record it does not count.
    fn decided(&mut self, ok: bool, out: &mut Vec<Action>) {
        let State::Stopping(stopping) = self.state else {
            return;
        };
        let epoch = stopping.epoch + 1;
        if ok {
            // A refusal came too late: the claimant, and whoever asks here, are told by what follows.
            self.give(epoch, out);
        } else {
            self.refuse(Refusal::Failed, out);
            let is_raised = holds(Guard::DoubtRaisesEpoch);
            let epoch = if is_raised { epoch } else { epoch - 1 };
            self.take(epoch, stopping.is_changed, out);
        }
    }

    fn give(&mut self, epoch: u64, out: &mut Vec<Action>) {
        let step = Giving::Recording;
        self.state = State::Giving { epoch, step };
        out.push(Action::Record { epoch });
    }

    fn recorded(&mut self, ok: bool, out: &mut Vec<Action>) {
        let State::Giving { step, .. } = &mut self.state else {
            return;
        };
        *step = if ok {
            out.push(Action::Unlock);
            Giving::Unlocking
        } else {
            Giving::Paused
        };
    }

    fn unlocked(&mut self, out: &mut Vec<Action>) {
        let State::Giving { epoch, .. } = self.state else {
            return;
        };
        self.given = Some(epoch);
        self.state = State::Standby;
        out.push(Action::Send(Message::Grant { epoch }));
        self.claim(out);
    }

    fn take(&mut self, epoch: u64, is_changed: bool, out: &mut Vec<Action>) {
        self.state = State::Taking {
            epoch,
            is_changed,
            is_under_way: true,
        };
        out.push(Action::Take { epoch });
    }

    fn granted(&mut self, epoch: u64, out: &mut Vec<Action>) {
        let (State::Standby | State::Claiming { .. }) = self.state else {
            return;
        };
        if self.given.is_some_and(|given| given > epoch) && holds(Guard::LaterGrantCounts) {
            self.grant_again(out);
            // If this answers a claim the peer could not know better.
            if let State::Claiming { is_sent } = &mut self.state {
                *is_sent = false;
            }
        } else {
            self.take(epoch, false, out);
        }
    }

    fn refused(&mut self, why: Refusal, out: &mut Vec<Action>) {
        let State::Claiming { is_sent } = &mut self.state else {
            return;
        };
        *is_sent = false;
        if !why.may_pass() && self.asked == Some(Client::Old) {
            self.state = State::Standby;
            self.asked = None;
            out.push(Action::EndOldClients);
        }
    }

    fn taken(&mut self, outcome: Result<(), TakeError>, out: &mut Vec<Action>) {
        let State::Taking {
            epoch,
            is_changed,
            is_under_way,
        } = &mut self.state
        else {
            return;
        };
        match outcome {
            Ok(()) => {
                self.given = None;
                self.state = State::Owning {
                    epoch: *epoch,
                    is_changed: *is_changed,
                };
                self.serve(out);
            }
            Err(TakeError::NotOurs) => {
                self.state = State::Standby;
                self.claim(out);
            }
            Err(TakeError::Failed) => *is_under_way = false,
        }
    }
}
