//! The state of the move: the daemon's machines, what is under way between the hosts, what it came to.

use crate::outcome::Outcome;
use crate::part::Part;
use crate::puller::Puller;
use crate::setup::Setup;
use crate::versions::page;
use crate::vm::Request;
use block_io::{BufPool, OriginOp, OriginVerb, Slice, Token};
use borrowing::{Borrower, Changes, Ended, LOAN_TIME_MAX, Run};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant, Offset};

const DISK: DiskSlot = DiskSlot::new(0);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The move begins.
    Begin,
    /// The other host asks what has been changed.
    Stale,
    /// The other host goes through the list again.
    Round,
    /// The VM stops.
    Stop,
    /// The stopped VM has no request under way.
    Settled,
    /// More may be copied.
    Pump,
    /// A loan may be late.
    Late,
    /// The VM goes on at the other host.
    Resume,
}

/// What has come from the other host, or from the origin.
pub(crate) enum Told {
    /// The versions of the blocks of some loans, from the first on.
    Lent(Vec<(u64, Vec<u32>)>),
    /// A block that the origin lacks.
    Owed(Wanted, u32, u32),
    /// What is cached, the newest first.
    Listed(Vec<u32>),
    /// What has been changed; there is no more to tell.
    Changed(Vec<Run>, bool),
    /// A dirty block is at the origin.
    Drained(u32, u32),
    /// A dirty block, and what its host had learnt when it left.
    Shipped(u32, u32, u32),
    /// Blocks of the origin that a round asked for, with what their host had learnt then.
    Copied(u64, Vec<(u32, u32)>),
    /// So many blocks of a round are in the cache.
    Kept(u64, usize),
    /// The addresses of what the origin lacks.
    Addresses,
}

/// Who wants a block of the other host.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A guest.
    Guest(Part),
    /// It is copied, in this round: the first block, and for each what its host had learnt.
    Copy(u64, u32, Vec<u32>),
}

/// How far the move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has not begun.
    Before,
    /// The VM runs where it was.
    Ahead,
    /// The VM is stopped.
    Stopped,
    /// What is dirty goes.
    Draining,
    /// Changes, and addresses of what is dirty, go.
    Telling,
    /// Blocks are copied that the VM waits for.
    Holding,
    /// The VM is about to go on.
    Resuming,
    /// It goes on at the other host.
    There,
}

/// Dirty blocks on their way.
#[derive(Default)]
pub(crate) struct Drain {
    pub(crate) queue: VecDeque<u32>,
    pub(crate) under_way: u32,
}

/// The state of the move.
pub(crate) struct Mover {
    pub(crate) phase: Phase,
    pub(crate) changes: Changes<(u32, u32)>,
    borrower: Option<Borrower>,
    wanted: BTreeMap<u64, Wanted>,
    tokens: u64,
    zeroes: Slice,
    pub(crate) pool: BufPool,
    pub(crate) puller: Option<Puller>,
    /// How often it has been begun to copy.
    pub(crate) round: u64,
    pub(crate) drain: Drain,
    /// Blocks that only the other host has.
    pub(crate) owed: BTreeSet<u32>,
    kept: Option<Request>,
    /// When more may be copied, and when a loan may be late.
    alarms: [Option<Instant>; 2],
    stopped_at: Instant,
    pub(crate) round_began: Instant,
    pub(crate) outcome: Outcome,
}

/// What a machine has decided.
#[derive(Default)]
pub(crate) struct Decided {
    /// These have the versions of their blocks.
    pub(crate) done: Vec<(Wanted, Vec<u32>)>,
    /// The origin is to be asked.
    pub(crate) origin: Vec<Wanted>,
    /// The lender is to be asked.
    pub(crate) asks: Vec<borrowing::Ask>,
}

impl Decided {
    /// What was decided next.
    pub(crate) fn add(&mut self, next: Self) {
        self.done.extend(next.done);
        self.origin.extend(next.origin);
        self.asks.extend(next.asks);
    }
}

impl Mover {
    pub(crate) fn new(setup: &Setup) -> Self {
        let pool = BufPool::new();
        Self {
            phase: Phase::Before,
            changes: Changes::default(),
            borrower: None,
            wanted: BTreeMap::new(),
            tokens: 0,
            zeroes: page(&pool, &[0]),
            pool,
            puller: None,
            round: 0,
            drain: Drain::default(),
            owed: BTreeSet::new(),
            kept: None,
            alarms: [None; 2],
            stopped_at: Instant::ZERO,
            round_began: Instant::ZERO,
            outcome: Outcome {
                vms: Vec::with_capacity(setup.vms.len()),
                paused: Duration::ZERO,
                copied: None,
                from_lender: 0,
                from_origin: 0,
                discarded: 0,
                dirty_at_stop: 0,
                stale: 0,
            },
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Whether the move has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.phase > Phase::Before
    }

    /// Whether the VM has stopped, or has been.
    pub(crate) fn has_stopped(&self) -> bool {
        self.phase >= Phase::Stopped
    }

    /// The VM stops.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.phase = Phase::Stopped;
        self.stopped_at = now;
    }

    /// How long ago it stopped.
    pub(crate) fn since_stop(&self, now: Instant) -> Duration {
        now.since(self.stopped_at)
    }

    /// When it stopped.
    pub(crate) fn stopped_at(&self) -> Instant {
        self.stopped_at
    }

    /// A request waits until the VM goes on.
    pub(crate) fn keep(&mut self, request: Request) {
        self.kept = Some(request);
    }

