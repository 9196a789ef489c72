//! What of a log goes to the origin next.

use crate::batch::{Batch, BatchId};
use crate::limits::BATCH_RECORDS;
use crate::plan::{Piece, erasure_of, pieces_of, runs_of};
use core_guards::{Guard, holds};
use dirty_log::{DirtyLog, Erased, RecordNumber, What};
use std::collections::VecDeque;
use units::{BlockIndex, Set};

/// In which order a log goes to its origin.
#[derive(Clone, Debug)]
pub enum Sequence {
    /// Interval after interval.
    InOrder,
    /// Whatever is newest, the longest runs first; of these blocks only, if they are said.
    AnyOrder {
        /// Which blocks.
        only: Option<Erased>,
    },
}

/// Chooses batches. See the module's header.
#[derive(Debug)]
pub(crate) struct Chooser {
    /// The latest batch; before the first one, the id behind which they come.
    latest: BatchId,
    /// Records before this number are in a batch or behind it.
    loaded_to: RecordNumber,
    /// In any order: what comes next.
    planned: VecDeque<Piece>,
}

impl Chooser {
    /// Its batches come behind this one.
    pub(crate) fn new(latest: BatchId) -> Self {
        Self {
            latest,
            loaded_to: RecordNumber::FIRST,
            planned: VecDeque::new(),
        }
    }

    /// The latest batch.
    pub(crate) fn latest(&self) -> BatchId {
        self.latest
    }

    /// Records before this number are in a batch or behind it.
    pub(crate) fn loaded_to(&self) -> RecordNumber {
        self.loaded_to
    }

    /// The oldest record comes next.
    pub(crate) fn begin_anew(&mut self) {
        self.loaded_to = RecordNumber::FIRST;
        self.planned.clear();
    }

    /// The next records of an interval, in the order of the log.
    pub(crate) fn next_in_order<P>(
        &mut self,
        log: &DirtyLog,
        wanted: RecordNumber,
    ) -> Option<Batch<P>> {
        let from = self.loaded_to.max(log.base());
        if from >= wanted {
            return None;
        }
        let (end, ended) = if holds(Guard::IntervalOrder) {
            log.interval_end(from)
        } else {
            (log.end(), false)
        };
        let to = end.min(wanted).min(from.advance(BATCH_RECORDS));
        let pieces = pieces_of(log.records(from, to));
        self.loaded_to = to;
        let ends = ended && to == end;
        Some(Batch::in_order(self.next_id(), to, ends, pieces))
    }

    /// What is newest of the log, the longest runs first; of these blocks only, if they are said.
    pub(crate) fn next_in_any_order<P>(
        &mut self,
        log: &DirtyLog,
        wanted: RecordNumber,
        only: Option<&Erased>,
    ) -> Option<Batch<P>> {
        if wanted == RecordNumber::FIRST || log.is_empty() {
            return None;
        }
        let (pieces, some) = match erasures_of(log, wanted, only) {
            (pieces, some) if !pieces.is_empty() => (pieces, some),
            _ => self.longest_runs(log, wanted, only),
        };
        if pieces.is_empty() {
            return None;
        }
        let id = self.next_id();
        Some(Batch::out_of_order(id, log.end(), some, pieces))
    }

    fn longest_runs(
        &mut self,
        log: &DirtyLog,
        wanted: RecordNumber,
        only: Option<&Erased>,
    ) -> (Vec<Piece>, Vec<RecordNumber>) {
        let counts = |block: BlockIndex, number: RecordNumber| {
            number < wanted && only.is_none_or(|only| only.overlaps(block, 1))
        };
        let (mut pieces, mut some) = (Vec::new(), Vec::new());
        while (some.len() as u64) < BATCH_RECORDS {
            if self.planned.is_empty() {
                if !some.is_empty() {
                    break;
                }
                let newest = log
                    .newest()
                    .filter(|(block, number)| counts(*block, *number));
                let mut runs = runs_of(newest.collect());
                runs.sort_by_key(|run| std::cmp::Reverse(run.blocks()));
                self.planned = runs.into();
            }
            let Some(Piece::Data { first, numbers }) = self.planned.pop_front() else {
                break;
            };
            // Some may have been written again since they were planned.
            let blocks = (0..).map(|i| first.advance(i)).zip(numbers);
            let current = blocks.filter(|(block, number)| {
                counts(*block, *number) && log.is_newest(*block, *number)
            });
            let current: Vec<_> = current.collect();
            some.extend(current.iter().map(|(_, number)| *number));
            pieces.extend(runs_of(current));
        }
        (pieces, some)
    }

    fn next_id(&mut self) -> BatchId {
        self.latest = self.latest.next();
        self.latest
    }
}

/// Every erased range that counts, and the records that erased them; of a record all ranges or none.
fn erasures_of(
    log: &DirtyLog,
    wanted: RecordNumber,
    only: Option<&Erased>,
) -> (Vec<Piece>, Vec<RecordNumber>) {
    let (mut pieces, mut some) = (Vec::new(), Vec::new());
    let concerns = |first, blocks| only.is_none_or(|only| only.overlaps(first, blocks));
    let concerned: Set<RecordNumber> = log
        .erased_ranges()
        .filter(|(first, blocks, number)| *number < wanted && concerns(*first, *blocks))
        .map(|(_, _, number)| number)
        .collect();
    for (first, blocks, number) in log.erased_ranges() {
        if !concerned.contains(&number) {
            continue;
        }
        if let What::Erasure(erasure) = log.record(number).what {
            let part = erasure_of(first, blocks, erasure.kind);
            pieces.push(Piece::Erasure(part));
            some.push(number);
        }
    }
    some.sort_unstable();
    some.dedup();
    (pieces, some)
}
