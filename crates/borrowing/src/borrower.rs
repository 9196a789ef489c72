//! What stands before the origin of a disk that has come from another host.
//!
//! Invariants:
//! - A block that was changed here since the disk came is never borrowed again, whenever it is listed.
//! - An operation ends once: at the lender or at the origin.
//! - A lender that is late is not asked for a while: one that hangs costs few reads their time.
//! - No two asks of one process have the same number: a late answer is nobody's.

use crate::blocks::Blocks;
use crate::guard::{Guard, holds};
use crate::run::Run;
use block_io::{OriginDone, OriginOp, OriginVerb, PAGE_BYTES};
use units::{BLOCK_BYTES, BlockIndex, Bytes, Duration, Instant, Offset};

/// How long the lender has for an answer before the origin is asked, unless an operator says otherwise.
pub const LOAN_TIME_MAX: Duration = Duration::from_millis(200);
/// How long nothing is asked of a lender that was late.
pub const LATE_REST: Duration = Duration::from_secs(5);
/// Most blocks of one ask.
pub const LOAN_BLOCKS_MAX: u32 = 256;

/// Which reads the lender is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// All whose blocks it has; what they bring is kept.
    #[default]
    Keeps,
    /// The same, and nothing of it is kept.
    Passes,
    /// Those of blocks that are being pulled; the origin answers all others.
    Pulls,
}

/// What the lender is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names the ask in [`Borrower::got`] and [`Borrower::refused`].
    pub number: u64,
    /// Which blocks; fewer may come, from the first on.
    pub run: Run,
}

/// A read that waits for the lender.
struct Loan {
    number: u64,
    op: OriginOp,
    run: Run,
    /// How many of its blocks have come.
    got: u32,
    until: Instant,
}

/// What has become of operations.
#[derive(Debug, Default)]
pub struct Ended {
    /// These have their bytes.
    pub done: Vec<OriginDone>,
    /// The origin is to be asked these.
    pub origin: Vec<OriginOp>,
    /// The lender is to be asked these.
    pub asks: Vec<Ask>,
}

/// Decides whether an operation of a disk's origin goes there or to the lender.
pub struct Borrower {
    next: u64,
    /// How long the lender has for an answer.
    patience: Duration,
    /// Whether the lender can be asked.
    is_linked: bool,
    is_over: bool,
    /// The lender was late, and is not asked before then.
    rests_until: Instant,
    listed: Blocks,
    changed: Blocks,
    manner: Manner,
    /// Asked for by [`Borrower::pull`], and not read since.
    pulled: Blocks,
    loans: Vec<Loan>,
}

impl Borrower {
    /// For a disk that has just come; nothing is listed yet. Its asks have the numbers from `first` on, and the lender
    /// has so long for an answer before the origin is asked.
    pub fn new(first: u64, patience: Duration) -> Self {
        Self {
            next: first,
            patience,
            is_linked: true,
            is_over: false,
            rests_until: Instant::ZERO,
            listed: Blocks::default(),
            changed: Blocks::default(),
            manner: Manner::default(),
            pulled: Blocks::default(),
            loans: Vec::new(),
        }
    }

    /// From now on the lender is asked so.
    pub fn set_manner(&mut self, manner: Manner) {
        self.manner = manner;
    }

    /// The lender has these blocks.
    pub fn list(&mut self, run: Run) {
        if self.is_over {
            return;
        }
        let count = u64::from(run.count);
        self.listed.insert_but(run.first, count, &self.changed);
    }

    /// How many blocks may be borrowed.
    pub fn listed(&self) -> u64 {
        self.listed.count()
    }

