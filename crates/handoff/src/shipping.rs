//! What the origin lacks goes to the host that is about to get a unit: how its owner learns that the other host has all of
//! it, and how far that one may say so.
//!
//! ```text
//!   owner                                                     standby
//!   Shipping ◄── Question: "from here on; before it I have   Keeping ◄── durable here
//!      │           everything durably, in this cache" ─────────┘  ▲
//!      └── answer: records, the oldest that the origin lacks, the end of the log ──► into its log
//!   a hand-over waits, nothing moves any more: a question at the end ─► `Kept`
//! ```
//!
//! Numbers are those of the owner's log, of one attachment there. Neither machine has a clock: whoever drives them says when
//! it is late. Why it is as it is: decision 0031.

use crate::guard::{Guard, holds};

/// Which cache has what the origin lacks, and the period in which that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The cache.
    pub cache: u128,
    /// The period: the one after the owner's.
    pub period: u64,
}

/// A question for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The first record that is asked for: those before it are kept.
    pub from: u64,
    /// The oldest record that the origin lacked by the answer before, which is kept; `None` if none was.
    pub settled: Option<u64>,
    /// Who keeps them.
    pub cache: u128,
}

/// No record has this number.
const NO_RECORD: u64 = u64::MAX;

impl Question {
    /// The last word of who keeps nothing after all: it asks for nothing.
    pub fn of_who_keeps_nothing(cache: u128) -> Self {
        let (from, settled) = (NO_RECORD, None);
        Self {
            from,
            settled,
            cache,
        }
    }

    /// Whether it asks for nothing.
    pub fn asks_nothing(&self) -> bool {
        self.from == NO_RECORD
    }
}

/// Which records an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The owner's period.
    pub period: u64,
    /// The first record.
    pub first: u64,
    /// How many there are.
    pub count: u64,
    /// The oldest record that the origin lacks.
    pub base: u64,
    /// The number that the owner's next record gets.
    pub end: u64,
}

impl Stretch {
    /// The record that follows.
    pub fn next(&self) -> u64 {
        self.first + self.count
    }
}

/// What a question that was asked when nothing moved any more has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// The other host has everything that the origin lacks.
    Kept(Kept),
    /// The origin lacks nothing.
    Nothing,
    /// It has not everything yet.
    NotYet,
}

fn shown(question: Question, answer: Stretch) -> Shown {
    if answer.base == answer.end {
        return Shown::Nothing;
    }
    let is_at_end = question.from == answer.end && answer.count == 0;
    let has_all = is_at_end || !holds(Guard::ShippedToTheEnd);
    let knows_base = question.settled == Some(answer.base) || !holds(Guard::SettledIsShipped);
    if has_all && knows_base {
        return Shown::Kept(Kept {
            cache: question.cache,
            period: answer.period + 1,
        });
    }
    Shown::NotYet
}

/// What is shipped of a unit, at its owner.
#[derive(Debug, Default)]
pub struct Shipping {
    /// Which copy of the other host is under way.
    copy: u64,
    settlings: u64,
    /// The hand-over that waits for the other host to have everything.
    settling: Option<u64>,
}

impl Shipping {
    /// The other host begins to copy anew, or ends: what it has said before counts no more. The number of its copy.
    pub fn begins(&mut self) -> u64 {
        self.copy += 1;
        self.copy
    }

    /// Whether this copy is the one that is under way.
    pub fn is_under_way(&self, copy: u64) -> bool {
        self.copy == copy || !holds(Guard::ShippedToThisCopy)
    }

    /// A hand-over waits from now on: nothing moves any more.
    pub fn settle(&mut self) {
        self.settlings += 1;
        self.settling = Some(self.settlings);
    }

    /// It waits no longer.
    pub fn give_up(&mut self) {
        self.settling = None;
    }

    /// The other host says in this copy that it keeps nothing after all. Whether a hand-over waited for it, which waits no longer.
    pub fn keeps_nothing(&mut self, copy: u64) -> bool {
        self.is_under_way(copy) && self.settling.take().is_some()
    }

