//! The origin of a disk that roams, while the disk is here: a [`Borrower`] stands before it, and what changes at it is
//! noted for a host that copies blocks from there.
//!
//! The answers of the other host come by the shard's mailbox, and are taken in when the origin is polled next.

use block_io::{IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Token};
use borrowing::{Ask, Borrower, Changes, Ended, Manner, Run};
use origin::{Condition, Origin, Sources};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Duration, Instant};

/// Tells what the other host is to be asked for, from the shard's thread.
pub(crate) type AskTell = Arc<dyn Fn(Ask) + Send + Sync>;

/// What has come from the other host.
enum Answer {
    Got(u64, Vec<u8>),
    Refused(u64),
    Linked(bool),
    End,
}

/// What is borrowed of one disk, as long as it is here.
#[derive(Clone)]
pub(crate) struct Loans(Rc<RefCell<State>>);

struct State {
    borrower: Borrower,
    answers: Vec<Answer>,
    /// What changes at the origin.
    changes: Changes<Token>,
}

impl Loans {
    /// Asks have the numbers from `first` on, and wait so long for an answer.
    pub(crate) fn new(first: u64, patience: Duration) -> Self {
        Self(Rc::new(RefCell::new(State {
            borrower: Borrower::new(first, patience),
            answers: Vec::new(),
            changes: Changes::default(),
        })))
    }

    /// The other host has these blocks.
    pub(crate) fn list(&self, runs: &[Run]) {
        let borrower = &mut self.0.borrow_mut().borrower;
        for run in runs {
            borrower.list(*run);
        }
    }

    /// The other host is asked so.
    pub(crate) fn set_manner(&self, manner: Manner) {
        self.0.borrow_mut().borrower.set_manner(manner);
    }

    /// What of a run may be borrowed, and is about to be.
    pub(crate) fn pull(&self, run: Run) -> Vec<Run> {
        self.0.borrow_mut().borrower.pull(run)
    }

    /// An ask is answered, if the other host has what was asked for.
    pub(crate) fn answer(&self, number: u64, bytes: Option<Vec<u8>>) {
        let answer = bytes.map_or(Answer::Refused(number), |bytes| Answer::Got(number, bytes));
        self.push(answer);
    }

    /// The other host can be asked, or cannot.
    pub(crate) fn set_linked(&self, is_linked: bool) {
        self.push(Answer::Linked(is_linked));
    }

    /// The other host is asked anew, of a disk that is never changed.
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().borrower.begin();
    }

    /// Nothing is borrowed any more.
    pub(crate) fn end(&self) {
        self.push(Answer::End);
    }

    /// Another host begins to copy blocks from the origin, after so many of its flushes have failed.
    pub(crate) fn watch(&self, failed_flushes: u64) {
        self.0.borrow_mut().changes.watch(failed_flushes);
    }

    /// It copies no more.
    pub(crate) fn unwatch(&self) {
        self.0.borrow_mut().changes.unwatch();
    }

    /// What has changed at the origin since the last time, if everything of it is known.
    pub(crate) fn take_changes(&self, most: usize, failed_flushes: u64) -> Option<Vec<Run>> {
        self.0.borrow_mut().changes.take(most, failed_flushes)
    }

    fn begins(&self, op: &OriginOp) {
        let (offset, length) = match &op.verb {
            OriginVerb::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
            OriginVerb::Discard { offset, length }
            | OriginVerb::WriteZeroes { offset, length, .. } => (*offset, *length),
            OriginVerb::Read { .. } | OriginVerb::Flush => return,
        };
        self.0.borrow_mut().changes.begins(op.token, offset, length);
    }

    fn ends(&self, done: &[OriginDone]) {
        let changes = &mut self.0.borrow_mut().changes;
        for done in done {
            changes.ends(&done.token, done.result.is_err());
        }
    }

    fn push(&self, answer: Answer) {
        self.0.borrow_mut().answers.push(answer);
    }

    pub(crate) fn submit(&self, op: OriginOp, now: Instant) -> Ended {
        let mut ended = Ended::default();
        self.0.borrow_mut().borrower.submit(op, now, &mut ended);
        ended
    }

    /// Takes in what has come from the other host, and gives up what is late.
    pub(crate) fn poll(&self, now: Instant) -> Ended {
        let mut ended = Ended::default();
        let State {
            borrower, answers, ..
        } = &mut *self.0.borrow_mut();
        for answer in answers.drain(..) {
            match answer {
                Answer::Got(number, bytes) => borrower.got(number, &bytes, now, &mut ended),
                Answer::Refused(number) => borrower.refused(number, &mut ended),
                Answer::Linked(is_linked) => borrower.set_linked(is_linked, &mut ended),
                Answer::End => borrower.end(&mut ended),
            }
        }
        borrower.tick(now, &mut ended);
        ended
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.borrow().borrower.next_deadline()
    }
}

/// An origin before which a borrower stands.
pub(crate) struct BorrowedOrigin {
    origin: Box<dyn Origin>,
    loans: Loans,
    tell: AskTell,
}

impl BorrowedOrigin {
    pub(crate) fn new(origin: Box<dyn Origin>, loans: Loans, tell: AskTell) -> Self {
        Self {
            origin,
            loans,
            tell,
        }
    }

    fn pass_on(&mut self, ended: Ended, now: Instant) -> Vec<OriginDone> {
        for op in ended.origin {
            self.origin.submit(op, now);
        }
        for ask in ended.asks {
            (self.tell)(ask);
        }
        ended.done
    }
}

impl Origin for BorrowedOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.origin.geometry()
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        self.origin.grow(size)
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        self.loans.begins(&op);
        let ended = self.loans.submit(op, now);
        let done = self.pass_on(ended, now);
        debug_assert!(done.is_empty(), "the other host has not answered yet");
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let ended = self.loans.poll(now);
        done.extend(self.pass_on(ended, now));
        let before = done.len();
        self.origin.poll(now, done);
        self.loans.ends(&done[before..]);
    }

    fn stood_still(&mut self, time: Duration) {
        self.origin.stood_still(time);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let loans = self.loans.next_deadline();
        loans.into_iter().chain(self.origin.next_deadline()).min()
    }

    fn sources(&self) -> Sources {
        self.origin.sources()
    }

    fn fingerprint(&self) -> Option<u128> {
        self.origin.fingerprint()
    }

    fn condition(&self) -> Condition {
        self.origin.condition()
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.origin.error_number(token)
    }
}
