//! A plan of faults that a test writes and a faulty wrapper follows.
//!
//! ```text
//!   faults.on(Kind::Write, 3, Fault::Error(IoError::Failed));   the third write from now
//!   faults.always(Kind::Any, Fault::Error(IoError::Failed));    the flash is gone
//!   faults.chance(Kind::Read, 50, Fault::Rot);                  one read in fifty
//! ```
//! Rules are asked in the order in which they were made; the first that applies decides.

use block_io::IoError;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use units::{Duration, Prng};

/// Which operations a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes of data.
    Write,
    /// Flushes.
    Flush,
    /// Discards and write-zeroes.
    Zero,
    /// Each of them.
    Any,
}

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails. A write that fails happened wholly, in part, or not at all, by the seed.
    Error(IoError),
    /// It is held back until [`Faults::release`].
    Stall,
    /// It is held back for that long.
    Delay(Duration),
    /// It goes to another place of the medium, and success is reported.
    Misdirect,
    /// A bit of what was read is flipped, and success is reported. On a write: a bit of what
    /// reaches the medium.
    Rot,
    /// Success is reported and nothing was done: a lost write, a flush that was a lie. A read
    /// finds its buffer as it was.
    Lose,
}

/// The plan, and the count of what it did. Cloning shares it: a test keeps one handle, the
/// wrapper another.
#[derive(Clone)]
pub struct Faults(Rc<RefCell<Plan>>);

struct Plan {
    rules: Vec<Rule>,
    dice: Prng,
    releases: u64,
    injected: u64,
}

struct Rule {
    kind: Kind,
    when: When,
    fault: Fault,
}

enum When {
    /// After so many more operations of the kind; then the rule is spent.
    In(u64),
    Always,
    OneIn(u64),
}

impl Faults {
    /// A plan with no fault in it.
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Plan {
            rules: Vec::new(),
            dice: Prng::new(seed),
            releases: 0,
            injected: 0,
        })))
    }

    /// The `nth` operation of this kind from now, counted from 1, meets this fault, once.
    ///
    /// # Panics
    /// If `nth` is zero.
    pub fn on(&self, kind: Kind, nth: u64, fault: Fault) {
        assert!(nth > 0, "operations are counted from 1");
        self.add(kind, When::In(nth), fault);
    }

    /// Every operation of this kind meets this fault until [`Faults::clear`].
    pub fn always(&self, kind: Kind, fault: Fault) {
        self.add(kind, When::Always, fault);
    }

    /// One operation of this kind in `n` on average meets this fault until
    /// [`Faults::clear`].
    pub fn chance(&self, kind: Kind, n: u64, fault: Fault) {
        self.add(kind, When::OneIn(n), fault);
    }

    /// Forgets every rule. What is stalled stays so.
    pub fn clear(&self) {
        self.0.borrow_mut().rules.clear();
    }

    /// Lets everything that is stalled now go on, at the wrapper's next poll.
    pub fn release(&self) {
        self.0.borrow_mut().releases += 1;
    }

    /// How many operations have met a fault: a test of a rare branch asserts that it did.
    pub fn injected(&self) -> u64 {
        self.0.borrow().injected
    }

    pub(crate) fn releases(&self) -> u64 {
        self.0.borrow().releases
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().dice.below(bound)
    }

    pub(crate) fn decide(&self, kind: Kind) -> Option<Fault> {
        self.0.borrow_mut().decide(kind)
    }

    fn add(&self, kind: Kind, when: When, fault: Fault) {
        self.0.borrow_mut().rules.push(Rule { kind, when, fault });
    }
}

impl Plan {
    /// Every counting rule of the kind counts, also when an earlier rule has decided.
    fn decide(&mut self, kind: Kind) -> Option<Fault> {
        let mut decided = None;
        let mut spent = Vec::new();
        for (i, rule) in self.rules.iter_mut().enumerate() {
            if rule.kind != kind && rule.kind != Kind::Any {
                continue;
            }
            let applies = match &mut rule.when {
                When::In(left) => {
                    *left -= 1;
                    if *left == 0 {
                        spent.push(i);
                    }
                    *left == 0
                }
                When::Always => true,
                When::OneIn(n) => self.dice.one_in(*n),
            };
            if applies && decided.is_none() {
                decided = Some(rule.fault);
            }
        }
        for i in spent.into_iter().rev() {
            self.rules.remove(i);
        }
        self.injected += u64::from(decided.is_some());
        decided
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0.borrow();
        f.debug_struct("Faults")
            .field("rules", &plan.rules.len())
            .field("injected", &plan.injected)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_operation_of_a_kind_is_hit_once() {
        let faults = Faults::new(1);
        let fault = Fault::Error(IoError::Failed);
        faults.on(Kind::Write, 2, fault);
        assert_eq!(faults.decide(Kind::Write), None);
        assert_eq!(faults.decide(Kind::Read), None);
        assert_eq!(faults.decide(Kind::Write), Some(fault));
        assert_eq!(faults.decide(Kind::Write), None);
        assert_eq!(faults.injected(), 1);
    }

    #[test]
    fn a_standing_rule_holds_until_it_is_cleared() {
        let faults = Faults::new(1);
        faults.always(Kind::Any, Fault::Lose);
        assert_eq!(faults.decide(Kind::Flush), Some(Fault::Lose));
        assert_eq!(faults.decide(Kind::Zero), Some(Fault::Lose));
        faults.clear();
        assert_eq!(faults.decide(Kind::Zero), None);
    }
}
