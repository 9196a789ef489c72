//! What a roaming disk borrows while it is about to come and since it has, and what it lends while it is about to go and
//! since it was given away.
//!
//! Invariant: a disk borrows only in the epoch that it was granted while this host claimed it, and from when it is taken:
//! what was changed here since then is known to be changed. A grant that is repeated begins nothing.

use super::Tell;
use super::borrowing::Borrowing;
use super::held_copy::HeldCopy;
use super::lending::Lending;
use super::pulling::{Contents, contents_of};
use super::questions::{Questions, Waiting};
use super::standing::{Preparation, Standing};
use super::steps::Steps;
use crate::peering::Peering;
use api::roaming::MovePhase;
use borrowing::Ask;
use handoff::{Action, Event, Role};
use link::PeerId;
use link_protocol::{Frame, Message};
use shard::Watched;
use std::sync::Arc;
use strategies::{Place, WaitsFor};
use tokio::sync::oneshot;
use units::DiskId;

/// What one disk borrows and lends.
#[derive(Default)]
pub(super) struct Loans {
    borrowing: Option<Borrowing>,
    /// The peer that lends what is borrowed.
    lender: Option<PeerId>,
    lending: Option<Lending>,
    /// What copies its cache ahead.
    standing: Option<Standing>,
    /// The epoch of the host that it is copied from, once the disk is attached for it.
    stands_in: Option<u64>,
    /// The other host copies the cache of the disk, which is here.
    watched: Option<Lending>,
    questions: Questions,
    /// The epoch that was granted, and is not taken yet.
    granted: Option<u64>,
    /// The epoch that is being taken.
    taking: Option<u64>,
    /// The epoch with which the disk was given away last.
    given: Option<u64>,
}

impl Loans {
    /// The peer grants an epoch to this host, which is in this role.
    pub(super) fn granted(&mut self, epoch: u64, role: Role) {
        if role == Role::Claiming {
            self.granted = Some(epoch);
        }
    }

    /// A step of a hand-over begins.
    pub(super) fn begins(&mut self, step: &Action, steps: &Steps) {
        match step {
            Action::Close => self.borrowing = None,
            Action::Record { epoch } => self.given = Some(*epoch),
            Action::Take { epoch } => {
                (self.lending, self.watched) = (None, None);
                steps.shipping.begins();
                self.taking = Some(*epoch);
            }
            _ => {}
        }
    }

    /// Something has happened to the disk: it may have come, or have been given away.
    pub(super) fn happened(&mut self, event: &Event, steps: &Arc<Steps>, tell: &Tell) {
        let id = steps.entry.id;
        match event {
            Event::Taken(Ok(())) => {
                let (granted, taken) = (self.granted.take(), self.taking.take());
                self.stands_in = None;
                let lists = steps.plan.row().lists();
                match taken.filter(|taken| lists && granted == Some(*taken)) {
                    Some(epoch) => {
                        self.lender = Some(steps.peering.peer());
                        let (steps, tell) = (Arc::clone(steps), tell.clone());
                        self.borrowing = Some(Borrowing::begin(epoch, steps, tell));
                    }
                    None => steps.handle.borrow(id, None),
                }
            }
            Event::Unlocked => {
                let lend = |epoch| Lending::new(epoch, steps);
                self.lending = self.given.map(lend);
            }
            _ => {}
        }
    }

    /// The peer that lends what the disk borrows, if it does.
    pub(super) fn lender(&self) -> Option<PeerId> {
        self.lender.filter(|_| self.borrowing.is_some())
    }

    /// A session with the other host has begun, or has ended.
    pub(super) fn linked(&mut self, is_linked: bool, steps: &Steps) {
        self.turned(steps);
        let partner = steps.peering.peer();
        if self.lender().is_none_or(|lender| lender == partner) {
            self.lender_linked(is_linked);
        }
    }

    /// The same with the one that lends.
    pub(super) fn lender_linked(&mut self, is_linked: bool) {
        if let Some(borrowing) = &mut self.borrowing {
            borrowing.linked(is_linked);
        }
        // Who pulls was stopped before: it would take this for a refusal.
        self.questions.end();
    }

    /// The session with the other host has ended, or another host is that from now on.
    pub(super) fn turned(&mut self, steps: &Steps) {
        // What was copied in a session counts only in that one.
        self.stand_down();
        steps.shipping.begins();
        if let Some(watched) = self.watched.take() {
            watched.unwatch();
        }
        if self.borrowing.is_none() {
            self.questions.end();
        }
    }

    /// Lets the cache of the disk be copied ahead from there, or no more.
    pub(super) fn stand(&mut self, stands: Option<Place>, steps: &Arc<Steps>, tell: &Tell) {
        match stands {
            None => self.stand_down(),
            Some(from) if self.standing.is_none() => {
                self.standing = Some(Standing::begin(from, Arc::clone(steps), tell.clone()));
            }
            Some(_) => {}
        }
    }

