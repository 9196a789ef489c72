//! Memory that clients can have allocated: one account for all connections of a thread.
//!
//! ```text
//!            ┌─────────────── limit ───────────────┐
//!   own      │ connections' buffers, and an         │  a connection that does not fit is refused
//!            │ allowance for small requests each    │
//!            ├──────────────────────────────────────┤
//!   shared   │ what requests take beyond that       │  a request that does not fit waits
//!            └──────────────────────────────────────┘
//! ```
//!
//! Half of the limit is for each. Requests within a connection's allowance never wait, so that whoever
//! asks a little is served however much others ask. What goes beyond it is taken from the shared half,
//! in the order of arrival: while one waits, later ones wait behind it, and what is given back goes to
//! the first until its request fits. So a large one gets in some day, and small ones do not starve it.
//!
//! Pure accounting: nothing is allocated here. Invariants:
//! - What is taken from the shared half, granted included, is within it, but for the little by which
//!   an answer is larger than its request.
//! - A connection that waits is told once, by [`MemoryBudget::take_granted`], and has then what it
//!   asked for.

use crate::limits::{ALLOWANCE, CONNECTION_BYTES, LARGEST_REQUEST};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use units::Bytes;

/// The budget of a thread. Cloning shares it.
#[derive(Clone)]
pub struct MemoryBudget {
    books: Rc<RefCell<Books>>,
}

/// A connection's part of it, given back when it is dropped.
pub struct Account {
    books: Rc<RefCell<Books>>,
    id: usize,
}

/// What a budget is like at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    /// What all clients may have together.
    pub limit: Bytes,
    /// What they have: buffers, payloads that are arriving or in work, answers that are not sent.
    pub taken: Bytes,
    /// Connections whose next request waits for room.
    pub waiting: usize,
    /// Requests that had to wait.
    pub waits: u64,
    /// Connections that were refused or closed for want of room.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Entry {
    /// Taken by its requests and their answers.
    held: u64,
    /// Asked for, while it waits.
    asked: Option<u64>,
    /// Set aside from the shared half since it waited.
    granted: u64,
}

impl Entry {
    /// What it takes from the shared half if it holds this much.
    fn shared(held: u64) -> u64 {
        held.saturating_sub(ALLOWANCE.get())
    }

    /// What so many bytes more take from it.
    fn need(&self, bytes: u64) -> u64 {
        Self::shared(self.held + bytes) - Self::shared(self.held)
    }
}

#[derive(Debug)]
struct Books {
    limit: u64,
    entries: Slab<Entry>,
    /// Taken from the shared half.
    shared: u64,
    held: u64,
    queue: VecDeque<usize>,
    told: Vec<usize>,
    waits: u64,
    refused: u64,
}

impl MemoryBudget {
    /// The least limit: a request of the largest size has to fit into half of it.
    pub const LEAST: Bytes = Bytes::new(2 * LARGEST_REQUEST.get());

    /// A budget of so many bytes.
    ///
    /// # Panics
    /// If it is less than [`MemoryBudget::LEAST`]: the largest request would wait for ever.
    pub fn new(limit: Bytes) -> Self {
        assert!(limit >= Self::LEAST, "the largest request has to fit");
        let books = Books {
            limit: limit.get(),
            entries: Slab::new(),
            shared: 0,
            held: 0,
            queue: VecDeque::new(),
            told: Vec::new(),
            waits: 0,
            refused: 0,
        };
        Self {
            books: Rc::new(RefCell::new(books)),
        }
    }

    /// A budget that nothing exhausts, for who serves one client.
    pub fn unlimited() -> Self {
        Self::new(Bytes::new(u64::MAX))
    }

    /// An account for a connection, if there is room for its buffers.
    pub fn open(&self) -> Option<Account> {
        let mut books = self.books.borrow_mut();
        let own = (books.entries.len() as u64 + 1) * CONNECTION_BYTES.get();
        if own > books.limit / 2 {
            books.refused += 1;
            return None;
        }
        let id = books.entries.insert(Entry::default());
        Some(Account {
            books: Rc::clone(&self.books),
            id,
        })
    }

    /// Whether a request waits.
    pub fn is_short(&self) -> bool {
        !self.books.borrow().queue.is_empty()
    }

    /// A connection was closed because it kept memory that others wait for.
    pub fn count_closed(&self) {
        self.books.borrow_mut().refused += 1;
    }

    /// Moves to `into` the accounts whose wait has ended since the last call: their connections are
    /// to be polled.
    pub fn take_granted(&self, into: &mut Vec<usize>) {
        into.append(&mut self.books.borrow_mut().told);
    }

