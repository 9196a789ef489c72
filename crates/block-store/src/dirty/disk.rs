//! The dirty log of one disk: its records, and where they lie on flash.

use super::chunks::{Chunks, OpenChunk};
use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::lock::LockReason;
use dirty_log::{DirtyLog, Record, RecordNumber, Repeats};
use flash_format::{Position, SegmentIndex};
use std::collections::VecDeque;
use units::{BlockIndex, FlashSlot, Instant};

/// A segment of a dirty log.
#[derive(Clone, Copy, Debug)]
struct LogSegment {
    segment: SegmentIndex,
    /// The number behind its last record so far.
    end: RecordNumber,
    /// The entry that says that it is a part of the log.
    opened: Ticket,
}

/// A watermark of which the journal was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// The entry that says so.
    ticket: Ticket,
    /// The number before which everything is settled.
    base: RecordNumber,
    /// The same as a place in the log.
    to: Position,
}

/// The dirty log of a disk, and how it lies on flash.
#[derive(Debug)]
pub struct DirtyDisk {
    log: DirtyLog,
    /// The latest period in which a record of it was written.
    epoch: u64,
    /// The period that its records name, if that is none of the disk table: they are another host's, and count if
    /// this host gets the disk in it.
    shipped_for: Option<u64>,
    /// Nothing of it goes to the origin before the operator has decided.
    locked: Option<LockReason>,
    /// Those that hold its records, oldest first.
    segments: VecDeque<LogSegment>,
    chunks: Chunks,
    /// What the journal has been told and does not have durably.
    told: VecDeque<Told>,
    /// The number before which everything is settled, and that is durably known.
    released: RecordNumber,
    /// What lies between that and the log's base.
    repeats: Repeats,
}

impl DirtyDisk {
    /// A log with nothing in it behind this watermark.
    pub(crate) fn new(watermark: Position) -> Self {
        Self {
            log: DirtyLog::new(watermark),
            epoch: 0,
            shipped_for: None,
            locked: None,
            segments: VecDeque::new(),
            chunks: Chunks::default(),
            told: VecDeque::new(),
            released: RecordNumber::FIRST,
            repeats: Repeats::default(),
        }
    }

    /// What it has.
    #[inline]
    pub fn log(&self) -> &DirtyLog {
        &self.log
    }

    /// The latest period in which a record of it was written.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The period that the next record names, if the disk table says this one.
    pub(super) fn next_epoch(&self, of_table: u64) -> u64 {
        self.shipped_for.unwrap_or(of_table)
    }

    /// The next records name this period, or that of the disk table.
    pub(crate) fn set_shipped_for(&mut self, epoch: Option<u64>) {
        self.shipped_for = epoch;
    }

    /// Why nothing of it goes to the origin before the operator has decided.
    pub fn locked(&self) -> Option<LockReason> {
        self.locked
    }

    /// Nothing of it goes to the origin before the operator has decided.
    pub fn lock(&mut self, reason: LockReason) {
        self.locked = Some(reason);
    }

    /// What was found says why it does not go to the origin, and in which period it was written.
    pub(crate) fn found_in(&mut self, epoch: u64, locked: Option<LockReason>) {
        self.epoch = epoch;
        self.locked = locked;
    }

    /// A guest had flushed before what is found next.
    pub(crate) fn found_flush(&mut self) {
        self.log.end_interval();
    }

    /// The origin has every record before this number, and flash that has failed is not told.
    pub fn settle_unwritten(&mut self, to: RecordNumber) {
        self.log.settle(to, |_, _| {});
    }

    /// The same of these records.
    pub fn settle_some_unwritten(&mut self, numbers: &[RecordNumber]) {
        self.log.settle_some(numbers.iter().copied(), |_, _| {});
    }

    /// A record was found on flash, behind all others.
    ///
    /// # Panics
    /// If no segment was found.
    pub(crate) fn found(&mut self, record: Record, now: Instant) {
        let number = self.log.push(record, now);
        let segment = self.segments.back_mut();
        segment.expect("records lie in a segment").end = number.next();
        self.chunks.found(number.next(), record.at);
    }

    /// The number before which the origin has everything, and a recovery knows it.
    pub fn released(&self) -> RecordNumber {
        self.released
    }

    /// Whether these blocks may be written to the origin, or, if it `erases`, what a batch erases. Not if the origin has
    /// something of them of which a recovery does not know: it would write the older version again, beside later ones.
    pub fn may_follow(&self, erases: bool, mut blocks: impl Iterator<Item = BlockIndex>) -> bool {
        let is_known = self.released >= self.log.base();
        let barred = |blocks| self.repeats.meets_all() || self.repeats.meets(blocks);
        is_known || !holds(Guard::WatermarkBeforeNext) || !(erases || barred(&mut blocks))
    }

    /// Some of the records that were found are trusted: the origin has them.
    pub(crate) fn found_trusted(&mut self, numbers: impl Iterator<Item = RecordNumber>) {
        self.log.settle_some(numbers, |_, _| {});
        self.released = self.log.base();
        self.repeats.known(self.released);
    }

    /// How far its chunks have come.
    pub(super) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// The same, to change it.
    pub(super) fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    /// Records before this number survive a power cut.
    pub fn durable(&self) -> RecordNumber {
        self.chunks.durable()
    }