    fn stand_down(&mut self) {
        (self.standing, self.stands_in) = (None, None);
    }

    /// The disk is attached for the other host, which has it in this epoch.
    pub(super) fn stands(&mut self, epoch: u64) {
        self.stands_in = self.standing.as_ref().map(|_| epoch);
    }

    /// The disk comes with this epoch: what is to be done before it is opened.
    pub(super) fn prepare(&mut self, epoch: u64, steps: &Arc<Steps>, tell: &Tell) -> Preparation {
        self.stands_in = None;
        if let Some(standing) = self.standing.take() {
            return Preparation::Copied(standing);
        }
        let waits_for = steps.plan.row().waits_for;
        if waits_for != WaitsFor::Everything || self.granted != Some(epoch) {
            return Preparation::Nothing;
        }
        // The other host has let go of the disk, and lends it already.
        self.stands_in = Some(epoch);
        Preparation::ToCopy(HeldCopy::new(Arc::clone(steps), tell.clone()))
    }

    /// Everything that could be borrowed was pulled.
    pub(super) fn pulled(&mut self) {
        self.borrowing = None;
    }

    /// What is done about the cache.
    pub(super) fn phase(&self) -> MovePhase {
        if self.standing.is_some() {
            MovePhase::Ahead
        } else if self.borrowing.is_some() {
            MovePhase::Behind
        } else {
            MovePhase::Idle
        }
    }

    /// The epoch that questions to the other host name.
    fn epoch(&self) -> Option<u64> {
        let here = self.borrowing.as_ref().map(Borrowing::epoch);
        here.or(self.stands_in)
    }

    /// A read of the disk asks for blocks. The question, under this number, if the disk borrows.
    pub(super) fn ask_blocks(&mut self, disk: DiskId, number: u64, ask: Ask) -> Option<Frame> {
        let question = Message::AskBlocks {
            disk: disk.to_u128(),
            epoch: self.epoch()?,
            first: ask.run.first.get(),
            count: ask.run.count,
        };
        self.questions.asked(number, Waiting::Loan(ask.number));
        Some(Frame::numbered(number, question))
    }

    /// The same for the contents of a segment.
    pub(super) fn ask_contents(
        &mut self,
        disk: DiskId,
        number: u64,
        at: u32,
        answer: oneshot::Sender<Contents>,
    ) -> Option<Frame> {
        let question = Message::AskContents {
            disk: disk.to_u128(),
            epoch: self.epoch()?,
            at,
        };
        self.questions.asked(number, Waiting::Contents(answer));
        Some(Frame::numbered(number, question))
    }

    /// The same for who copies its cache ahead.
    pub(super) fn ask(
        &mut self,
        number: u64,
        question: Message,
        answer: oneshot::Sender<Frame>,
    ) -> Frame {
        self.questions.asked(number, Waiting::Answer(answer));
        Frame::numbered(number, question)
    }

    /// The other host has said something. The frame comes back if it answers none of these questions.
    pub(super) fn answered(&mut self, frame: Frame, steps: &Steps) -> Option<Frame> {
        match self.questions.answered(&frame) {
            None => return Some(frame),
            Some(Waiting::Loan(loan)) => {
                let bytes = matches!(frame.message, Message::Bytes).then_some(frame.data);
                steps.plan.has_come(bytes.as_ref().map_or(0, Vec::len));
                steps.handle.answer_loan(steps.entry.id, loan, bytes);
            }
            // Who asked may have ended.
            Some(Waiting::Contents(answer)) => {
                let _ = answer.send(contents_of(&frame, steps.size));
            }
            Some(Waiting::Answer(answer)) => {
                let _ = answer.send(frame);
            }
        }
        None
    }

    /// The other host begins to copy the cache of a disk that is served here in this epoch.
    pub(super) fn watch(&mut self, epoch: u64, what: Watched, number: u64, steps: &Steps) {
        let mut lending = Lending::new(epoch, steps);
        let copy = steps.shipping.begins();
        // Who copies from the origin does not know what it lacks.
        if what == Watched::Guests && steps.ships() {
            lending = lending.ships(copy, Arc::clone(&steps.shipping));
        }
        self.watched = Some(lending.clone());
        lending.watch(what, steps.peering.clone(), number);
    }

    /// Answers what the other host asks, of this epoch.
    pub(super) fn lend(&self, peering: Peering, number: u64, epoch: u64, asked: Message) {
        let mut lent = [&self.lending, &self.watched].into_iter().flatten();
        let lending = lent.find(|lending| lending.epoch() == epoch);
        Lending::say(lending.cloned(), peering, number, asked);
    }
}
