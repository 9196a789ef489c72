//! The records of a disk's dirty log, in memory: which the origin lacks, which of them count, and
//! where one interval ends and the next begins.
//!
//! ```text
//!  watermark   base                                            next number
//!      ──┼──────┼──────┬──────────┬───────────┬──────────────────┤
//!               │ X Y  │ X Z      │ erase 8+9 │ Y                │
//!               └─ interval ──────┴───────────┴─ not ended yet ──┘
//! ```
//!
//! Records have consecutive *numbers*, and positions on flash that rise with them. Those up to the
//! watermark are gone from here. For each block the newest record counts: what a read gets, and
//! what is trusted when the origin has it. Older ones stay until the watermark passes them, since an
//! interval is brought to the origin as it was.
//!
//! In any order ([`DirtyLog::settle_some`]) records in the middle may be settled first. As long as
//! such a *hole* is there, older records of the blocks in it must not go to the origin any more, so
//! the rest of the log up to it is settled out of order too.
//!
//! Pure: no bytes, no I/O; positions and slots come from outside.

use crate::erased::Erased;
use crate::number::RecordNumber;
use crate::record::{Found, Record, What};
use crate::records::{Latest, Records};
use core_guards::{Guard, holds};
use flash_format::{Erasure, Position};
use std::collections::VecDeque;
use units::{BLOCK_BYTES, BlockIndex, Bytes, Duration, FlashSlot, Instant};

/// Notes of when records were accepted: 16 KiB.
const ACCEPTED_MAX: usize = 1024;

/// The dirty log of a disk. See the module's header.
#[derive(Clone, Debug)]
pub struct DirtyLog {
    watermark: Position,
    records: Records,
    /// By block its newest record, if that has bytes.
    newest: Latest,
    erased: Erased,
    /// When records from a number on were accepted, at the latest.
    accepted: VecDeque<(RecordNumber, Instant)>,
    /// How far apart these notes are at least.
    apart: Duration,
    /// Numbers below this may have been settled before older ones.
    holes_end: RecordNumber,
    /// By block the newest record with bytes that was settled before older ones.
    settled: Latest,
}

impl DirtyLog {
    /// An empty log: the origin has everything up to the watermark.
    pub fn new(watermark: Position) -> Self {
        Self {
            watermark,
            records: Records::default(),
            newest: Latest::default(),
            erased: Erased::default(),
            accepted: VecDeque::new(),
            apart: Duration::ZERO,
            holes_end: RecordNumber::FIRST,
            settled: Latest::default(),
        }
    }

    /// The origin has everything up to here durably.
    pub fn watermark(&self) -> Position {
        self.watermark
    }

    /// Where the latest record is; the watermark without one.
    pub fn last(&self) -> Position {
        self.records.last().unwrap_or(self.watermark)
    }

    /// Whether the origin has everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of the oldest record.
    pub fn base(&self) -> RecordNumber {
        self.records.base()
    }

    /// The number that the next record gets.
    pub fn end(&self) -> RecordNumber {
        self.records.end()
    }

    /// Its length: a block for each record.
    pub fn logged(&self) -> Bytes {
        Bytes::new(self.records.len() * BLOCK_BYTES)
    }

    /// Bytes that the origin lacks, erased ones apart.
    pub fn distinct(&self) -> Bytes {
        Bytes::new(self.newest.len() * BLOCK_BYTES)
    }

    /// Erased bytes of which the origin does not know.
    pub fn erased(&self) -> Bytes {
        Bytes::new(self.erased.blocks() * BLOCK_BYTES)
    }

    /// When its oldest record was accepted, or a little earlier.
    pub fn oldest(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        self.accepted.front().map(|(_, at)| *at)
    }

    /// Intervals that the origin lacks, or lacks a part of.
    pub fn intervals(&self) -> u64 {
        u64::from(!self.is_empty()) + self.records.begun()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.records.bytes()
            + self.newest.bytes()
            + self.settled.bytes()
            + self.erased.bytes()
            + self.accepted.capacity() * size_of::<(RecordNumber, Instant)>()
    }