    /// The VM goes on: the request that waits.
    pub(crate) fn take_kept(&mut self) -> Option<Request> {
        self.kept.take()
    }

    /// The daemon's machine of reads that go to the other host begins, without a list.
    pub(crate) fn borrow(&mut self) {
        let first = self.tokens + 1;
        self.tokens += 1 << 40;
        self.borrower = Some(Borrower::new(first, LOAN_TIME_MAX));
    }

    /// Nothing is borrowed any more.
    pub(crate) fn end_borrowing(&mut self) -> Decided {
        let mut ended = Ended::default();
        if let Some(borrower) = &mut self.borrower {
            borrower.end(&mut ended);
        }
        self.decided(ended)
    }

    /// The other host has these.
    pub(crate) fn list(&mut self, blocks: &[u32]) {
        let mut sorted = blocks.to_vec();
        sorted.sort_unstable();
        if let Some(borrower) = &mut self.borrower {
            for run in runs(&sorted) {
                borrower.list(run);
            }
        }
    }

    /// Whether a block may be borrowed.
    pub(crate) fn may_borrow(&self, block: u32) -> bool {
        let run = run(block, 1);
        let borrower = self.borrower.as_ref();
        borrower.is_some_and(|borrower| !borrower.borrowable(run).is_empty())
    }

    /// Blocks are wanted that follow each other.
    pub(crate) fn read(&mut self, first: u32, count: u32, wanted: Wanted, now: Instant) -> Decided {
        let length = u64::from(count) * BLOCK_BYTES;
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let verb = OriginVerb::Read {
            offset: offset(first),
            length: Bytes::new(length),
            buf: self.pool.take(bytes),
        };
        self.tokens += 1;
        self.wanted.insert(self.tokens, wanted);
        self.submit(verb, now)
    }

    /// A guest's write begins at the host that borrows.
    pub(crate) fn written_there(&mut self, block: u32, now: Instant) {
        self.owed.remove(&block);
        if self.borrower.is_some() {
            self.tokens += 1;
            let verb = OriginVerb::Write {
                offset: offset(block),
                data: self.zeroes.clone(),
                fua: false,
            };
            self.submit(verb, now);
        }
    }

    fn submit(&mut self, verb: OriginVerb, now: Instant) -> Decided {
        let op = OriginOp {
            token: Token(self.tokens),
            disk: DISK,
            verb,
        };
        let mut ended = Ended::default();
        match &mut self.borrower {
            Some(borrower) => borrower.submit(op, now, &mut ended),
            None => ended.origin.push(op),
        }
        self.decided(ended)
    }

    /// The other host has answered.
    pub(crate) fn lent(&mut self, number: u64, versions: &[u32], now: Instant) -> Decided {
        let mut ended = Ended::default();
        if let Some(borrower) = &mut self.borrower {
            if versions.is_empty() {
                borrower.refused(number, &mut ended);
            } else {
                let bytes = page(&self.pool, versions);
                borrower.got(number, &bytes, now, &mut ended);
            }
        }
        self.decided(ended)
    }

    /// A loan may be late.
    pub(crate) fn tick(&mut self, now: Instant) -> Decided {
        let mut ended = Ended::default();
        if let Some(borrower) = &mut self.borrower {
            borrower.tick(now, &mut ended);
        }
        self.decided(ended)
    }

    /// When a loan is late next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.borrower.as_ref()?.next_deadline()
    }

    /// A step is due at a time. Whether it was not before.
    pub(crate) fn alarm(&mut self, step: Step, at: Instant) -> bool {
        let alarm = &mut self.alarms[usize::from(step == Step::Late)];
        let is_new = alarm.is_none_or(|before| at < before);
        if is_new {
            *alarm = Some(at);
        }
        is_new
    }

    /// A step that was due is taken.
    pub(crate) fn silence(&mut self, step: Step) {
        self.alarms[usize::from(step == Step::Late)] = None;
    }

    fn decided(&mut self, ended: Ended) -> Decided {
        let mut decided = Decided {
            asks: ended.asks,
            ..Decided::default()
        };
        for done in ended.done {
            if let Some(wanted) = self.wanted.remove(&done.token.0)
                && let Some(buf) = done.buf
            {
                let pages = buf.chunks(block_io::PAGE_BYTES);
                let versions = pages.map(crate::versions::version_of).collect();
                decided.done.push((wanted, versions));
            }
        }
        for op in ended.origin {
            // A write's goes there by itself.
            decided.origin.extend(self.wanted.remove(&op.token.0));
        }
        decided
    }
}

/// A run of blocks.
pub(crate) fn run(first: u32, count: u32) -> Run {
    Run {
        first: BlockIndex::new(first.into()),
        count,
    }
}

/// Where a block begins.
pub(crate) fn offset(block: u32) -> Offset {
    Offset::new(u64::from(block) * BLOCK_BYTES)
}

/// Blocks in order, as runs.
pub(crate) fn runs(blocks: &[u32]) -> Vec<Run> {
    let chunks = blocks.chunk_by(|one, next| one + 1 == *next);
    let count = |chunk: &[u32]| u32::try_from(chunk.len()).unwrap_or(u32::MAX);
    chunks.map(|chunk| run(chunk[0], count(chunk))).collect()
}

/// The blocks of a run.
pub(crate) fn blocks(run: Run) -> std::ops::Range<u32> {
    let first = u32::try_from(run.first.get()).unwrap_or(u32::MAX);
    first..first.saturating_add(run.count)
}