    /// What it is like now.
    pub fn status(&self) -> BudgetStatus {
        let books = self.books.borrow();
        let own = books.entries.len() as u64 * (CONNECTION_BYTES.get() - ALLOWANCE.get());
        BudgetStatus {
            limit: Bytes::new(books.limit),
            taken: Bytes::new(own + books.held),
            waiting: books.queue.len(),
            waits: books.waits,
            refused: books.refused,
        }
    }
}

impl Account {
    /// Its name in [`MemoryBudget::take_granted`].
    pub fn id(&self) -> usize {
        self.id
    }

    /// Takes room for a request. False: there is none; the account is told when there is, and asks
    /// for the same again. Meanwhile nothing else may be asked for.
    #[must_use = "without room nothing may be allocated"]
    pub fn charge(&self, bytes: u64) -> bool {
        self.books.borrow_mut().charge(self.id, bytes)
    }

    /// Takes room for a request that cannot wait, whether there is any or not.
    pub fn force(&self, bytes: u64) {
        let mut books = self.books.borrow_mut();
        books.withdraw(self.id);
        books.hold(self.id, bytes);
        books.grant();
    }

    /// What it holds is `bytes` in all.
    pub fn settle(&self, bytes: u64) {
        let mut books = self.books.borrow_mut();
        if books.entries[self.id].held != bytes {
            books.settle(self.id, bytes);
            books.grant();
        }
    }

    /// What it waits for, or was granted, is not wanted any more.
    pub fn withdraw(&self) {
        let mut books = self.books.borrow_mut();
        books.withdraw(self.id);
        books.grant();
    }

    /// Whether it has something of what is shared, or something is set aside for it.
    pub fn is_large(&self) -> bool {
        let entry = &self.books.borrow().entries[self.id];
        Entry::shared(entry.held) > 0 || entry.granted > 0
    }
}

impl Default for Account {
    /// An account of an unlimited budget.
    fn default() -> Self {
        let account = MemoryBudget::unlimited().open();
        account.expect("there is room without a limit")
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut books = self.books.borrow_mut();
        books.withdraw(self.id);
        books.settle(self.id, 0);
        books.entries.remove(self.id);
        let id = self.id;
        books.told.retain(|other| *other != id);
        books.grant();
    }
}

impl Books {
    fn charge(&mut self, id: usize, bytes: u64) -> bool {
        let entry = &mut self.entries[id];
        let need = entry.need(bytes);
        let is_first = self.queue.front().is_none_or(|first| *first == id);
        let has_room = need <= entry.granted
            || (is_first && self.shared - entry.granted + need <= self.limit / 2);
        if has_room {
            self.withdraw(id);
            self.hold(id, bytes);
            self.grant();
            return true;
        }
        // More than was set aside for it: it waits like everybody else.
        self.shared -= std::mem::take(&mut entry.granted);
        if entry.asked.replace(bytes).is_none() {
            self.queue.push_back(id);
            self.waits += 1;
        }
        self.grant();
        false
    }

    fn hold(&mut self, id: usize, bytes: u64) {
        let held = self.entries[id].held + bytes;
        self.settle(id, held);
    }

    fn settle(&mut self, id: usize, bytes: u64) {
        let entry = &mut self.entries[id];
        self.held = self.held - entry.held + bytes;
        self.shared = self.shared - Entry::shared(entry.held) + Entry::shared(bytes);
        entry.held = bytes;
    }

    fn withdraw(&mut self, id: usize) {
        let entry = &mut self.entries[id];
        self.shared -= std::mem::take(&mut entry.granted);
        if entry.asked.take().is_some() {
            self.queue.retain(|other| *other != id);
        }
    }

    /// Lets those in whose requests fit now: the first ones, and any that need nothing of the shared
    /// half any more.
    fn grant(&mut self) {
        while let Some(id) = self.next_that_fits() {
            self.queue.retain(|other| *other != id);
            let entry = &mut self.entries[id];
            let bytes = entry.asked.take().expect("who waits has asked");
            entry.granted = entry.need(bytes);
            self.shared += entry.granted;
            self.told.push(id);
        }
    }

