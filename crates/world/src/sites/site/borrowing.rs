//! What stands before the origin of a disk that has come here: it asks the host that had the disk before.
//!
//! ```text
//!   taken in the epoch that was granted ─► list: the contents of each segment ─► pull: what was listed
//!   any other take                      ─► nothing is borrowed
//! ```

use super::{Around, Asker, Life};
use crate::sites::guard::{Guard, holds};
use crate::sites::link::{Frame, Lent, Question};
use block_io::{OriginDone, OriginOp, OriginVerb, Verb};
use borrowing::{Ask, Borrower, Ended, LOAN_TIME_MAX, Run, without_origin};
use cache::RequestId;
use handoff::{Action, Event, Message, Role};
use std::collections::VecDeque;
use units::{BLOCK_BYTES, Bytes, Instant};

/// Most blocks that are pulled in one piece.
const PIECE_BLOCKS_MAX: u32 = 4;

/// What of the lender's contents comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The contents of this segment are asked for; before the first, how many there are.
    Contents {
        number: u64,
        at: u32,
    },
    Pull,
    /// Nothing, until a session begins.
    Nothing,
}

/// What is borrowed of a disk that is here.
pub(super) struct Borrowing {
    borrower: Borrower,
    /// The lender's, while it is asked.
    epoch: Option<u64>,
    next: Next,
    segments: u32,
    pulls: VecDeque<Run>,
}

/// Which disk may be borrowed of: the epoch that was granted, and the one that is being taken.
#[derive(Default)]
pub(super) struct Arrival {
    granted: Option<u64>,
    taking: Option<u64>,
}

impl Arrival {
    /// The other host says something to this one, which is in this role.
    pub(super) fn said(&mut self, message: Message, role: Option<Role>) {
        if let (Message::Grant { epoch }, Some(Role::Claiming)) = (message, role) {
            self.granted = Some(epoch);
        }
    }

    /// A step of a hand-over begins.
    pub(super) fn begins(&mut self, action: Action) {
        if let Action::Take { epoch } = action {
            self.taking = Some(epoch);
        }
    }

    /// The disk is here. The epoch in which it borrows, if it does.
    fn taken(&mut self) -> Option<u64> {
        let (granted, taken) = (self.granted.take(), self.taking.take());
        taken.filter(|taken| granted == Some(*taken) || !holds(Guard::LoansHaveEpochs))
    }
}

impl Borrowing {
    /// For a disk whose origin has just been opened. Its asks have the numbers from `first` on.
    pub(super) fn new(first: u64) -> Self {
        Self {
            borrower: Borrower::new(first, LOAN_TIME_MAX),
            epoch: None,
            next: Next::Nothing,
            segments: 0,
            pulls: VecDeque::new(),
        }
    }

    /// For a disk that stands by here and is the other host's since this epoch.
    pub(super) fn of_standby(first: u64, epoch: u64) -> Self {
        Self {
            epoch: Some(epoch),
            ..Self::new(first)
        }
    }

    /// When the borrower has work next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.borrower.next_deadline()
    }

    fn contents(&mut self, blocks: u64, runs: &[Run]) {
        let is_there = |run: &&Run| run.first.get() + u64::from(run.count) <= blocks;
        for run in runs.iter().filter(is_there) {
            self.borrower.list(*run);
            let starts = (0..run.count).step_by(PIECE_BLOCKS_MAX as usize);
            self.pulls.extend(starts.map(|start| Run {
                first: run.first.advance(u64::from(start)),
                count: (run.count - start).min(PIECE_BLOCKS_MAX),
            }));
        }
    }

    /// The next run that may still be borrowed.
    fn next_pull(&mut self) -> Option<Run> {
        loop {
            let piece = self.pulls.pop_front()?;
            let mut runs = self.borrower.pull(piece).into_iter();
            if let Some(first) = runs.next() {
                for (i, run) in runs.enumerate() {
                    self.pulls.insert(i, run);
                }
                return Some(first);
            }
        }
    }
}

/// What a host borrows, while it looks at that.
pub(super) struct Borrows<'a, 'b> {
    number: usize,
    life: &'a mut Life,
    at: &'a mut Around<'b>,
}

impl<'a, 'b> Borrows<'a, 'b> {
    pub(super) fn new(number: usize, life: &'a mut Life, at: &'a mut Around<'b>) -> Self {
        Self { number, life, at }
    }

    /// Something has happened to the disk: it may have come.
    pub(super) fn arrives(&mut self, event: Event) {
        if event != Event::Taken(Ok(())) {
            return;
        }
        let epoch = self.life.arrival.taken();
        if let Some(borrowing) = &mut self.life.borrowing {
            borrowing.epoch = epoch;
        }
        match epoch {
            Some(_) => self.ask_contents(0),
            None => self.end_borrowing(),
        }
    }

    /// The lender is asked for nothing more. Reads that wait for it go to the origin when it is late.
    pub(super) fn stop_asking(&mut self) {
        if let Some(borrowing) = &mut self.life.borrowing {
            borrowing.epoch = None;
            borrowing.next = Next::Nothing;
        }
    }

    /// An operation of the origin.
    pub(super) fn ask_origin(&mut self, op: OriginOp) {
        let mut ended = Ended::default();
        let is_read = matches!(op.verb, OriginVerb::Read { .. });
        let is_here = self.life.opened.is_some();
        match &mut self.life.borrowing {
            // What is discarded the other host has changed: it may be borrowed again.
            Some(borrowing) if is_read || is_here => {
                borrowing.borrower.submit(op, self.at.run.now(), &mut ended);
            }
            _ => ended.origin.push(op),
        }
        for done in self.pass_on(ended) {
            self.life.process.origin_done(done, self.at.run.now());
        }
    }