    /// Where the last record is that survives a power cut.
    pub(super) fn durable_at(&self) -> Position {
        self.chunks.durable_at().max(self.log.watermark())
    }

    /// Records before this number are on flash, durably or not; every one in a chunk that is sealed.
    pub(super) fn written(&self) -> RecordNumber {
        self.chunks.written_end()
    }

    /// Whether a flush waits for records before this number and nothing is done about it: never.
    pub fn wants_durability(&self) -> bool {
        self.chunks.wants_durability()
    }

    /// Counts what is durable of it when the journal is so up to here.
    pub(super) fn count_durable(&mut self, journal: Ticket) {
        // The first number that lies in a segment that may not be known to be the log's.
        let unknown = |segment: &LogSegment| segment.opened > journal;
        let unknown = self.segments.iter().position(unknown);
        let known = match unknown.filter(|_| holds(Guard::OpenBeforeAnswer)) {
            None => RecordNumber::BEHIND_ALL,
            Some(0) => RecordNumber::FIRST,
            Some(at) => self.segments[at - 1].end,
        };
        self.chunks.count_durable(known);
    }

    /// Another segment holds its records from now on; `opened` is the entry that says so, none if the
    /// journal has it.
    pub(crate) fn opened(&mut self, segment: SegmentIndex, opened: Ticket) {
        self.segments.push_back(LogSegment {
            segment,
            end: self.log.end(),
            opened,
        });
    }

    /// The entry that says that a segment is its; none if it is not.
    pub(super) fn opened_by(&self, segment: SegmentIndex) -> Option<Ticket> {
        let found = self.segments.iter().find(|of| of.segment == segment);
        found.map(|found| found.opened)
    }

    /// Accepts a record, written in this period.
    ///
    /// # Panics
    /// If no segment was opened for it.
    pub(super) fn accept(&mut self, record: Record, epoch: u64, now: Instant) {
        let number = self.log.push(record, now);
        self.epoch = epoch;
        let segment = self.segments.back_mut();
        segment.expect("its segment was opened").end = number.next();
    }

    /// The open chunk is sealed, and ends the interval if a flush waits for it. Returns it, and the
    /// number behind its last record.
    ///
    /// # Panics
    /// If none is open.
    pub(super) fn seal(&mut self) -> (OpenChunk, RecordNumber) {
        let end = self.log.end();
        let open = self.chunks.seal(end, self.log.last());
        if open.wanted {
            self.log.end_interval();
        }
        (open, end)
    }

    /// A guest flushes: everything before the number that is returned is to become durable.
    pub(super) fn flush(&mut self) -> RecordNumber {
        let end = self.log.end();
        if !self.chunks.flush(end) {
            self.log.end_interval();
        }
        end
    }

    /// The origin has every record before this number. Returns the blocks that are clean now.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub(super) fn settle(&mut self, to: RecordNumber) -> Vec<(BlockIndex, FlashSlot)> {
        let mut clean = Vec::new();
        let base = self.log.base();
        self.repeats.settled(self.log.records(base, to.max(base)));
        self.log.settle(to, |block, slot| clean.push((block, slot)));
        clean
    }

    /// The same of these records, whatever came before them.
    pub(super) fn settle_some(&mut self, numbers: &[RecordNumber]) -> Vec<(BlockIndex, FlashSlot)> {
        let mut clean = Vec::new();
        let each = |block, slot| clean.push((block, slot));
        self.log.settle_some(numbers.iter().copied(), each);
        self.repeats.any_before(self.log.base());
        clean
    }

    /// Nothing of it counts any more.
    pub(super) fn void(&mut self) {
        let end = self.log.end();
        self.log.settle(end, |_, _| {});
        self.repeats.any_before(end);
        self.locked = None;
    }

    /// The latest watermark of which the journal was told and that it does not have durably.
    pub(super) fn told_to(&self) -> Option<Position> {
        self.told.back().map(|told| told.to)
    }

    /// The journal was told of this watermark by this entry.
    pub(super) fn told(&mut self, ticket: Ticket, to: Position) {
        let base = self.log.base();
        self.told.push_back(Told { ticket, base, to });
    }

    /// The journal is durable up to here: what was told of the watermark is known. Returns the latest.
    pub(super) fn take_known(&mut self, durable: Ticket) -> Option<Position> {
        let mut latest = None;
        while let Some(told) = self.told.pop_front_if(|told| told.ticket <= durable) {
            self.released = told.base;
            self.repeats.known(told.base);
            latest = latest.max(Some(told.to));
        }
        latest
    }

    /// Takes out its oldest segment if that is full and a recovery knows that the origin has everything in
    /// it.
    pub(super) fn pop_released(
        &mut self,
        is_full: impl Fn(SegmentIndex) -> bool,
    ) -> Option<SegmentIndex> {
        let released = self.released;
        let is_released =
            |oldest: &mut LogSegment| oldest.end <= released && is_full(oldest.segment);
        let oldest = self.segments.pop_front_if(is_released)?;
        Some(oldest.segment)
    }

    /// Whether something of it waits for the journal.
    pub(super) fn waits_for_the_journal(&self) -> bool {
        !self.told.is_empty() || self.wants_durability()
    }

    /// Whether a recovery would find nothing of it, of which the origin has everything.
    pub(super) fn knows_end(&self) -> bool {
        self.told.is_empty() && self.released >= self.log.end()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.log.bytes() + self.repeats.bytes()
    }
}
