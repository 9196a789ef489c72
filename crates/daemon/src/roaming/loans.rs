//! What a roaming disk borrows since it came here, and lends since it was given away.
//!
//! Invariant: a disk borrows only in the epoch that it was granted while this host claimed it, and from when it is taken:
//! what was changed here since then is known to be changed. A grant that is repeated begins nothing.

use super::Happens;
use super::borrowing::{Borrowing, Contents};
use super::lending::Lending;
use super::steps::Steps;
use crate::peering::Peering;
use borrowing::Ask;
use handoff::{Action, Event, Role};
use link_protocol::{Frame, Message};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// What one disk borrows and lends.
#[derive(Default)]
pub(super) struct Loans {
    borrowing: Option<Borrowing>,
    lending: Option<Lending>,
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
    pub(super) fn begins(&mut self, step: &Action) {
        match step {
            Action::Close => self.borrowing = None,
            Action::Record { epoch } => self.given = Some(*epoch),
            Action::Take { epoch } => {
                self.lending = None;
                self.taking = Some(*epoch);
            }
            _ => {}
        }
    }

    /// Something has happened to the disk: it may have come, or have been given away.
    pub(super) fn happened(
        &mut self,
        event: &Event,
        steps: &Arc<Steps>,
        tell: &UnboundedSender<Happens>,
    ) {
        let id = steps.entry.id;
        match event {
            Event::Taken(Ok(())) => {
                let (granted, taken) = (self.granted.take(), self.taking.take());
                let lists = steps.entry.config.migration.strategy.lists();
                match taken.filter(|taken| lists && granted == Some(*taken)) {
                    Some(epoch) => {
                        let (steps, tell) = (Arc::clone(steps), tell.clone());
                        self.borrowing = Some(Borrowing::begin(epoch, steps, tell));
                    }
                    None => steps.handle.end_borrowing(id),
                }
            }
            Event::Unlocked => {
                let lend = |epoch| Lending::new(id, epoch, steps.handle.clone());
                self.lending = self.given.map(lend);
            }
            _ => {}
        }
    }

    /// A session with the other host has begun, or has ended.
    pub(super) fn linked(&mut self, is_linked: bool) {
        if let Some(borrowing) = &mut self.borrowing {
            borrowing.linked(is_linked);
        }
    }

    /// Everything that could be borrowed was pulled.
    pub(super) fn pulled(&mut self) {
        self.borrowing = None;
    }

    /// A read of the disk, which is here, asks for blocks. The question, under this number, if the disk borrows.
    pub(super) fn ask_blocks(&mut self, number: u64, ask: Ask) -> Option<Frame> {
        let borrowing = self.borrowing.as_mut()?;
        Some(borrowing.ask_blocks(number, ask.number, ask.run))
    }

    /// The same for the contents of a segment.
    pub(super) fn ask_contents(
        &mut self,
        number: u64,
        at: u32,
        answer: oneshot::Sender<Contents>,
    ) -> Option<Frame> {
        let borrowing = self.borrowing.as_mut()?;
        Some(borrowing.ask_contents(number, at, answer))
    }

    /// The other host has said something. The frame comes back if it answers none of these questions.
    pub(super) fn answered(&mut self, frame: Frame) -> Option<Frame> {
        match &mut self.borrowing {
            Some(borrowing) => borrowing.answered(frame),
            None => Some(frame),
        }
    }

    /// Answers what the host that has the disk now asks.
    pub(super) fn lend(&self, peering: Peering, number: u64, asked: Message) {
        Lending::say(self.lending.clone(), peering, number, asked);
    }
}
