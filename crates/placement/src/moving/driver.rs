//! Who drives a move: one at each host that may, of which the record names one.

use super::next::{Answer, Next, Timeouts, next};
use super::record::{Action, Move, Stage};
use crate::guard::{Guard, holds};
use crate::name::Name;
use units::Instant;

/// What a driver is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The record as the store has it, at this revision: answers [`Effect::Read`], or comes by a watch.
    Record {
        /// The store's revision of the record.
        revision: u64,
        /// The record.
        record: Move,
    },
    /// The commit was done, at this revision.
    Committed(u64),
    /// The commit was not done: the record had another revision.
    Refused,
    /// Nobody knows whether the commit was done, or will be.
    Unknown,
    /// The store was not reached, and nothing was read or committed.
    Away,
    /// The hosts answered the action.
    Answered(Answer),
    /// Some seconds have passed.
    Tick,
    /// The move may be carried out: an operator said so, or the mode does.
    Approve,
    /// An operator wants no move.
    Cancel,
    /// The lease of the driver that the record names is gone.
    DriverLost,
}

/// What a driver wants done. One thing at a time, and every one of them answered by one event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Read the record: [`Event::Record`] or [`Event::Away`].
    Read,
    /// Replace the record if it has this revision: [`Event::Committed`], [`Event::Refused`],
    /// [`Event::Away`] or [`Event::Unknown`].
    Commit {
        /// The revision that the record must have; any, for `None`.
        expected: Option<u64>,
        /// The new record.
        then: Move,
    },
    /// Have both hosts do this: [`Event::Answered`].
    Act {
        /// What.
        action: Action,
        /// The record's step, for the hosts' [`Fence`](super::Fence).
        step: u64,
    },
}

/// What a driver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pending {
    Nothing,
    Read,
    Commit(Move),
    Act(Action),
}

/// A driver of one move at one host. It forgets everything when its host dies; the record does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Driver {
    me: Name,
    timeouts: Timeouts,
    known: Option<(u64, Move)>,
    pending: Pending,
    /// The record names this driver, and this driver made it so.
    is_mine: bool,
    /// The stage's action was carried out for this driver.
    has_acted: bool,
}

impl Driver {
    /// A driver at this host, and what it does first.
    pub const fn new(me: Name, timeouts: Timeouts) -> (Self, Effect) {
        let driver = Self {
            me,
            timeouts,
            known: None,
            pending: Pending::Read,
            is_mine: false,
            has_acted: false,
        };
        (driver, Effect::Read)
    }

    /// The record as this driver knows it.
    pub fn record(&self) -> Option<&Move> {
        self.known.as_ref().map(|(_, record)| record)
    }

    /// The store's revision of the record that this driver knows.
    pub fn revision(&self) -> Option<u64> {
        self.known.as_ref().map(|(revision, _)| *revision)
    }

    /// Whether this driver waits for the answer to an effect.
    pub const fn is_waiting(&self) -> bool {
        !matches!(self.pending, Pending::Nothing)
    }

    /// Takes an event in, and says what to do. An event that answers nothing which was asked for is ignored.
    pub fn take(&mut self, event: Event, now: Instant) -> Option<Effect> {
        match event {
            Event::Record { revision, record } => self.learn(revision, record, now),
            Event::Committed(revision) => self.committed(revision, now),
            Event::Refused => self.is_committing().then(|| self.read()),
            Event::Unknown => self.unknown(now),
            Event::Away => {
                if !matches!(self.pending, Pending::Act(_)) {
                    // Nothing is known for sure any more: the next tick reads.
                    self.pending = Pending::Nothing;
                    self.known = None;
                }
                None
            }
            Event::Answered(answer) => self.answered(answer, now),
            Event::Tick if self.is_waiting() => None,
            Event::Tick if self.known.is_none() => Some(self.read()),
            Event::Tick => self.go_on(None, now),
            Event::Approve => self.enter_from(now, |stage| {
                matches!(stage, Stage::Planned).then_some(Stage::Approved)
            }),
            Event::Cancel => self.enter_from(now, Stage::cancelled),
            Event::DriverLost => self.claim(),
        }
    }

    const fn is_committing(&self) -> bool {
        matches!(self.pending, Pending::Commit(_))
    }

    fn read(&mut self) -> Effect {
        self.pending = Pending::Read;
        Effect::Read
    }