    /// A record is accepted, behind all others. Returns its number.
    ///
    /// # Panics
    /// If its position is not behind that of the record before it.
    pub fn push(&mut self, record: Record, now: Instant) -> RecordNumber {
        assert!(record.at > self.last(), "positions of a log rise");
        let number = self.end();
        self.records.push(record);
        match record.what {
            What::Data { block, .. } => {
                let first = self.newest.get(&self.records, block).is_none();
                if first || holds(Guard::LaterRecordWins) {
                    self.newest.insert(&self.records, block, number);
                }
                if !self.erased.is_empty() {
                    self.erased.carve(block, 1);
                }
            }
            What::Erasure(erasure) => {
                let (first, blocks) = (erasure.first, u64::from(erasure.blocks));
                self.forget_blocks(first, blocks);
                self.erased.insert(first, blocks, number);
            }
        }
        self.mark(number, now);
        number
    }

    /// Notes when a record was accepted. If there are too many notes they become sparser: a record
    /// passes for as old as the noted one before it.
    fn mark(&mut self, number: RecordNumber, now: Instant) {
        let Some((_, latest)) = self.accepted.back().copied() else {
            self.accepted.push_back((number, now));
            return;
        };
        if latest == now || now < latest + self.apart {
            return;
        }
        if self.accepted.len() >= ACCEPTED_MAX {
            let oldest = self.accepted.front().map_or(now, |(_, at)| *at);
            // Half of them at most will be left.
            self.apart =
                Duration::from_nanos(now.since(oldest).as_nanos() / (ACCEPTED_MAX as u64 / 2) + 1);
            let (mut kept, apart) = (None, self.apart);
            self.accepted.retain(|(_, at)| {
                let stays = kept.is_none_or(|kept| *at >= kept + apart);
                kept = if stays { Some(*at) } else { kept };
                stays
            });
        }
        self.accepted.push_back((number, now));
    }

    fn forget_blocks(&mut self, first: BlockIndex, blocks: u64) {
        let end = first.get() + blocks;
        if blocks > self.newest.len() {
            self.newest
                .retain(&self.records, |block| block < first || block.get() >= end);
        } else {
            for block in first.get()..end {
                self.newest.remove(&self.records, BlockIndex::new(block));
            }
        }
    }

    /// What comes next belongs to another interval, if anything has come since the last one ended.
    pub fn end_interval(&mut self) {
        self.records.end_interval();
    }

    /// Whether the next record begins an interval.
    pub fn is_at_begin(&self) -> bool {
        self.is_empty() || self.records.has_ended()
    }

    /// The number behind the last record of the interval in which a record lies, and whether that has
    /// ended.
    pub fn interval_end(&self, number: RecordNumber) -> (RecordNumber, bool) {
        let end = self.records.next_begin(number);
        end.map_or((self.end(), false), |end| (end, true))
    }

    /// Whether an interval begins with this number.
    pub fn begins_at(&self, number: RecordNumber) -> bool {
        self.records.begins_at(number)
    }

    /// What it says of a block.
    #[inline]
    pub fn find(&self, block: BlockIndex) -> Found {
        if self.records.is_empty() {
            return Found::Clean;
        }
        if let Some(number) = self.newest.get(&self.records, block)
            && let Some((_, slot)) = self.records.data(number)
        {
            return Found::Dirty(slot);
        }
        let erased = self.erased.end_of(block);
        erased.map_or(Found::Clean, Found::Erased)
    }

    /// Whether the newest record of a block that it may have is this one.
    pub fn is_newest(&self, block: BlockIndex, number: RecordNumber) -> bool {
        self.newest.get(&self.records, block) == Some(number)
    }

    /// A record by its number.
    ///
    /// # Panics
    /// If it is gone or has not come.
    pub fn record(&self, number: RecordNumber) -> Record {
        self.records.get(number)
    }

    /// Records in their order, with their numbers.
    pub fn records(
        &self,
        from: RecordNumber,
        to: RecordNumber,
    ) -> impl Iterator<Item = (RecordNumber, Record)> {
        let numbers = from.up_to(to);
        numbers.map(|number| (number, self.record(number)))
    }

    /// The newest record of each dirty block, in no order.
    pub fn newest(&self) -> impl Iterator<Item = (BlockIndex, RecordNumber)> {
        self.newest.iter(&self.records)
    }

