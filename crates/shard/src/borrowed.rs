//! The origin of a disk that has come from another host, before which a [`Borrower`] stands; and what is in the place
//! of the origin while the other host has it.
//!
//! The answers of the other host come by the shard's mailbox, and are taken in when the origin is polled next.

use block_io::{IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Token};
use borrowing::{Ask, Borrower, Ended, Run};
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
}

impl Loans {
    /// Asks have the numbers from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            borrower: Borrower::new(first),
            answers: Vec::new(),
        })))
    }

    /// The other host has these blocks.
    pub(crate) fn list(&self, runs: &[Run]) {
        let borrower = &mut self.0.borrow_mut().borrower;
        for run in runs {
            borrower.list(*run);
        }
    }

    /// What of a run may be borrowed.
    pub(crate) fn borrowable(&self, run: Run) -> Vec<Run> {
        self.0.borrow().borrower.borrowable(run)
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

    /// Nothing is borrowed any more.
    pub(crate) fn end(&self) {
        self.push(Answer::End);
    }

    fn push(&self, answer: Answer) {
        self.0.borrow_mut().answers.push(answer);
    }

    fn submit(&self, op: OriginOp, now: Instant) -> Ended {
        let mut ended = Ended::default();
        self.0.borrow_mut().borrower.submit(op, now, &mut ended);
        ended
    }

    /// Takes in what has come from the other host, and gives up what is late.
    fn poll(&self, now: Instant) -> Ended {
        let mut ended = Ended::default();
        let State { borrower, answers } = &mut *self.0.borrow_mut();
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

    fn next_deadline(&self) -> Option<Instant> {
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
        let ended = self.loans.submit(op, now);
        let done = self.pass_on(ended, now);
        debug_assert!(done.is_empty(), "the other host has not answered yet");
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let ended = self.loans.poll(now);
        done.extend(self.pass_on(ended, now));
        self.origin.poll(now, done);
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

/// In the place of a disk's origin while another host has it: that host answers reads, or nobody does.
pub(crate) struct OthersOrigin {
    geometry: OriginGeometry,
    loans: Loans,
    tell: AskTell,
    /// Ended, and not told yet.
    done: Vec<OriginDone>,
}

impl OthersOrigin {
    pub(crate) fn new(geometry: OriginGeometry, loans: Loans, tell: AskTell) -> Self {
        Self {
            geometry,
            loans,
            tell,
            done: Vec::new(),
        }
    }

    fn take_in(&mut self, ended: Ended) {
        self.done.extend(ended.done);
        let failed = ended.origin.into_iter();
        self.done
            .extend(failed.map(|op| end(op, Err(IoError::Failed))));
        for ask in ended.asks {
            (self.tell)(ask);
        }
    }
}

fn end(op: OriginOp, result: Result<(), IoError>) -> OriginDone {
    OriginDone {
        token: op.token,
        buf: op.verb.into_buf(),
        result,
        volatile: false,
    }
}

impl Origin for OthersOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn grow(&mut self, _size: Bytes) -> Result<(), IoError> {
        Err(IoError::NotPermitted)
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        match op.verb {
            OriginVerb::Read { .. } => {
                let ended = self.loans.submit(op, now);
                self.take_in(ended);
            }
            // The other host has done it.
            OriginVerb::Discard { .. } | OriginVerb::Flush => self.done.push(end(op, Ok(()))),
            OriginVerb::Write { .. } | OriginVerb::WriteZeroes { .. } => {
                self.done.push(end(op, Err(IoError::NotPermitted)));
            }
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let ended = self.loans.poll(now);
        self.take_in(ended);
        done.append(&mut self.done);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let done = (!self.done.is_empty()).then_some(Instant::ZERO);
        done.or_else(|| self.loans.next_deadline())
    }

    fn sources(&self) -> Sources {
        Sources::new()
    }

    fn fingerprint(&self) -> Option<u128> {
        None
    }
}