    fn learn(&mut self, revision: u64, record: Move, now: Instant) -> Option<Effect> {
        // A watch may tell of a record while a commit is under way; the commit's outcome says more.
        if self.is_committing() || matches!(self.pending, Pending::Act(_)) {
            return None;
        }
        self.pending = Pending::Nothing;
        self.is_mine = self.is_mine && record.driver.as_ref() == Some(&self.me);
        let is_news = self
            .known
            .as_ref()
            .is_none_or(|(known, _)| *known != revision);
        if is_news {
            self.has_acted = false;
            self.known = Some((revision, record));
        }
        self.go_on(None, now)
    }

    fn committed(&mut self, revision: u64, now: Instant) -> Option<Effect> {
        let Pending::Commit(record) = std::mem::replace(&mut self.pending, Pending::Nothing) else {
            return None;
        };
        let stage = self.record().map(|known| known.stage);
        self.has_acted = self.has_acted && stage == Some(record.stage);
        self.is_mine = record.driver.as_ref() == Some(&self.me);
        self.known = Some((revision, record));
        self.go_on(None, now)
    }

    fn unknown(&mut self, now: Instant) -> Option<Effect> {
        if !self.is_committing() {
            return None;
        }
        if !holds(Guard::UnknownIsRead) {
            let revision = self.known.as_ref().map_or(0, |(revision, _)| *revision);
            return self.committed(revision + 1, now);
        }
        // If the commit was done, the record names this driver; then it is this driver's, since no other process has
        // its name.
        self.is_mine = true;
        Some(self.read())
    }

    fn answered(&mut self, answer: Answer, now: Instant) -> Option<Effect> {
        let Pending::Act(action) = self.pending else {
            return None;
        };
        self.pending = Pending::Nothing;
        if action != Action::Ask && answer == Answer::Done {
            self.has_acted = true;
        }
        self.go_on(Some(answer), now)
    }

    fn go_on(&mut self, news: Option<Answer>, now: Instant) -> Option<Effect> {
        let (_, record) = self.known.as_ref()?;
        if record.driver.as_ref() != Some(&self.me) {
            return None;
        }
        if !self.is_mine {
            // Named by an earlier process of this host, or by a commit that has landed after all.
            return self.claim();
        }
        match next(record, self.has_acted, news, &self.timeouts, now) {
            Next::Wait => None,
            Next::Act(action) => Some(self.act(action)),
            Next::Enter(Stage::Prepared) if !holds(Guard::CommitFirst) && !self.has_acted => {
                Some(self.act(Action::Prepare))
            }
            Next::Enter(stage) => self.enter(stage, now),
        }
    }

    fn act(&mut self, action: Action) -> Effect {
        let step = self.record().map_or(0, |record| record.step);
        self.pending = Pending::Act(action);
        Effect::Act { action, step }
    }

    /// Enters a stage that depends on the present one, on somebody's word. Not while something is under way: whoever
    /// gave the word gives it again.
    fn enter_from(&mut self, now: Instant, to: impl Fn(Stage) -> Option<Stage>) -> Option<Effect> {
        if self.is_waiting() {
            return None;
        }
        let stage = to(self.record()?.stage)?;
        self.enter(stage, now)
    }

    /// Commits a stage; the driver becomes this one.
    fn enter(&mut self, stage: Stage, now: Instant) -> Option<Effect> {
        let then = self.record()?.entered(stage, &self.me, now);
        self.commit(then)
    }

    /// Takes a move over whose driver is gone. Its stage goes on, and its action is carried out again.
    fn claim(&mut self) -> Option<Effect> {
        let record = self.record()?;
        let is_driven = record.driver.is_some() && !self.is_mine;
        if self.is_waiting() || !is_driven || record.stage.is_final() {
            return None;
        }
        let then = Move {
            driver: Some(self.me.clone()),
            step: record.step + 1,
            ..record.clone()
        };
        if holds(Guard::LostDriverReplaced) {
            self.commit(then)
        } else {
            None
        }
    }

    fn commit(&mut self, then: Move) -> Option<Effect> {
        let (revision, _) = self.known.as_ref()?;
        let expected = holds(Guard::CompareRevision).then_some(*revision);
        self.pending = Pending::Commit(then.clone());
        Some(Effect::Commit { expected, then })
    }
}
