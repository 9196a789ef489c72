//! The memory budget of a shard's clients: who was granted room goes on, and who keeps memory that
//! others wait for without doing its part is cut off.
//!
//! ```text
//!   a request waits ─► look, every STALL_LOOK ─┬─ a client owes, and has done nothing since ─► cut off
//!                                              └─ else ─► again, while one waits
//! ```
//!
//! A client owes the rest of a payload that it announced, or has to receive answers. An honest one
//! does so at the speed of its connection. Nobody is cut off while there is room for all.

use crate::limits::STALL_LOOK;
use frontend::budget::{Account, BudgetStatus, MemoryBudget};
use frontend::limits::STALL_TIME_MAX;
use units::{Bytes, Instant};

/// The memory of a shard's clients.
pub(crate) struct ClientMemory {
    budget: MemoryBudget,
    /// When the next look at who owes is due; none while nobody waits for memory.
    next_look: Option<Instant>,
    looks: u64,
    /// Filled and emptied within a call.
    granted: Vec<usize>,
}

/// What a client was seen to owe, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    progress: u64,
    since: Instant,
    look: u64,
}

impl Debt {
    /// The debt after another look at it, `look` being that look's number.
    pub(crate) fn after(before: Option<Self>, progress: u64, look: u64, now: Instant) -> Self {
        let same = before.filter(|debt| debt.progress == progress && debt.look + 1 == look);
        Self {
            progress,
            since: same.map_or(now, |debt| debt.since),
            look,
        }
    }

    /// Whether its client has had all the time that it gets.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        now - self.since >= STALL_TIME_MAX
    }
}

impl ClientMemory {
    pub(crate) fn new(limit: Bytes) -> Self {
        Self {
            budget: MemoryBudget::new(limit),
            next_look: None,
            looks: 0,
            granted: Vec::new(),
        }
    }

    /// An account for one more connection, if there is memory for it.
    pub(crate) fn open(&self) -> Option<Account> {
        self.budget.open()
    }

    /// Gives the accounts that were granted room to `granted`.
    pub(crate) fn take_granted(&mut self, now: Instant, granted: impl FnMut(usize)) {
        self.budget.take_granted(&mut self.granted);
        self.granted.drain(..).for_each(granted);
        if self.next_look.is_none() && self.budget.is_short() {
            self.next_look = Some(now + STALL_LOOK);
        }
    }

    /// The number of the look at who owes that is due, if one is.
    pub(crate) fn take_look(&mut self, now: Instant) -> Option<u64> {
        if self.next_look.is_none_or(|next| next > now) {
            return None;
        }
        if !self.budget.is_short() {
            self.next_look = None;
            return None;
        }
        self.next_look = Some(now + STALL_LOOK);
        self.looks += 1;
        Some(self.looks)
    }

    /// When the next look is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.next_look
    }

    /// Counts a connection that was cut off for want of room.
    pub(crate) fn count_closed(&self) {
        self.budget.count_closed();
    }

    pub(crate) fn status(&self) -> BudgetStatus {
        self.budget.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn a_debt_grows_old_only_while_nothing_is_done_about_it() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let first = Debt::after(None, 7, 1, at(1));
        let same = Debt::after(Some(first), 7, 2, at(2));
        assert_eq!(same.since, at(1));
        assert_eq!(Debt::after(Some(same), 8, 3, at(3)).since, at(3));
        // Nobody looked in between: there was room for all.
        assert_eq!(Debt::after(Some(same), 7, 9, at(9)).since, at(9));
    }
}