    /// Which hand-over waits. What is looked up from now on may end it.
    pub fn settling(&self) -> Option<u64> {
        self.settling
    }

    /// A question of this copy is answered, which was looked up while this hand-over waited, if one did. Whether that ends
    /// the hand-over that waits: and who has everything, if the origin lacks something.
    pub fn answered(
        &mut self,
        (copy, settling): (u64, Option<u64>),
        question: Question,
        answer: Stretch,
    ) -> Option<Option<Kept>> {
        let is_now = settling == self.settling || !holds(Guard::ShippedSinceHeld);
        if self.settling.is_none() || !is_now || !self.is_under_way(copy) {
            return None;
        }
        let kept = match shown(question, answer) {
            Shown::Kept(kept) => Some(kept),
            Shown::Nothing => None,
            Shown::NotYet => return None,
        };
        self.settling = None;
        Some(kept)
    }
}

/// What an answer is to who keeps records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It has to be kept: [`Keeping::is_durable`] follows.
    News,
    /// Nothing that was not known.
    Nothing,
    /// It does not follow what is here, or cannot be.
    OutOfPlace,
}

/// What is kept of a unit that another host has.
#[derive(Debug)]
pub struct Keeping {
    question: Question,
    /// What is not durable here yet.
    pending: Option<Stretch>,
}

impl Keeping {
    /// Nothing is kept yet in this cache.
    pub fn new(cache: u128) -> Self {
        let question = Question {
            from: 0,
            settled: None,
            cache,
        };
        Self {
            question,
            pending: None,
        }
    }

    /// What to ask next.
    pub fn question(&self) -> Question {
        self.question
    }

    /// The answer to the last question.
    pub fn came(&mut self, answer: Stretch) -> Came {
        let follows = answer.first == self.question.from || answer.first == answer.base;
        let next = answer.first.checked_add(answer.count);
        if !follows || next.is_none_or(|next| next > answer.end) {
            return Came::OutOfPlace;
        }
        let is_news = answer.count > 0 || self.question.settled != Some(answer.base);
        if is_news {
            self.pending = Some(answer);
            return Came::News;
        }
        Came::Nothing
    }

