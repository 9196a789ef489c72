//! What of a log goes to the origin next.

use super::Destage;
use super::batch::Batch;
use super::plan::{Piece, pieces_of, runs_of};
use crate::dirty::erased::Erased;
use crate::dirty::log::DirtyLog;
use crate::guard::{Guard, holds};
use crate::limits::DESTAGE_BATCH_RECORDS;
use units::{BlockIndex, Set};

impl Destage {
    /// The next records of an interval, in the order of the log.
    pub(super) fn next_in_order(&mut self, log: &DirtyLog, wanted: u64) -> Option<Batch> {
        let from = self.loaded_to.max(log.base());
        if from >= wanted {
            return None;
        }
        let (end, ended) = if holds(Guard::IntervalOrder) {
            log.interval_end(from)
        } else {
            (log.end(), false)
        };
        let to = end.min(wanted).min(from + DESTAGE_BATCH_RECORDS);
        let pieces = pieces_of(log.records(from, to));
        self.loaded_to = to;
        Some(self.batch(to, ended && to == end, pieces))
    }

    /// What is newest of the log, the longest runs first; of these blocks only, if they are said.
    pub(super) fn next_in_any_order(
        &mut self,
        log: &DirtyLog,
        wanted: u64,
        only: Option<&Erased>,
    ) -> Option<Batch> {
        // One at a time: the next could have the same blocks.
        if !self.is_idle() || wanted == 0 || log.is_empty() {
            return None;
        }
        let (pieces, some) = match erasures_of(log, wanted, only) {
            (pieces, some) if !pieces.is_empty() => (pieces, some),
            _ => self.longest_runs(log, wanted, only),
        };
        if pieces.is_empty() {
            return None;
        }
        let mut batch = self.batch(log.end(), true, pieces);
        batch.some = Some(some);
        Some(batch)
    }

    fn longest_runs(
        &mut self,
        log: &DirtyLog,
        wanted: u64,
        only: Option<&Erased>,
    ) -> (Vec<Piece>, Vec<u64>) {
        let counts = |block: BlockIndex, number: u64| {
            number < wanted && only.is_none_or(|only| only.overlaps(block, 1))
        };
        let (mut pieces, mut some) = (Vec::new(), Vec::new());
        while (some.len() as u64) < DESTAGE_BATCH_RECORDS {
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

    fn batch(&mut self, to: u64, ends: bool, pieces: Vec<Piece>) -> Batch {
        self.batch_next += 1;
        Batch::new(self.batch_next, to, ends, pieces)
    }
}

/// Every erased range that counts, and the records that erased them; of a record all ranges or none.
fn erasures_of(log: &DirtyLog, wanted: u64, only: Option<&Erased>) -> (Vec<Piece>, Vec<u64>) {
    let (mut pieces, mut some) = (Vec::new(), Vec::new());
    let concerns = |first, blocks| only.is_none_or(|only| only.overlaps(first, blocks));
    let concerned: Set<u64> = log
        .erased_ranges()
        .filter(|(first, blocks, number)| *number < wanted && concerns(*first, *blocks))
        .map(|(_, _, number)| number)
        .collect();
    for (first, blocks, number) in log.erased_ranges() {
        if !concerned.contains(&number) {
            continue;
        }
        if let crate::dirty::log::What::Erasure(erasure) = log.record(number).what {
            let part = super::plan::erasure_of(first, blocks, erasure.kind);
            pieces.push(Piece::Erasure(part));
            some.push(number);
        }
    }
    some.sort_unstable();
    some.dedup();
    (pieces, some)
}