    /// The parts of a run whose blocks may be borrowed.
    pub fn borrowable(&self, run: Run) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for i in 0..run.count {
            let block = run.first.advance(u64::from(i));
            if !self.listed.contains(block) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.first.advance(u64::from(last.count)) == block => last.count += 1,
                _ => runs.push(Run {
                    first: block,
                    count: 1,
                }),
            }
        }
        runs
    }

    /// The same, and they are about to be read, to be in the cache.
    pub fn pull(&mut self, run: Run) -> Vec<Run> {
        let runs = self.borrowable(run);
        if self.manner == Manner::Pulls {
            for run in &runs {
                self.pulled.insert(run.first, u64::from(run.count));
            }
        }
        runs
    }

    /// Takes an operation of the origin. What it becomes is in `ended`.
    pub fn submit(&mut self, op: OriginOp, now: Instant, ended: &mut Ended) {
        match &op.verb {
            OriginVerb::Read { offset, length, .. } => {
                let run = whole_blocks(*offset, *length);
                let run =
                    run.filter(|run| self.listed.contains_all(run.first, u64::from(run.count)));
                let asks = self.is_linked && now >= self.rests_until;
                let Some(run) = run.filter(|run| asks && self.may_ask(*run)) else {
                    return ended.origin.push(op);
                };
                let loan = Loan {
                    number: self.number(),
                    op,
                    run,
                    got: 0,
                    until: now + self.patience,
                };
                ended.asks.push(loan.ask());
                self.loans.push(loan);
            }
            OriginVerb::Write { offset, data, .. } => {
                self.change(*offset, Bytes::new(data.len() as u64));
                ended.origin.push(op);
            }
            OriginVerb::Discard { offset, length }
            | OriginVerb::WriteZeroes { offset, length, .. } => {
                self.change(*offset, *length);
                ended.origin.push(op);
            }
            OriginVerb::Flush => ended.origin.push(op),
        }
    }

    /// Whether the lender is asked for this run, all of which it has.
    fn may_ask(&mut self, Run { first, count }: Run) -> bool {
        let count = u64::from(count);
        if self.manner != Manner::Pulls {
            return true;
        }
        let may = self.pulled.contains_all(first, count);
        self.pulled.remove(first, count);
        may
    }

    /// The lender has answered an ask with the bytes of as many blocks as it could.
    pub fn got(&mut self, number: u64, bytes: &[u8], now: Instant, ended: &mut Ended) {
        let Some(at) = self.position(number) else {
            return;
        };
        let loan = &mut self.loans[at];
        let start = loan.got as usize * PAGE_BYTES;
        let count = u32::try_from(bytes.len() / PAGE_BYTES).unwrap_or(u32::MAX);
        let wanted = loan.run.count - loan.got;
        let is_right = (1..=wanted).contains(&count) && bytes.len().is_multiple_of(PAGE_BYTES);
        let OriginVerb::Read { buf, .. } = &mut loan.op.verb else {
            return;
        };
        if !is_right {
            return self.refused(number, ended);
        }
        buf[start..start + bytes.len()].copy_from_slice(bytes);
        loan.got += count;
        if loan.got == loan.run.count {
            let op = self.loans.swap_remove(at).op;
            ended.done.push(OriginDone {
                token: op.token,
                buf: op.verb.into_buf(),
                result: Ok(()),
                volatile: false,
                passes: self.manner == Manner::Passes,
            });
            return;
        }
        let number = self.number();
        let loan = &mut self.loans[at];
        loan.number = number;
        loan.until = now + self.patience;
        ended.asks.push(loan.ask());
    }

    /// The lender does not have what was asked for: it is not asked for that again.
    pub fn refused(&mut self, number: u64, ended: &mut Ended) {
        let Some(at) = self.position(number) else {
            return;
        };
        let Loan { op, run, got, .. } = self.loans.swap_remove(at);
        self.listed.remove(run.first.advance(u64::from(got)), 1);
        ended.origin.push(op);
    }

    /// Passes reads whose lender is late to the origin.
    pub fn tick(&mut self, now: Instant, ended: &mut Ended) {
        if !holds(Guard::LateGoesToOrigin) {
            return;
        }
        let before = self.loans.len();
        let late = self.loans.extract_if(.., |loan| loan.until <= now);
        ended.origin.extend(late.map(|loan| loan.op));
        if self.loans.len() < before {
            self.rests_until = now + LATE_REST;
        }
    }

    /// When [`Borrower::tick`] has work next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.loans.iter().map(|loan| loan.until).min()
    }

    /// The lender can be asked, or cannot: then the origin is.
    pub fn set_linked(&mut self, is_linked: bool, ended: &mut Ended) {
        self.is_linked = is_linked && !self.is_over;
        self.rests_until = Instant::ZERO;
        if !is_linked && holds(Guard::LateGoesToOrigin) {
            ended
                .origin
                .extend(self.loans.drain(..).map(|loan| loan.op));
        }
    }

    /// The lender, which can be asked, is asked anew; nothing is listed yet. For what is never changed here, since what was
    /// changed before is not known any more.
    pub fn begin(&mut self) {
        self.is_over = false;
        self.is_linked = true;
        self.rests_until = Instant::ZERO;
        self.listed = Blocks::default();
    }

    /// Nothing is borrowed any more.
    pub fn end(&mut self, ended: &mut Ended) {
        self.set_linked(false, ended);
        self.is_over = true;
        self.listed = Blocks::default();
        self.changed = Blocks::default();
        self.pulled = Blocks::default();
    }

    fn change(&mut self, offset: Offset, length: Bytes) {
        if self.is_over || length.is_zero() || !holds(Guard::ChangedIsNotBorrowed) {
            return;
        }
        let first = BlockIndex::containing(offset);
        let last = BlockIndex::containing(Offset::new(offset.get() + length.get() - 1));
        let count = last.get() - first.get() + 1;
        self.changed.insert(first, count);
        self.listed.remove(first, count);
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += u64::from(holds(Guard::LoansAreNumbered));
        number
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.loans.iter().position(|loan| loan.number == number)
    }
}