    fn next_that_fits(&self) -> Option<usize> {
        let need = |id: &usize| {
            let entry = &self.entries[*id];
            entry.need(entry.asked.expect("who waits has asked"))
        };
        let first = self.queue.front()?;
        if self.shared + need(first) <= self.limit / 2 {
            return Some(*first);
        }
        self.queue.iter().copied().find(|id| need(id) == 0)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HUGE: u64 = LARGEST_REQUEST.get();
    const SMALL: u64 = 4096;
    const MUCH: u64 = 3 * ALLOWANCE.get();

    fn told(budget: &MemoryBudget) -> Vec<usize> {
        let mut told = Vec::new();
        budget.take_granted(&mut told);
        told
    }

    #[test]
    fn small_requests_go_on_while_large_ones_wait() {
        let budget = MemoryBudget::new(MemoryBudget::LEAST);
        let open = || budget.open().unwrap();
        let (greedy, patient, modest) = (open(), open(), open());
        assert!(greedy.charge(HUGE));
        assert!(!patient.charge(HUGE));
        assert!(modest.charge(SMALL), "within its allowance");
        assert!(!modest.charge(MUCH), "behind the first");
        assert!(budget.is_short());
        assert_eq!((budget.status().waiting, budget.status().waits), (2, 2));

        greedy.settle(0);
        assert_eq!(told(&budget), [patient.id()], "in the order of arrival");
        assert!(patient.is_large() && !modest.is_large());
        assert!(patient.charge(HUGE));
        patient.settle(0);
        assert_eq!(told(&budget), [modest.id()]);
        assert!(modest.charge(MUCH));
        assert!(!budget.is_short());
    }

    #[test]
    fn who_waits_and_comes_to_need_little_waits_no_more() {
        let budget = MemoryBudget::new(MemoryBudget::LEAST);
        let open = || budget.open().unwrap();
        let (greedy, other, modest) = (open(), open(), open());
        assert!(greedy.charge(HUGE));
        assert!(other.charge(2 * ALLOWANCE.get()), "what the first has left");
        assert!(modest.charge(ALLOWANCE.get()));
        assert!(!modest.charge(SMALL));
        modest.settle(0);
        assert_eq!(told(&budget), [modest.id()]);
        assert!(modest.charge(SMALL));
    }

    #[test]
    fn what_a_connection_leaves_behind_is_given_back() {
        let budget = MemoryBudget::new(MemoryBudget::LEAST);
        let (greedy, first, second) = (
            budget.open().unwrap(),
            budget.open().unwrap(),
            budget.open().unwrap(),
        );
        assert!(greedy.charge(HUGE));
        assert!(!first.charge(HUGE));
        assert!(!second.charge(HUGE));
        let second_id = second.id();
        drop(greedy);
        assert_eq!(told(&budget), [first.id()]);
        // Granted, and gone before it came back for it.
        drop(first);
        assert_eq!(told(&budget), [second_id]);
        second.withdraw();
        drop(second);
        assert_eq!(budget.status().taken, Bytes::ZERO);
        assert_eq!(budget.books.borrow().shared, 0);
    }

    #[test]
    fn connections_have_half_of_it() {
        let budget = MemoryBudget::new(MemoryBudget::LEAST);
        let accounts: Vec<Account> = std::iter::from_fn(|| budget.open()).collect();
        let own = accounts.len() as u64 * CONNECTION_BYTES.get();
        assert!(own <= HUGE && own + CONNECTION_BYTES.get() > HUGE);
        assert_eq!(budget.status().refused, 1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Charge(usize, u64),
        Settle(usize, u64),
        Reopen(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let who = 0..6_usize;
        prop_oneof![
            4 => (who.clone(), 1..=HUGE).prop_map(|(who, bytes)| Step::Charge(who, bytes)),
            2 => (who.clone(), 1..=SMALL).prop_map(|(who, bytes)| Step::Charge(who, bytes)),
            4 => (who.clone(), 0..=100_u64).prop_map(|(who, percent)| Step::Settle(who, percent)),
            1 => who.prop_map(Step::Reopen),
        ]
    }

    proptest! {
        #[test]
        fn it_never_gives_more_than_it_has_and_ends_with_nothing(
            steps in prop::collection::vec(step(), 1..200)
        ) {
            let budget = MemoryBudget::new(Bytes::new(3 * HUGE));
            let mut all: Vec<Account> = (0..6).map(|_| budget.open().unwrap()).collect();
            for step in steps {
                match step {
                    Step::Charge(who, bytes) => {
                        let held = |books: &Books| books.entries[all[who].id].held;
                        let before = held(&budget.books.borrow());
                        let taken = all[who].charge(bytes);
                        let after = held(&budget.books.borrow());
                        prop_assert_eq!(after - before, if taken { bytes } else { 0 });
                    }
                    Step::Settle(who, percent) => {
                        let held = budget.books.borrow().entries[all[who].id].held;
                        all[who].settle(held * percent / 100);
                    }
                    Step::Reopen(who) => {
                        let fresh = budget.open().unwrap();
                        all[who] = fresh;
                    }
                }
                let books = budget.books.borrow();
                prop_assert!(books.shared <= books.limit / 2);
                let sum: u64 = books
                    .entries
                    .iter()
                    .map(|(_, entry)| Entry::shared(entry.held) + entry.granted)
                    .sum();
                prop_assert_eq!(books.shared, sum);
                prop_assert_eq!(books.next_that_fits(), None, "nobody waits in vain");
            }
            // Whoever waits gets in when the others are done.
            for account in &all {
                account.settle(0);
                account.withdraw();
            }
            prop_assert!(!budget.is_short());
            drop(all);
            prop_assert_eq!(budget.status().taken, Bytes::ZERO);
        }
    }
}
