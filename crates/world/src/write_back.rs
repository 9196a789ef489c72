//! What the world knows of how one disk's writes have gone back to its origin.

use crate::checker::Moment;
use crate::run::Run;
use cache::{DestageOrder, WriteBack};
use units::Bytes;

/// See the module's header.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteBackHistory {
    /// How writes go back since the last command about it.
    rules: WriteBack,
    /// Everything that reached the origin since it was complete did so in order.
    ordered: bool,
    /// Since when its owner's record is open.
    since: Moment,
    /// The disk's size then. Where something waits, no later size may be known: the flash can have been away while the
    /// disk grew.
    size: Bytes,
    /// Since when the order is what it is.
    order_since: Moment,
    /// The power went while failed or late flash was being emptied: of what was not flushed any part is there.
    ragged: bool,
}

impl WriteBackHistory {
    /// Since when the owner's record is open.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// Whether everything that reached the origin since it was complete did so in order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// The owner's record of a disk of this size is open from now on.
    pub(crate) fn opened(&mut self, now: Moment, size: Bytes) {
        self.since = now;
        self.size = size;
    }

    /// A size in which what waits of an open disk finds no room, if there is one.
    pub(crate) fn too_short(&self, run: &mut Run) -> Option<Bytes> {
        const LEAST: Bytes = Bytes::kib(4);
        if self.size <= LEAST || run.is_last_life() || !run.one_in(15) {
            return None;
        }
        Some(if run.one_in(2) {
            LEAST
        } else {
            self.size - LEAST
        })
    }

    /// The disk comes under write-back, with an origin that has everything.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.ordered = self.rules.order == DestageOrder::Ordered;
        self.order_since = now;
    }

    /// The disk is attached with these rules: with an origin that lacks something if it `was_open`, under
    /// write-back or not.
    pub(crate) fn attached(
        &mut self,
        rules: WriteBack,
        was_open: bool,
        is_back: bool,
        now: Moment,
    ) {
        let was_ordered = self.ordered;
        self.rules = rules;
        self.begin(now);
        if was_open {
            self.ordered &= was_ordered;
        } else if !is_back {
            self.ordered = false;
        }
    }

    /// The rules are others from now on.
    pub(crate) fn change_rules(&mut self, rules: WriteBack, now: Moment) {
        if self.rules.order != rules.order {
            self.order_since = now;
        }
        self.rules = rules;
    }

    /// Something may reach the origin out of order, or does so no more because nothing goes back.
    pub(crate) fn out_of_order(&mut self) {
        self.ordered = false;
    }

    /// The origin has everything that was acknowledged before `issued`.
    pub(crate) fn destaged(&mut self, issued: Moment) {
        if self.rules.order == DestageOrder::Ordered && issued >= self.order_since {
            self.ordered = true;
        }
    }

    /// The process has died while failed or late flash was being emptied, by a power cut or not: what has
    /// come from there comes again, from the beginning.
    pub(crate) fn emptying_was_cut_short(&mut self, by_power_cut: bool) {
        self.ragged |= by_power_cut;
        self.ordered = false;
    }

    /// Whether any part may be there of what was not flushed. That is asked once.
    pub(crate) fn take_ragged(&mut self) -> bool {
        std::mem::take(&mut self.ragged)
    }
}
