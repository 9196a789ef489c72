//! In which order writes may be lost.
//!
//! A disk with a volatile cache may lose, when its power goes, any of the writes that were not
//! flushed. Which states it can leave behind is a question of time: there is a moment *t* such that
//! nothing is there that was asked after *t*, and everything is there (or overwritten) that had been
//! acknowledged before a flush that was itself acknowledged before *t*.
//!
//! ```text
//!    writes  ──a──a────a──┐ flush ┌──b────b──         t may lie anywhere: if a `b` is there, t lies
//!                       began   ended                 behind it, so every `a` must be there
//! ```
//!
//! The latest time at which any sector's content was asked for is the earliest *t* that explains the
//! state, and every later one asks for more. So one pass finds it and a second one tests it; and for
//! an origin that may still lose some of its writes, the worst choice is found in the same two
//! passes: each sector beside the latest content that any other may have.
//!
//! Two promises of write-back are states of this kind:
//!
//! - the origin of an `ordered` disk, alone, at any moment ([`History::origin_alone`]);
//! - what recovery brings back: a prefix of the writes in the order of acceptance, so that each
//!   acknowledgement counts as a flush here ([`History::one_cut`]).

use super::{History, Moment, Tag, Value};
use crate::violation::Violation;

/// Flushes that were acknowledged, by when.
#[derive(Debug, Default)]
pub(super) struct Barriers(Vec<Barrier>);

#[derive(Debug)]
struct Barrier {
    ended: Moment,
    /// The latest at which this or an earlier one began.
    began: Moment,
}

impl Barriers {
    pub(super) fn add(&mut self, began: Moment, ended: Moment) {
        let before = self.0.last().map_or(0, |last| last.began);
        self.0.push(Barrier {
            ended,
            began: began.max(before),
        });
    }

    /// What was acknowledged before this must be where something is that was asked at `at`.
    fn before(&self, at: Moment) -> Moment {
        let count = self.0.partition_point(|barrier| barrier.ended <= at);
        self.0[..count].last().map_or(0, |barrier| barrier.began)
    }
}

/// The latest content of any sector, and of any other one.
#[derive(Clone, Copy, Default)]
struct Latest {
    sector: usize,
    at: Moment,
    elsewhere: Moment,
}

impl Latest {
    fn see(&mut self, sector: usize, at: Moment) {
        if sector == self.sector {
            self.at = self.at.max(at);
        } else if at > self.at {
            *self = Self {
                sector,
                at,
                elsewhere: self.at,
            };
        } else {
            self.elsewhere = self.elsewhere.max(at);
        }
    }

    fn beside(&self, sector: usize) -> Moment {
        if sector == self.sector {
            self.elsewhere
        } else {
            self.at
        }
    }
}

impl History {
    /// What was acknowledged before `began` is ordered before whatever is asked after `ended`, as by
    /// a flush.
    pub fn barrier(&mut self, began: Moment, ended: Moment) {
        self.barriers.add(began, ended);
    }

