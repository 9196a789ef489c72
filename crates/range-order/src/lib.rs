//! Which operations are under way where, and which have to wait for others.
//!
//! Of two operations on a common range the later one begins when the earlier one has ended, if a [`Rule`]
//! says so. Usually that is where one of them changes the range: operations that only read go together.
//!
//! ```text
//!   enter ──► nothing earlier in its way ────────────► begins
//!     └─────► waits for n earlier ones ── n leaves ──► begins
//! ```
//!
//! Ranges are found by the power of two that their length rounds up to: a range of class `c` that
//! overlaps `[offset, end)` begins within `2^c` before `offset`, or inside. So a search looks at little
//! more than what it finds, whether requests are of 512 bytes or of a whole disk.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use units::Map;

/// Names an operation. Its issuer numbers operations in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

impl OpId {
    /// No operation has a smaller number.
    pub const FIRST: Self = Self(0);
}

/// What an operation does with its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The bytes stay as they are.
    Read,
    /// The bytes may be others afterwards.
    Change,
}

/// Whether the later of two operations on a common range has to wait for the earlier one: `rule(earlier, later)`.
pub type Rule = fn(Effect, Effect) -> bool;

/// Classes of lengths: 1, 2, up to 4, up to 8, ... bytes.
const CLASSES: usize = 65;

#[derive(Debug)]
struct Claim {
    offset: u64,
    end: u64,
    effect: Effect,
    /// Earlier operations that are in its way.
    waits_for: usize,
    /// Later ones that have counted this one.
    followers: Vec<OpId>,
}

impl Claim {
    fn class(&self) -> usize {
        let length = self.end - self.offset;
        (u64::BITS - (length - 1).leading_zeros()) as usize
    }

    fn is_in_the_way_of(&self, later: &Self, rule: Rule) -> bool {
        let overlap = self.offset < later.end && later.offset < self.end;
        overlap && rule(self.effect, later.effect)
    }
}

/// The operations that have a range, in the order in which they came.
#[derive(Debug)]
pub struct Order {
    rule: Rule,
    claims: Map<OpId, Claim>,
    /// Where each begins, by class.
    starts: [BTreeSet<(u64, OpId)>; CLASSES],
}

impl Order {
    /// Of no operations yet.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            claims: Map::default(),
            starts: [const { BTreeSet::new() }; CLASSES],
        }
    }

    /// Takes in an operation on `[offset, end)`, later than all that are here. True if it may begin;
    /// if not, [`Order::leave`] names it when it may.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn enter(&mut self, id: OpId, offset: u64, end: u64, effect: Effect) -> bool {
        assert!(offset < end, "an operation has a range");
        let mut claim = Claim {
            offset,
            end,
            effect,
            waits_for: 0,
            followers: Vec::new(),
        };
        for (class, starts) in (0..).zip(&self.starts) {
            if starts.is_empty() {
                continue;
            }
            let longest = 1_u64.checked_shl(class).unwrap_or(u64::MAX);
            let from = (offset.saturating_sub(longest), OpId::FIRST);
            for (_, other) in starts.range(from..(end, OpId::FIRST)) {
                let other = self.claims.get_mut(other).expect("it has a start");
                if other.is_in_the_way_of(&claim, self.rule) {
                    other.followers.push(id);
                    claim.waits_for += 1;
                }
            }
        }
        let may_begin = claim.waits_for == 0;
        self.starts[claim.class()].insert((offset, id));
        self.claims.insert(id, claim);
        may_begin
    }

    /// An operation has ended, or is not to begin any more. Returns those that may begin now, earlier
    /// ones first.
    pub fn leave(&mut self, id: OpId) -> Vec<OpId> {
        let Some(claim) = self.claims.remove(&id) else {
            return Vec::new();
        };
        self.starts[claim.class()].remove(&(claim.offset, id));
        let mut free = claim.followers;
        free.retain(|follower| {
            let Some(follower) = self.claims.get_mut(follower) else {
                return false;
            };
            follower.waits_for -= 1;
            follower.waits_for == 0
        });
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Prng;

    const USUAL: Rule = |earlier, later| (earlier, later) != (Effect::Read, Effect::Read);

    /// The same by looking at all pairs.
    #[derive(Default)]
    struct Model {
        /// Id, range, whether it changes.
        here: Vec<(u64, u64, u64, bool)>,
    }

    impl Model {
        fn may_begin(&self, index: usize) -> bool {
            let (_, offset, end, changes) = self.here[index];
            let mut earlier = self.here[..index].iter();
            !earlier.any(|one| one.1 < end && offset < one.2 && (changes || one.3))
        }

        fn begun(&self) -> Vec<u64> {
            let indexes = 0..self.here.len();
            let begun = indexes.filter(|index| self.may_begin(*index));
            begun.map(|index| self.here[index].0).collect()
        }
    }

    #[test]
    fn an_operation_begins_when_no_earlier_one_is_in_its_way() {
        for seed in 0..300 {
            let mut dice = Prng::new(seed);
            let (mut order, mut model) = (Order::new(USUAL), Model::default());
            let mut begun = BTreeSet::new();
            for id in 0..120 {
                let length = 1 << dice.below(9);
                let length = 1 + dice.below(length);
                let offset = dice.below(512);
                let changes = dice.one_in(2);
                let effect = if changes {
                    Effect::Change
                } else {
                    Effect::Read
                };
                if order.enter(OpId(id), offset, offset + length, effect) {
                    begun.insert(id);
                }
                model.here.push((id, offset, offset + length, changes));
                while dice.one_in(2) && !model.here.is_empty() {
                    // Now and then one that has not begun gives up.
                    let index = usize::try_from(dice.below(model.here.len() as u64)).unwrap();
                    let (gone, ..) = model.here.remove(index);
                    begun.remove(&gone);
                    begun.extend(order.leave(OpId(gone)).iter().map(|id| id.0));
                }
                let expected: BTreeSet<u64> = model.begun().into_iter().collect();
                assert_eq!(begun, expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_range_of_any_length_is_found() {
        let mut order = Order::new(USUAL);
        assert!(order.enter(OpId(1), 0, u64::MAX, Effect::Change));
        assert!(!order.enter(OpId(2), u64::MAX - 1, u64::MAX, Effect::Read));
        assert_eq!(order.leave(OpId(1)), [OpId(2)]);
        assert_eq!(order.leave(OpId(1)), []);
    }
}
