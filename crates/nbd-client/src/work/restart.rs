//! What is sent again when every connection is gone and new ones have been made.

use super::Work;
use crate::abilities::Abilities;
use crate::guard::{Guard, holds};
use crate::operation::{Op, Owner, Verb};
use crate::unstable::Change;
use block_io::OriginDone;
use nbd_protocol::Terms;
use range_order::{OpId, Order};

impl Work {
    /// Goes back to before anything was sent: every connection is gone, and new ones have
    /// these terms.
    pub(crate) fn restart(&mut self, terms: &Terms, done: &mut Vec<OriginDone>) {
        self.able = Abilities::of(terms);
        self.restart_wanted = false;
        self.checkpoint = false;
        if !self.flushing.is_empty() {
            // It may have failed before its answer got lost.
            self.flushing.clear();
            self.doubts_turn_sour();
        }
        let own = self
            .ops
            .extract_if(.., |_, op| !matches!(op.owner, Owner::Core(_)));
        let own: Vec<(OpId, Op)> = own.collect();
        for (id, late) in own.iter().filter(|(_, op)| op.owner == Owner::Late) {
            // The stream that carried it has ended: it has happened, or never will.
            self.doubt(*id, late.offset, late.end());
        }
        self.order = Order::new(super::must_wait);
        self.waiting.clear();
        self.repeating = 0;
        self.ops.values_mut().for_each(Op::rewind);
        let core: Vec<OpId> = self.ops.keys().copied().collect();
        if holds(Guard::RepeatUnstable) {
            self.repeat_unstable();
        }
        for id in core {
            if self.ops[&id].verb.is_moot(&self.able) {
                self.finish(id, done);
            } else if self.may_begin(id) {
                self.waiting.push_back(id);
            }
        }
    }

    /// Makes operations of what the server may have forgotten.
    fn repeat_unstable(&mut self) {
        let repeats = self.unstable.iter();
        let repeats =
            repeats.filter(|(.., change)| self.able.trim() || !matches!(change, Change::Discard));
        let repeats: Vec<(u64, u64, Change)> = repeats
            .map(|(start, end, change)| (start, end - start, change.clone()))
            .collect();
        self.repeating = repeats.len();
        for (offset, length, change) in repeats {
            let verb = Verb::Change { change, fua: false };
            let id = self.add(Owner::Repeat, verb, offset, length, None);
            self.waiting.push_back(id);
        }
    }
}