    /// What came last is durable here, and so is how far the origin has it.
    pub fn is_durable(&mut self) {
        if let Some(kept) = self.pending.take() {
            self.question.from = kept.next();
            self.question.settled = Some(kept.base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(base: u64, first: u64, count: u64, end: u64) -> Stretch {
        Stretch {
            period: 6,
            first,
            count,
            base,
            end,
        }
    }

    fn question(from: u64, settled: Option<u64>) -> Question {
        let cache = 9;
        Question {
            from,
            settled,
            cache,
        }
    }

    const KEPT: Kept = Kept {
        cache: 9,
        period: 7,
    };

    #[test]
    fn everything_is_kept_when_a_question_begins_at_the_end_and_its_asker_knows_the_oldest_record()
    {
        let kept = Shown::Kept(KEPT);
        for (question, answer, seen) in [
            (question(8, Some(3)), answer(3, 8, 0, 8), kept),
            (question(8, Some(2)), answer(3, 8, 0, 8), Shown::NotYet),
            (question(8, None), answer(3, 8, 0, 8), Shown::NotYet),
            (question(7, Some(3)), answer(3, 7, 1, 8), Shown::NotYet),
            (question(0, Some(3)), answer(3, 3, 5, 8), Shown::NotYet),
            (question(8, Some(8)), answer(8, 8, 0, 8), Shown::Nothing),
            (question(0, None), answer(8, 8, 0, 8), Shown::Nothing),
        ] {
            assert_eq!(shown(question, answer), seen, "{question:?}");
        }
    }

    #[test]
    fn only_the_copy_that_is_under_way_ends_the_hand_over_that_waited_when_it_asked() {
        let mut shipping = Shipping::default();
        let all = (question(8, Some(3)), answer(3, 8, 0, 8));
        let first = shipping.begins();
        // It was looked up before the hand-over waited.
        let before = shipping.settling();
        shipping.settle();
        assert_eq!(shipping.answered((first, before), all.0, all.1), None);
        let now = shipping.settling();
        let second = shipping.begins();
        // It is of a copy that has ended.
        assert_eq!(shipping.answered((first, now), all.0, all.1), None);
        shipping.give_up();
        assert_eq!(shipping.answered((second, now), all.0, all.1), None);
        shipping.settle();
        // Another one waited.
        assert_eq!(shipping.answered((second, now), all.0, all.1), None);
        let now = shipping.settling();
        let ended = shipping.answered((second, now), all.0, all.1);
        assert_eq!(ended, Some(Some(KEPT)));
        assert_eq!(shipping.settling(), None);
    }

    #[test]
    fn a_hand_over_does_not_wait_for_who_keeps_nothing() {
        assert!(Question::of_who_keeps_nothing(9).asks_nothing());
        assert!(!Keeping::new(9).question().asks_nothing());
        let mut shipping = Shipping::default();
        let first = shipping.begins();
        let second = shipping.begins();
        shipping.settle();
        assert!(!shipping.keeps_nothing(first));
        assert!(shipping.keeps_nothing(second));
        assert_eq!(shipping.settling(), None);
        assert!(!shipping.keeps_nothing(second));
    }

    /// Whether everything counts as kept when a question is answered that was looked up before the hand-over waited, or is of a
    /// copy that has ended.
    fn is_kept(
        (of_this_copy, since_held): (bool, bool),
        question: Question,
        answer: Stretch,
    ) -> bool {
        let mut shipping = Shipping::default();
        let ended_copy = shipping.begins();
        let copy = shipping.begins();
        let before = shipping.settling();
        shipping.settle();
        let copy = if of_this_copy { copy } else { ended_copy };
        let looked_up = if since_held {
            shipping.settling()
        } else {
            before
        };
        shipping.answered((copy, looked_up), question, answer) == Some(Some(KEPT))
    }

    #[test]
    fn each_rule_is_needed() {
        let all = (question(8, Some(3)), answer(3, 8, 0, 8));
        let cases = [
            (Guard::ShippedToThisCopy, (false, true), all),
            (Guard::ShippedSinceHeld, (true, false), all),
            (
                Guard::ShippedToTheEnd,
                (true, true),
                (question(7, Some(3)), answer(3, 7, 1, 8)),
            ),
            (
                Guard::SettledIsShipped,
                (true, true),
                (question(8, Some(2)), answer(3, 8, 0, 8)),
            ),
        ];
        for (guard, when, (question, answer)) in cases {
            assert!(!is_kept(when, question, answer), "{guard:?}");
            crate::guard::remove(Some(guard));
            let without = is_kept(when, question, answer);
            crate::guard::remove(None);
            assert!(without, "{guard:?} is not missed");
        }
    }

    #[test]
    fn a_question_says_that_what_is_before_it_is_durable() {
        let mut keeping = Keeping::new(9);
        assert_eq!(keeping.question(), question(0, None));
        assert_eq!(keeping.came(answer(3, 3, 2, 8)), Came::News);
        assert_eq!(keeping.question(), question(0, None));
        keeping.is_durable();
        assert_eq!(keeping.question(), question(5, Some(3)));
        assert_eq!(keeping.came(answer(3, 5, 0, 5)), Came::Nothing);
        assert_eq!(keeping.came(answer(4, 5, 0, 5)), Came::News);
        for wrong in [
            answer(3, 6, 1, 8),
            answer(3, 5, 4, 8),
            answer(3, 5, u64::MAX, 8),
        ] {
            assert_eq!(keeping.came(wrong), Came::OutOfPlace, "{wrong:?}");
        }
        // What the owner has settled meanwhile is a gap: it begins anew.
        assert_eq!(keeping.came(answer(6, 6, 1, 8)), Came::News);
        keeping.is_durable();
        assert_eq!(keeping.question(), question(7, Some(6)));
    }
}
