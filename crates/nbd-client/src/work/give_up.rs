//! Operations that end without an answer: their time is up, or the core wants no more of them.

use super::Work;
use crate::guard::{Guard, holds};
use crate::operation::{Failure, Op, Owner, Verb};
use block_io::{IoError, OriginDone};
use range_order::OpId;
use units::{Duration, Instant};

impl Work {
    /// Ends operations whose time is up.
    pub(crate) fn expire(&mut self, now: Instant, error: IoError, done: &mut Vec<OriginDone>) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        let over = |op: &Op| op.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.ops.iter().filter(|(_, op)| over(op));
        let late: Vec<OpId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.give_up(id, error, done);
        }
        self.earliest = self.ops.values().filter_map(|op| op.deadline).min();
    }

    /// For so long nobody could take in what the server answered: it counts against no operation.
    pub(crate) fn stood_still(&mut self, time: Duration) {
        for deadline in self.ops.values_mut().filter_map(|op| op.deadline.as_mut()) {
            *deadline = *deadline + time;
        }
        self.earliest = self.earliest.map(|earliest| earliest + time);
    }

    /// Ends everything that the core has asked, with an error.
    pub(crate) fn fail_all(&mut self, error: IoError, done: &mut Vec<OriginDone>) {
        let asked = self
            .ops
            .iter()
            .filter(|(_, op)| matches!(op.owner, Owner::Core(_)));
        let asked: Vec<OpId> = asked.map(|(id, _)| *id).collect();
        for id in asked {
            self.give_up(id, error, done);
        }
        self.earliest = None;
    }

    /// Ends an operation for the core. A change that may still happen stays, and so does its place in
    /// the order.
    fn give_up(&mut self, id: OpId, error: IoError, done: &mut Vec<OriginDone>) {
        let Some(op) = self.ops.get_mut(&id) else {
            return;
        };
        op.failed = Some(Failure::GivenUp(error));
        op.deadline = None;
        op.tried &= holds(Guard::SentBeforeLossLeavesDoubt) || op.issued > 0;
        self.waiting.retain(|waiting| *waiting != id);
        if !op.may_land() || !holds(Guard::LateHoldsRange) {
            self.finish(id, done);
        } else if let Owner::Core(token) = op.owner {
            op.owner = Owner::Late;
            op.verb = Verb::Given;
            done.push(OriginDone::plain(token, None, Err(error)));
        }
    }

    /// When [`Work::expire`] has something to do at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }
}