impl Loan {
    fn ask(&self) -> Ask {
        let Run { first, count } = self.run;
        let run = Run {
            first: first.advance(u64::from(self.got)),
            count: (count - self.got).min(LOAN_BLOCKS_MAX),
        };
        Ask {
            number: self.number,
            run,
        }
    }
}

/// The blocks that a range consists of, if it does.
fn whole_blocks(offset: Offset, length: Bytes) -> Option<Run> {
    let is_whole = offset.get().is_multiple_of(BLOCK_BYTES) && length.is_multiple_of(BLOCK_BYTES);
    let count = u32::try_from(length.get() / BLOCK_BYTES).ok()?;
    let first = BlockIndex::containing(offset);
    (is_whole && count > 0).then_some(Run { first, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::{BufPool, PAGE_BYTES, Token};
    use units::DiskSlot;

    const FIRST: Run = Run {
        first: BlockIndex::new(0),
        count: 1,
    };

    /// One block is listed, and read.
    fn read(borrower: &mut Borrower, pool: &BufPool, now: Instant) -> Ended {
        let verb = OriginVerb::Read {
            offset: Offset::new(0),
            length: Bytes::new(BLOCK_BYTES),
            buf: pool.take(PAGE_BYTES),
        };
        let op = OriginOp {
            token: Token(1),
            disk: DiskSlot::new(0),
            verb,
        };
        let mut ended = Ended::default();
        borrower.submit(op, now, &mut ended);
        ended
    }

    #[test]
    fn a_lender_that_was_late_is_asked_again_after_a_rest_or_in_a_new_session() {
        let (pool, mut borrower) = (BufPool::new(), Borrower::new(1, LOAN_TIME_MAX));
        borrower.list(FIRST);
        let begun = Instant::ZERO;
        assert_eq!(read(&mut borrower, &pool, begun).asks.len(), 1);
        let late = begun + LOAN_TIME_MAX;
        let mut ended = Ended::default();
        borrower.tick(late, &mut ended);
        assert_eq!(ended.origin.len(), 1);
        assert_eq!(read(&mut borrower, &pool, late).origin.len(), 1);
        let rested = late + LATE_REST;
        assert_eq!(read(&mut borrower, &pool, rested).asks.len(), 1);
        borrower.tick(rested + LOAN_TIME_MAX, &mut ended);
        borrower.set_linked(false, &mut ended);
        borrower.set_linked(true, &mut ended);
        let again = read(&mut borrower, &pool, rested + LOAN_TIME_MAX);
        assert_eq!(again.asks.len(), 1);
    }

    #[test]
    fn what_has_ended_borrows_when_it_begins_anew() {
        let (pool, mut borrower) = (BufPool::new(), Borrower::new(1, LOAN_TIME_MAX));
        let mut ended = Ended::default();
        borrower.list(FIRST);
        borrower.end(&mut ended);
        borrower.list(FIRST);
        assert_eq!(read(&mut borrower, &pool, Instant::ZERO).origin.len(), 1);
        borrower.begin();
        assert_eq!(borrower.listed(), 0);
        borrower.list(FIRST);
        assert_eq!(read(&mut borrower, &pool, Instant::ZERO).asks.len(), 1);
    }

    #[test]
    fn where_only_pulls_are_asked_the_lender_answers_each_pull_once() {
        let (pool, mut borrower) = (BufPool::new(), Borrower::new(1, LOAN_TIME_MAX));
        borrower.set_manner(Manner::Pulls);
        borrower.list(FIRST);
        let now = Instant::ZERO;
        assert_eq!(read(&mut borrower, &pool, now).origin.len(), 1);
        assert_eq!(borrower.pull(FIRST), [FIRST]);
        assert_eq!(read(&mut borrower, &pool, now).asks.len(), 1);
        assert_eq!(read(&mut borrower, &pool, now).origin.len(), 1);
    }

    #[test]
    fn what_passes_is_told_from_what_is_kept() {
        for (manner, passes) in [(Manner::Keeps, false), (Manner::Passes, true)] {
            let (pool, mut borrower) = (BufPool::new(), Borrower::new(1, LOAN_TIME_MAX));
            borrower.set_manner(manner);
            borrower.list(FIRST);
            let asks = read(&mut borrower, &pool, Instant::ZERO).asks;
            let mut ended = Ended::default();
            borrower.got(asks[0].number, &[7; PAGE_BYTES], Instant::ZERO, &mut ended);
            assert_eq!(ended.done[0].passes, passes, "{manner:?}");
        }
    }
}