    /// Whether an origin is a disk that its guest could have left behind, whatever it loses now:
    /// for each sector every value that it may hold.
    ///
    /// # Errors
    /// The violation, with two sectors that contradict each other.
    pub fn origin_alone(&self, fates: &[Vec<Option<Tag>>]) -> Result<(), Violation> {
        let seen = self.latest(fates, "the origin alone")?;
        for (number, (sector, tags)) in self.sectors.iter().zip(fates).enumerate() {
            let at = seen.beside(number);
            let flushed = self.barriers.before(at);
            let must = |value: &Value| {
                let by = if value.fua { at } else { flushed };
                value.certain && value.answered_by(by)
            };
            for tag in tags.iter().flatten() {
                check(sector, *tag, must).map_err(|missing| {
                    Violation::new(
                        "origin alone",
                        format!(
                            "sector {number} may hold {tag} beside something asked at {at}, but \
                             {missing} was flushed before that; its history: {}",
                            super::describe(sector)
                        ),
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Whether what a disk reads as after a crash is everything up to one point in the order in
    /// which writes were accepted, of those asked since `since`.
    ///
    /// # Errors
    /// The violation, with two sectors that contradict each other.
    pub fn one_cut(&self, found: &[Vec<Option<Tag>>], since: Moment) -> Result<(), Violation> {
        let at = self.latest(found, "after a crash the disk")?.at;
        for (number, (sector, tags)) in self.sectors.iter().zip(found).enumerate() {
            let must =
                |value: &Value| value.acked && value.issued >= since && value.answered_by(at);
            for tag in tags.iter().flatten() {
                check(sector, *tag, must).map_err(|missing| {
                    Violation::new(
                        "prefix",
                        format!(
                            "after a crash sector {number} holds {tag} beside something asked at \
                             {at}, but {missing} was answered before that; its history: {}",
                            super::describe(sector)
                        ),
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Whether an origin has everything that was asked since `since` and acknowledged before `before`,
    /// whatever it loses now.
    ///
    /// # Errors
    /// The violation, with what it lacks.
    pub fn origin_has(
        &self,
        fates: &[Vec<Option<Tag>>],
        since: Moment,
        before: Moment,
    ) -> Result<(), Violation> {
        self.latest(fates, "the origin")?;
        let must =
            |value: &Value| value.certain && value.issued >= since && value.answered_by(before);
        for (number, (sector, tags)) in self.sectors.iter().zip(fates).enumerate() {
            for tag in tags.iter().flatten() {
                check(sector, *tag, must).map_err(|missing| {
                    Violation::new(
                        "I6",
                        format!(
                            "the origin is said to have everything before {before}, but sector \
                             {number} may hold {tag} and not {missing}; its history: {}",
                            super::describe(sector)
                        ),
                    )
                })?;
            }
        }
        Ok(())
    }

    /// What a disk reads as after a crash, with nothing in flight, is what is there: the rest is
    /// lost or overwritten, and a flush makes this durable. Not where the origin is
    /// `late`: what was not answered as done may have landed after the last flush that it was asked for.
    pub fn settle(&mut self, found: &[Vec<Option<Tag>>], late: bool) {
        self.unsettled &= found.iter().any(Vec::is_empty);
        for (sector, tags) in self.sectors.iter_mut().zip(found) {
            let Some(Some(tag)) = tags.first() else {
                continue;
            };
            let there = sector.iter().enumerate().rev();
            let Some((at, _)) = there
                .filter(|(_, value)| value.tag == *tag && value.dead.is_none())
                // Of several writes of zeroes one that surely happened, or the one that asks least of the
                // other sectors.
                .max_by_key(|(_, value)| (value.certain, value.answered, value.issued))
            else {
                continue;
            };
            let issued = sector[at].issued;
            for (other, value) in sector.iter_mut().enumerate() {
                if other == at {
                    let sure = value.certain || !late;
                    value.certain = sure;
                    value.acked = sure;
                } else if !value.answered_by(issued) {
                    value.certain = false;
                    value.acked = false;
                }
            }
        }
    }

    fn latest(&self, tags: &[Vec<Option<Tag>>], whose: &str) -> Result<Latest, Violation> {
        let mut latest = Latest::default();
        for (number, (sector, tags)) in self.sectors.iter().zip(tags).enumerate() {
            for tag in tags {
                // Of several writes of zeroes the first asks least of the others.
                let issued = tag.and_then(|tag| {
                    let candidates = sector.iter().filter(|value| value.tag == tag);
                    candidates.map(|value| value.issued).min()
                });
                let Some(issued) = issued else {
                    return Err(Violation::new(
                        "I4",
                        format!(
                            "{whose} may hold {tag:?} in sector {number}, which was never written \
                             there; its history: {}",
                            super::describe(sector)
                        ),
                    ));
                };
                latest.see(number, issued);
            }
        }
        Ok(latest)
    }
}

/// Whether a sector may hold this value where `must` says which ones are there or overwritten.
fn check(sector: &[Value], tag: Tag, must: impl Fn(&Value) -> bool) -> Result<(), Tag> {
    let must = sector.iter().filter(|value| must(value));
    let Some(newest) = must.max_by_key(|value| value.issued) else {
        return Ok(());
    };
    let legal = |value: &Value| value.tag == tag && !value.answered_by(newest.issued);
    if newest.tag == tag || sector.iter().any(legal) {
        Ok(())
    } else {
        Err(newest.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SECTOR;
    use super::*;
    use units::{Bytes, Offset};

    const ONE: Bytes = Bytes::new(SECTOR as u64);

    enum Event {
        /// To a sector, a value, with FUA or not.
        Write(u64, Tag, bool),
        Flush,
    }
    use Event::{Flush, Write};

    /// Two sectors, to which this has happened, one after the other.
    fn history(events: &[Event]) -> History {
        let mut history = History::new(2);
        for (at, event) in (1..).step_by(2).zip(events) {
            match event {
                Flush => history.flushed(at, at + 1),
                Write(sector, tag, fua) => {
                    let offset = Offset::new(sector * ONE.get());
                    history.write_issued(offset, ONE, *tag, at);
                    history.write_answered(offset, ONE, at, true, *fua, at + 1);
                }
            }
        }
        history
    }

    fn write(sector: u64, tag: Tag) -> Event {
        Write(sector, tag, false)
    }

    fn alone(history: &History, fates: [&[Tag]; 2]) -> bool {
        let fates = fates.map(|tags| tags.iter().map(|tag| Some(*tag)).collect());
        history.origin_alone(&fates).is_ok()
    }

    fn cut(history: &History, found: [Tag; 2]) -> bool {
        history
            .one_cut(&found.map(|tag| vec![Some(tag)]), 0)
            .is_ok()
    }

    #[test]
    fn within_an_interval_any_part_may_be_there() {
        let history = history(&[write(0, 5), write(1, 6)]);
        for fates in [[0, 0], [5, 0], [0, 6], [5, 6]] {
            assert!(alone(&history, [&fates[..1], &fates[1..]]));
        }
    }

    #[test]
    fn nothing_after_a_flush_is_there_without_everything_before_it() {
        let history = history(&[write(0, 5), Flush, write(1, 6)]);
        assert!(alone(&history, [&[0], &[0]]), "the origin may lag");
        assert!(alone(&history, [&[5], &[0]]));
        assert!(alone(&history, [&[5], &[6]]));
        assert!(!alone(&history, [&[0], &[6]]));
    }

    #[test]
    fn what_the_origin_may_still_lose_counts() {
        let history = history(&[write(0, 5), Flush, write(1, 6)]);
        assert!(!alone(&history, [&[0, 5], &[0, 6]]), "5 lost, 6 kept");
        assert!(alone(&history, [&[0, 5], &[0]]));
        assert!(alone(&history, [&[5], &[0, 6]]));
    }

    #[test]
    fn a_later_write_stands_for_the_one_that_it_replaced() {
        let history = history(&[write(0, 5), Flush, write(0, 7), write(1, 6)]);
        assert!(alone(&history, [&[7], &[6]]));
        assert!(alone(&history, [&[5], &[6]]));
        assert!(!alone(&history, [&[0], &[6]]));
        assert!(!alone(&history, [&[0, 7], &[6]]));
    }

    #[test]
    fn a_write_with_fua_is_there_before_what_is_asked_after_it() {
        let history = history(&[Write(0, 5, true), write(1, 6)]);
        assert!(!alone(&history, [&[0], &[6]]));
        assert!(alone(&history, [&[5], &[0]]));
    }

    #[test]
    fn a_flush_under_way_orders_nothing() {
        let mut history = History::new(2);
        history.write_issued(Offset::ZERO, ONE, 5, 1);
        history.write_answered(Offset::ZERO, ONE, 1, true, false, 2);
        history.write_issued(Offset::after(ONE), ONE, 6, 4);
        history.flushed(3, 5);
        assert!(
            alone(&history, [&[0], &[6]]),
            "6 was asked before its answer"
        );
    }

    #[test]
    fn one_point_explains_what_a_crash_left() {
        let history = history(&[write(0, 5), write(1, 6), write(0, 7)]);
        for found in [[0, 0], [5, 0], [5, 6], [7, 6]] {
            assert!(cut(&history, found), "{found:?}");
        }
        assert!(!cut(&history, [0, 6]), "5 was answered before 6 was asked");
        assert!(!cut(&history, [7, 0]));
    }

    #[test]
    fn what_one_crash_has_taken_is_not_asked_for_after_the_next() {
        let mut history = history(&[write(0, 5), write(1, 6)]);
        let read = |history: &mut History, tag, at| {
            let mut bytes = vec![0; SECTOR];
            super::super::fill_sector(&mut bytes, tag);
            history.read(Offset::ZERO, &bytes, at, at + 1)
        };
        history.crashed(9);
        history.lost_power();
        assert!(cut(&history, [5, 0]));
        read(&mut history, 5, 10).unwrap();
        history.settle(&[5, 0].map(|tag| vec![Some(tag)]), false);
        history.write_issued(Offset::ZERO, ONE, 8, 12);
        history.write_answered(Offset::ZERO, ONE, 12, true, false, 13);
        history.crashed(14);
        history.lost_power();
        assert!(cut(&history, [8, 0]), "6 was lost before");
        assert!(cut(&history, [5, 0]));
        history.settle(&[8, 0].map(|tag| vec![Some(tag)]), false);
        history.flushed(15, 16);
        history.crashed(17);
        history.lost_power();
        assert!(
            read(&mut history, 5, 18).is_err(),
            "8 was found and flushed"
        );
    }

    #[test]
    fn what_one_crash_has_taken_is_not_asked_for_although_nobody_has_looked() {
        let mut history = history(&[write(0, 5)]);
        history.crashed(9);
        history.lost_power();
        history.write_issued(Offset::after(ONE), ONE, 6, 10);
        history.write_answered(Offset::after(ONE), ONE, 10, true, false, 11);
        history.crashed(12);
        assert!(cut(&history, [0, 6]), "5 was lost before 6 was asked");
        assert!(cut(&history, [5, 6]));
    }

    #[test]
    fn an_origin_that_has_everything_can_lose_nothing() {
        let history = history(&[write(0, 5), write(1, 6)]);
        let has = |fates: [&[Tag]; 2], before| {
            let fates = fates.map(|tags| tags.iter().map(|tag| Some(*tag)).collect());
            history.origin_has(&fates, 0, before).is_ok()
        };
        assert!(has([&[5], &[6]], 9));
        assert!(!has([&[5], &[0, 6]], 9));
        assert!(has([&[5], &[0, 6]], 2), "6 came later");
    }

    #[test]
    fn a_value_that_was_never_written_is_named() {
        let history = history(&[write(0, 5)]);
        let violation = history
            .origin_alone(&[vec![Some(9)], vec![Some(0)]])
            .unwrap_err();
        assert_eq!(violation.invariant, "I4");
    }
}