    /// Erased ranges that count: first block, blocks, and the number of the record.
    pub fn erased_ranges(&self) -> impl Iterator<Item = (BlockIndex, u64, RecordNumber)> {
        self.erased.numbered()
    }

    /// The first number from which on nothing was settled before what is older.
    pub fn holes_end(&self) -> RecordNumber {
        self.holes_end.max(self.base())
    }

    /// Every block of which something may have been settled before what is older: what has to go to the
    /// origin before the rest may go in its order.
    pub fn blocks_before_holes_end(&self) -> Erased {
        let mut blocks = Erased::default();
        for (number, record) in self.records(self.base(), self.holes_end()) {
            let (first, count) = match record.what {
                What::Data { block, .. } => (block, 1),
                What::Erasure(erasure) => (erasure.first, u64::from(erasure.blocks)),
            };
            blocks.insert(first, count, number);
        }
        blocks
    }

    /// The origin has every record before `to` durably. `clean` gets each block whose newest record
    /// was among them, and its slot.
    ///
    /// # Panics
    /// If `to` is beyond the log's end.
    pub fn settle(&mut self, to: RecordNumber, mut clean: impl FnMut(BlockIndex, FlashSlot)) {
        assert!(to <= self.end(), "only what was accepted is settled");
        while self.base() < to {
            let number = self.base();
            match self.record(number).what {
                What::Data { block, slot } => {
                    if self.is_newest(block, number) {
                        self.newest.remove(&self.records, block);
                        clean(block, slot);
                    }
                }
                What::Erasure(Erasure { first, blocks, .. }) => {
                    self.erased.settle(first, blocks.into(), number);
                }
            }
            self.pass();
        }
        self.forget_marks();
    }

    /// The origin has these records durably, whatever came before them. `clean` gets each block whose
    /// newest record was among them. The watermark goes as far as the origin has everything, or
    /// something newer: not past a record that was superseded by one that the origin lacks, since that
    /// one may be lost.
    pub fn settle_some(
        &mut self,
        numbers: impl Iterator<Item = RecordNumber>,
        mut clean: impl FnMut(BlockIndex, FlashSlot),
    ) {
        for number in numbers {
            match self.record(number).what {
                What::Data { block, slot } => {
                    if self.is_newest(block, number) {
                        self.newest.remove(&self.records, block);
                        clean(block, slot);
                    }
                    let before = self.settled.get(&self.records, block);
                    if before.is_none_or(|before| before < number) {
                        self.settled.insert(&self.records, block, number);
                    }
                }
                What::Erasure(Erasure { first, blocks, .. }) => {
                    self.erased.settle(first, blocks.into(), number);
                }
            }
            self.holes_end = self.holes_end.max(number.next());
        }
        while !self.is_empty() {
            let (number, what) = (self.base(), self.record(self.base()).what);
            if self.is_lacked(number, what) && !self.may_pass(number, what) {
                break;
            }
            self.pass();
        }
        self.forget_marks();
    }

    /// The watermark passes the oldest record.
    fn pass(&mut self) {
        let number = self.base();
        if let What::Data { block, .. } = self.record(number).what
            && self.settled.get(&self.records, block) == Some(number)
        {
            self.settled.remove(&self.records, block);
        }
        if let Some((_, record)) = self.records.pop() {
            self.watermark = record.at;
        }
    }

    /// Whether the origin lacks what a record did, and whatever was done to its blocks later.
    fn is_lacked(&self, number: RecordNumber, what: What) -> bool {
        let at = |block| self.settled.get(&self.records, block);
        let settled = |block| at(block).is_some_and(|at| at >= number);
        let (first, blocks) = match what {
            What::Data { block, .. } if settled(block) => return false,
            What::Data { block, .. } => (block, 1),
            What::Erasure(erasure) => (erasure.first, u64::from(erasure.blocks)),
        };
        let end = first.get() + blocks;
        let written = if blocks > self.newest.len() {
            let mut newest = self.newest();
            newest.any(|(block, _)| block >= first && block.get() < end && !settled(block))
        } else {
            let is_newest = |block| self.newest.get(&self.records, block).is_some();
            let mut within = (first.get()..end).map(BlockIndex::new);
            within.any(|block| is_newest(block) && !settled(block))
        };
        written || self.erased.overlaps(first, blocks)
    }

