//! The cache of the disk goes ahead of it: while the disk stands by here, what the owner has cached is pulled, and what the
//! owner's guests change meanwhile is discarded.
//!
//! ```text
//!   pull what is listed ◄─► ask what is stale, discard it ─► the disk comes: until nothing is stale
//! ```

use super::Standby;
use crate::sites::guard::{Guard, holds};
use crate::sites::link::Frame;
use crate::sites::site::borrowing::{Borrowing, Borrows};
use crate::sites::site::{Around, Asker};
use block_io::Verb;
use borrowing::Run;
use cache::RequestId;
use units::{BLOCK_BYTES, Bytes, Duration, Instant};

/// How often the owner is asked what is stale.
const STALE_PAUSE: Duration = Duration::from_millis(200);
/// How long the owner has for an answer, and how long a disk that comes waits for the rest.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The owner is asked again then.
    At(Instant),
    /// It was asked this, and has until then.
    Asked(u64, Instant),
    /// So much of what it has told is not discarded yet.
    Discards(usize),
    /// The copy counts, or does not.
    Over(bool),
}

/// A copy of the owner's cache.
pub(super) struct Copying {
    state: State,
    /// The disk comes here, and waits until then.
    comes: Option<Instant>,
    /// The question was asked when the owner had let go of the disk.
    is_last: bool,
}

impl Copying {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::At(now),
            comes: None,
            is_last: false,
        }
    }

    /// When something is to be done, or is late.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.state {
            State::At(at) | State::Asked(_, at) => Some(at),
            State::Discards(_) | State::Over(_) => None,
        }
    }

    /// The disk comes. None while the copy is not over, else whether it counts.
    pub(super) fn comes(&mut self, now: Instant) -> Option<bool> {
        let until = *self.comes.get_or_insert(now + ANSWER_TIME_MAX);
        match self.state {
            State::Over(counts) => return Some(counts),
            _ if !holds(Guard::StaleOnceMore) => return Some(true),
            _ if now >= until => self.state = State::Over(false),
            State::At(at) => self.state = State::At(at.min(now)),
            State::Asked(..) | State::Discards(_) => {}
        }
        None
    }
}

impl Standby<'_> {
    /// The disk stands by now: what the owner has is pulled.
    pub(super) fn begin_copy(&mut self, epoch: u64, at: &mut Around) {
        let first = at.run.next_id() << 20;
        self.life.borrowing = Some(Borrowing::of_standby(first, epoch));
        self.borrows(at).ask_contents(0);
    }

    fn borrows<'b, 'c>(&'b mut self, at: &'b mut Around<'c>) -> Borrows<'b, 'c> {
        Borrows::new(self.number, self.life, at)
    }

    /// Nothing is pulled any more.
    pub(super) fn end_copy(&mut self, at: &mut Around) {
        let slot = self.life.stands_by.slot();
        if let Some(disk) = slot
            && self.life.stands_by.is_copying()
        {
            let now = at.run.now();
            if let Some(cache) = self.life.process.cache_mut() {
                cache.cut_prefetches(disk, now);
            }
            self.borrows(at).end_borrowing();
        }
    }

    /// What is to be done about the copy is done.
    pub(super) fn copy_on(&mut self, at: &mut Around) {
        let now = at.run.now();
        let Some((copy, epoch)) = self.copying() else {
            return;
        };
        match copy.state {
            State::At(time) if time <= now => {
                let number = at.run.next_id();
                copy.state = State::Asked(number, now + ANSWER_TIME_MAX);
                copy.is_last = copy.comes.is_some();
                at.link
                    .send(self.number, Frame::AskStale { number, epoch }, at.run);
                if at.run.one_in(8) {
                    self.borrows(at).ask_contents(0);
                }
            }
            State::Asked(_, until) if until <= now => {
                at.run.hit("stale was late");
                self.copy_fails(at);
            }
            _ => {}
        }
    }

    /// It does not count: what the owner has changed is not known.
    fn copy_fails(&mut self, at: &mut Around) {
        at.run.hit("copy failed");
        if let Some((copy, _)) = self.copying() {
            copy.state = State::Over(false);
            if copy.comes.is_none() {
                self.stand_down(at);
            }
        }
    }

    /// The owner tells what is stale.
    pub(in crate::sites::site) fn stale_came(
        &mut self,
        number: u64,
        runs: Option<Vec<Run>>,
        at: &mut Around,
    ) {
        let (now, size) = (at.run.now(), at.shared.disk().size());
        let slot = self.life.stands_by.slot();
        let Some((copy, _)) = self.copying() else {
            return;
        };
        if !matches!(copy.state, State::Asked(asked, _) if asked == number) {
            return;
        }
        let Some((runs, slot)) = runs.zip(slot) else {
            return self.copy_fails(at);
        };
        if runs.is_empty() {
            copy.state = if copy.comes.is_some() && copy.is_last {
                State::Over(true)
            } else if copy.comes.is_some() {
                State::At(now)
            } else {
                State::At(now + STALE_PAUSE)
            };
            return;
        }
        copy.state = State::Discards(runs.len());
        for Run { first, count } in runs {
            at.run.hit("stale discarded");
            let offset = first.start();
            let left = size - offset.from_start();
            let length = Bytes::new(u64::from(count) * BLOCK_BYTES).min(left);
            let id = RequestId(at.run.next_id());
            let verb = Verb::Discard { offset, length };
            self.life.ask_standby(id, Asker::Stale, (slot, verb), now);
        }
    }

    /// One of these is discarded, or could not be.
    pub(in crate::sites::site) fn discarded(&mut self, is_done: bool, at: &mut Around) {
        let now = at.run.now();
        let Some((copy, _)) = self.copying() else {
            return;
        };
        let State::Discards(left) = copy.state else {
            return;
        };
        copy.state = match left {
            1 => State::At(now),
            left => State::Discards(left - 1),
        };
        if !is_done {
            self.copy_fails(at);
        }
    }
}