    /// What the borrower passes on, and what it has ended.
    fn pass_on(&mut self, mut ended: Ended) -> Vec<OriginDone> {
        let now = self.at.run.now();
        for op in ended.origin {
            match &mut self.life.opened {
                Some(opened) => self.at.shared.submit(opened, op.token, op.verb, now),
                None => ended.done.push(without_origin(op)),
            }
        }
        let epoch = self.life.borrowing.as_ref().and_then(|one| one.epoch);
        for Ask { number, run } in ended.asks {
            self.at.run.hit("asked the lender");
            if let Some(epoch) = epoch {
                let question = Question::Blocks(run);
                let ask = Frame::Borrow {
                    number,
                    epoch,
                    question,
                };
                self.at.link.send(self.number, ask, self.at.run);
            }
        }
        ended.done
    }

    fn with_borrower(&mut self, act: impl FnOnce(&mut Borrower, &mut Ended)) {
        let Some(borrowing) = &mut self.life.borrowing else {
            return;
        };
        let mut ended = Ended::default();
        act(&mut borrowing.borrower, &mut ended);
        for done in self.pass_on(ended) {
            if !self.life.process.survives_operation() {
                return;
            }
            self.at.run.hit("borrowed");
            self.at.run.event(&[38, done.token.0], || {
                format!("host {} has borrowed for {}", self.number, done.token.0)
            });
            self.life.process.origin_done(done, self.at.run.now());
        }
    }

    /// Reads for which the lender is late go to the origin.
    pub(super) fn lender_is_late(&mut self) {
        self.at.run.hit("lender was late");
        let now = self.at.run.now();
        self.with_borrower(|borrower, ended| borrower.tick(now, ended));
    }

    pub(super) fn end_borrowing(&mut self) {
        self.stop_asking();
        self.with_borrower(Borrower::end);
    }

    /// A session has begun, or has ended.
    pub(super) fn lender_linked(&mut self, is_linked: bool) {
        let Some(borrowing) = &mut self.life.borrowing else {
            return;
        };
        borrowing.next = Next::Nothing;
        let asks = borrowing.epoch.is_some();
        self.with_borrower(|borrower, ended| borrower.set_linked(is_linked, ended));
        if is_linked && asks {
            self.ask_contents(0);
        }
    }

    pub(super) fn ask_contents(&mut self, from: u32) {
        let Some(borrowing) = &mut self.life.borrowing else {
            return;
        };
        let Some(epoch) = borrowing.epoch else {
            return;
        };
        let number = self.at.run.next_id();
        borrowing.next = Next::Contents { number, at: from };
        let question = Question::Contents { at: from };
        let ask = Frame::Borrow {
            number,
            epoch,
            question,
        };
        self.at.link.send(self.number, ask, self.at.run);
    }

    /// The lender answers.
    pub(super) fn borrowed(&mut self, number: u64, lent: Lent) {
        let Some(borrowing) = &mut self.life.borrowing else {
            return;
        };
        if let Next::Contents {
            number: asked,
            at: from,
        } = borrowing.next
            && asked == number
        {
            match lent {
                Lent::Segments(count) => {
                    borrowing.segments = u32::try_from(count).expect("segments are few");
                }
                Lent::Contents(runs) => {
                    let blocks = self.at.shared.disk().size().get() / BLOCK_BYTES;
                    borrowing.contents(blocks, &runs);
                }
                Lent::Blocks(_) | Lent::Records(_) | Lent::Nothing => {
                    return self.end_borrowing();
                }
            }
            if from < borrowing.segments {
                return self.ask_contents(from + 1);
            }
            borrowing.next = Next::Pull;
            return self.pull();
        }
        if borrowing.epoch.is_none() {
            return;
        }
        if let Lent::Blocks(bytes) = lent {
            let now = self.at.run.now();
            self.with_borrower(|borrower, ended| borrower.got(number, &bytes, now, ended));
        } else {
            self.at.run.hit("loan refused");
            self.with_borrower(|borrower, ended| borrower.refused(number, ended));
        }
    }

    /// Pulls the next piece into the cache. After the last one nothing is borrowed any more.
    pub(super) fn pull(&mut self) {
        let Some(borrowing) = &mut self.life.borrowing else {
            return;
        };
        let standby = self.life.stands_by.slot();
        if borrowing.next != Next::Pull || !(self.life.serves() || standby.is_some()) {
            return;
        }
        let Some(Run { first, count }) =
            self.life.borrowing.as_mut().and_then(Borrowing::next_pull)
        else {
            if standby.is_some() {
                self.at.run.hit("copied ahead");
                if let Some(borrowing) = &mut self.life.borrowing {
                    borrowing.next = Next::Nothing;
                }
                return;
            }
            self.at.run.hit("pulled everything");
            return self.end_borrowing();
        };
        let id = RequestId(self.at.run.next_id());
        let verb = Verb::Prefetch {
            offset: first.start(),
            length: Bytes::new(u64::from(count) * BLOCK_BYTES),
        };
        let now = self.at.run.now();
        let disk = standby.or(self.life.slot()).expect("it is attached");
        self.life.ask_standby(id, Asker::Pull, (disk, verb), now);
    }
}