    /// Whether a record is passed although the origin has nothing of it: never.
    fn may_pass(&self, number: RecordNumber, what: What) -> bool {
        let superseded = match what {
            What::Data { block, .. } => !self.is_newest(block, number),
            What::Erasure(_) => false,
        };
        superseded && !holds(Guard::SupersededWaits)
    }

    fn forget_marks(&mut self) {
        let base = self.base();
        while self
            .accepted
            .get(1)
            .is_some_and(|(number, _)| *number <= base)
        {
            self.accepted.pop_front();
        }
        if self.is_empty() {
            self.accepted.clear();
            self.apart = Duration::ZERO;
            self.newest.shrink();
            self.settled.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::ErasureKind;
    use proptest::prelude::*;

    const BLOCKS: u64 = 24;

    /// A number with so many before it.
    fn nth(before: u64) -> RecordNumber {
        RecordNumber::FIRST.advance(before)
    }

    fn data(number: u64, block: u64) -> Record {
        Record {
            at: Position::of_page(1, u32::try_from(number + 1).unwrap()),
            what: What::Data {
                block: BlockIndex::new(block),
                slot: FlashSlot::new(u32::try_from(number + 1).unwrap()),
            },
        }
    }

    fn erasure(number: u64, first: u64, blocks: u64) -> Record {
        Record {
            what: What::Erasure(Erasure {
                first: BlockIndex::new(first),
                blocks: u32::try_from(blocks).unwrap(),
                kind: ErasureKind::Discard,
            }),
            ..data(number, 0)
        }
    }

    fn slot(number: u64) -> FlashSlot {
        FlashSlot::new(u32::try_from(number + 1).unwrap())
    }

    fn log_of(records: &[Record]) -> DirtyLog {
        let mut log = DirtyLog::new(Position::START);
        for record in records {
            log.push(*record, Instant::ZERO);
        }
        log
    }

    #[test]
    fn the_newest_record_of_a_block_counts() {
        let mut log = log_of(&[data(0, 5), data(1, 6), data(2, 5)]);
        assert_eq!(log.find(BlockIndex::new(5)), Found::Dirty(slot(2)));
        assert_eq!(
            (log.logged(), log.distinct()),
            (Bytes::kib(12), Bytes::kib(8))
        );
        let mut clean = Vec::new();
        log.settle(nth(2), |block, slot| clean.push((block, slot)));
        assert_eq!(clean, [(BlockIndex::new(6), slot(1))]);
        assert_eq!(log.watermark(), data(1, 6).at);
        assert_eq!(log.find(BlockIndex::new(5)), Found::Dirty(slot(2)));
        assert_eq!(log.find(BlockIndex::new(6)), Found::Clean);
    }

    #[test]
    fn what_is_erased_reads_as_zeroes_until_it_is_written_or_settled() {
        let mut log = log_of(&[data(0, 5), erasure(1, 4, 4), data(2, 6)]);
        assert_eq!(
            log.find(BlockIndex::new(5)),
            Found::Erased(BlockIndex::new(6))
        );
        assert_eq!(log.find(BlockIndex::new(6)), Found::Dirty(slot(2)));
        assert_eq!(
            log.find(BlockIndex::new(7)),
            Found::Erased(BlockIndex::new(8))
        );
        log.settle(nth(2), |_, _| panic!("block 5 was erased"));
        assert_eq!(log.find(BlockIndex::new(5)), Found::Clean);
        assert_eq!(log.find(BlockIndex::new(7)), Found::Clean);
    }

    #[test]
    fn an_interval_ends_at_a_flush_and_two_flushes_end_one() {
        let mut log = log_of(&[data(0, 5)]);
        assert_eq!(log.interval_end(log.base()), (nth(1), false));
        log.end_interval();
        log.end_interval();
        assert!(log.is_at_begin());
        assert_eq!(
            (log.interval_end(log.base()), log.intervals()),
            ((nth(1), true), 1)
        );
        log.push(data(1, 6), Instant::ZERO);
        assert!(!log.is_at_begin());
        assert_eq!(
            (log.interval_end(log.base()), log.intervals()),
            ((nth(1), true), 2)
        );
        log.settle(nth(1), |_, _| {});
        assert_eq!(
            (log.interval_end(log.base()), log.intervals()),
            ((nth(2), false), 1)
        );
    }

    #[test]
    fn the_oldest_record_tells_how_long_the_origin_has_waited() {
        let at = Instant::from_nanos;
        let mut log = DirtyLog::new(Position::START);
        assert_eq!(log.oldest(), None);
        for (number, nanos) in [(0, 10), (1, 10), (2, 20)] {
            log.push(data(number, number), at(nanos));
        }
        assert_eq!(log.oldest(), Some(at(10)));
        log.settle(nth(1), |_, _| {});
        assert_eq!(log.oldest(), Some(at(10)));
        log.settle(nth(2), |_, _| {});
        assert_eq!(log.oldest(), Some(at(20)));
        log.settle(nth(3), |_, _| {});
        assert_eq!(log.oldest(), None);
    }

    #[test]
    fn with_many_records_some_pass_for_older_but_none_for_younger() {
        let at = |number| Instant::from_nanos(1000 + number);
        let mut log = DirtyLog::new(Position::START);
        let count = 3 * ACCEPTED_MAX as u64;
        for number in 0..count {
            log.push(data(number, number % 8), at(number));
        }
        assert!(log.accepted.len() <= ACCEPTED_MAX);
        for number in 0..count {
            let oldest = log.oldest().unwrap();
            assert!(oldest <= at(number) && at(number) < oldest + Duration::from_nanos(8));
            log.settle(nth(number + 1), |_, _| {});
        }
    }

    #[test]
    fn the_watermark_waits_for_the_oldest_record_that_counts() {
        let mut log = log_of(&[data(0, 5), data(1, 6), data(2, 7)]);
        log.settle_some([1, 2].into_iter().map(nth), |_, _| {});
        assert_eq!((log.base(), log.watermark()), (nth(0), Position::START));
        assert_eq!(log.holes_end(), nth(3));
        log.settle_some([0].into_iter().map(nth), |_, _| {});
        assert_eq!((log.base(), log.watermark()), (nth(3), data(2, 7).at));
    }

    #[test]
    fn the_watermark_does_not_pass_what_only_a_record_supersedes_that_the_origin_lacks() {
        let mut log = log_of(&[data(0, 5), data(1, 6), data(2, 5)]);
        log.settle_some([1].into_iter().map(nth), |_, _| {});
        assert_eq!(log.base(), nth(0), "a power cut may take record 2");
        log.push(data(3, 5), Instant::ZERO);
        log.settle_some([2].into_iter().map(nth), |_, _| {});
        assert_eq!(
            log.base(),
            nth(3),
            "the origin has something newer than record 0"
        );
        let mut log = log_of(&[erasure(0, 4, 4), data(1, 6), data(2, 20)]);
        log.settle_some([0].into_iter().map(nth), |_, _| {});
        assert_eq!(log.base(), nth(0), "block 6 was never erased at the origin");
        log.settle_some([1].into_iter().map(nth), |_, _| {});
        assert_eq!(log.base(), nth(2));
    }

    /// The same told by walking all records that were ever pushed.
    #[derive(Default)]
    struct Model {
        records: Vec<Record>,
        settled: Vec<bool>,
    }

    impl Model {
        fn find(&self, block: u64) -> Option<(u64, Option<FlashSlot>)> {
            let numbered = self.records.iter().enumerate().rev();
            let (number, what) = numbered
                .map(|(number, record)| (number as u64, record))
                .find_map(|(number, record)| match record.what {
                    What::Data { block: of, slot } => {
                        (of.get() == block).then_some((number, Some(slot)))
                    }
                    What::Erasure(e) => {
                        let end = e.first.get() + u64::from(e.blocks);
                        ((e.first.get()..end).contains(&block)).then_some((number, None))
                    }
                })?;
            (!self.settled[usize::try_from(number).unwrap()]).then_some((number, what))
        }
    }

    impl Model {
        /// Of each block the origin has the latest record before the log's first one, or a later one.
        fn check_base(&self, base: u64) {
            for block in 0..BLOCKS {
                let of = |record: &Record| match record.what {
                    What::Data { block: of, .. } => of.get() == block,
                    What::Erasure(e) => {
                        (e.first.get()..e.first.get() + u64::from(e.blocks)).contains(&block)
                    }
                };
                let its: Vec<usize> = (0..self.records.len())
                    .filter(|at| of(&self.records[*at]))
                    .collect();
                let passed = its.iter().rfind(|at| (**at as u64) < base);
                let settled = its.iter().rfind(|at| self.settled[**at]);
                assert!(passed <= settled, "block {block}");
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Write(u64),
        Erase(u64, u64),
        Flush,
        Settle(u64),
        SettleSome(u64),
    }

    fn acts(in_any_order: bool) -> impl Strategy<Value = Vec<Act>> {
        let settle = if in_any_order {
            (0..4_u64).prop_map(Act::SettleSome).boxed()
        } else {
            (0..6_u64).prop_map(Act::Settle).boxed()
        };
        let act = prop_oneof![
            6 => (0..BLOCKS).prop_map(Act::Write),
            2 => (0..BLOCKS, 1..8_u64).prop_map(|(at, n)| Act::Erase(at, n.min(BLOCKS - at))),
            1 => Just(Act::Flush),
            2 => settle,
        ];
        prop::collection::vec(act, 0..60)
    }

    fn check(acts: Vec<Act>) {
        let (mut log, mut model) = (DirtyLog::new(Position::START), Model::default());
        for act in acts {
            let number = model.records.len() as u64;
            match act {
                Act::Write(block) => {
                    log.push(data(number, block), Instant::ZERO);
                    model.records.push(data(number, block));
                    model.settled.push(false);
                }
                Act::Erase(first, blocks) => {
                    log.push(erasure(number, first, blocks), Instant::ZERO);
                    model.records.push(erasure(number, first, blocks));
                    model.settled.push(false);
                }
                Act::Flush => log.end_interval(),
                Act::Settle(count) => {
                    let to = log.base().advance(count).min(log.end());
                    let newest: Vec<_> = log.newest().collect();
                    let mut clean = 0;
                    log.settle(to, |_, _| clean += 1);
                    assert_eq!(clean, newest.iter().filter(|(_, n)| *n < to).count());
                    for at in 0..usize::try_from(to.get()).unwrap() {
                        model.settled[at] = true;
                    }
                }
                Act::SettleSome(nth) => {
                    let mut newest: Vec<RecordNumber> =
                        log.newest().map(|(_, number)| number).collect();
                    newest.sort_unstable();
                    let some: Vec<RecordNumber> = newest.into_iter().skip(1).step_by(2).collect();
                    let some = some.into_iter().take(usize::try_from(nth).unwrap());
                    for number in some.clone() {
                        model.settled[usize::try_from(number.get()).unwrap()] = true;
                    }
                    log.settle_some(some, |_, _| {});
                }
            }
            for block in 0..BLOCKS {
                let found = log.find(BlockIndex::new(block));
                match (found, model.find(block)) {
                    (Found::Clean, None) | (Found::Erased(_), Some((_, None))) => {}
                    (Found::Dirty(slot), Some((_, Some(expected)))) => assert_eq!(slot, expected),
                    other => panic!("block {block}: {other:?}"),
                }
                if let Found::Erased(end) = found {
                    for inside in block..end.get() {
                        assert!(matches!(model.find(inside), Some((_, None))));
                    }
                }
            }
            model.check_base(log.base().get());
            assert_eq!(log.end(), nth(model.records.len() as u64));
            let first = usize::try_from(log.base().get()).unwrap();
            let before = first.checked_sub(1).map(|last| model.records[last].at);
            assert_eq!(log.watermark(), before.unwrap_or(Position::START));
        }
    }

    proptest! {
        #[test]
        fn it_says_what_walking_all_records_says(acts in acts(false)) {
            check(acts);
        }

        #[test]
        fn so_it_does_if_records_are_settled_in_any_order(acts in acts(true)) {
            check(acts);
        }
    }
}
