//! Bytes that only the flash has: the dirty logs.
//!
//! A disk under write-back has a log of what its guest did, in the order in which
//! it was accepted. It is the truth for every block in it until the origin has that block durably.
//! A block of it is in no other way in the cache: its clean copy left the index when the record was
//! accepted, and it enters the index again when the record is settled.
//!
//! ```text
//!  accepted ─► open chunk ─► sealed ─► written ─► durable        [`append`], [`durable`]
//!                                        └─► at the origin ─► settled: an ordinary clean block
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`dirty_log`] | records, intervals, watermark, what is newest: no bytes, no I/O |
//! | [`append`] | records into the open chunk, chunks to flash |
//! | [`lasting`] | what a process that is killed leaves to the next one |
//! | [`durable`] | how far the log would survive a power cut |
//! | [`settle`] | what the origin has becomes clean |

pub(crate) mod append;
pub(crate) mod durable;
pub(crate) mod lasting;
pub(crate) mod settle;

use crate::journal::Ticket;
use crate::lock::LockReason;
use dirty_log::{DirtyLog, Found, Record, Repeats};
use durable::Chunks;
use flash_format::{Position, SegmentIndex};
use std::collections::VecDeque;
use units::{BlockIndex, DiskSlot, Instant};

/// A segment of a dirty log.
#[derive(Clone, Copy, Debug)]
struct LogSegment {
    segment: SegmentIndex,
    /// The number behind its last record so far.
    end: u64,
    /// The entry that says that it is a part of the log.
    opened: Ticket,
}

/// A watermark of which the journal was told.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// The entry that says so.
    ticket: Ticket,
    /// The number before which everything is settled.
    base: u64,
    /// The same as a place in the log.
    to: Position,
}

/// The dirty log of a disk, and how it lies on flash.
#[derive(Debug)]
pub struct DirtyDisk {
    log: DirtyLog,
    /// The latest period in which a record of it was written.
    epoch: u64,
    /// Nothing of it goes to the origin before the operator has decided.
    locked: Option<LockReason>,
    /// Those that hold its records, oldest first.
    segments: VecDeque<LogSegment>,
    chunks: Chunks,
    /// What the journal has been told and does not have durably.
    settled: VecDeque<Settled>,
    /// The number before which everything is settled, and that is durably known.
    released: u64,
    /// What lies between that and the log's base.
    repeats: Repeats,
}

impl DirtyDisk {
    /// A log with nothing in it behind this watermark.
    pub(crate) fn new(watermark: Position) -> Self {
        Self {
            log: DirtyLog::new(watermark),
            epoch: 0,
            locked: None,
            segments: VecDeque::new(),
            chunks: Chunks::default(),
            settled: VecDeque::new(),
            released: 0,
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
    pub fn settle_unwritten(&mut self, to: u64) {
        self.log.settle(to, |_, _| {});
    }

    /// The same of these records.
    pub fn settle_some_unwritten(&mut self, numbers: &[u64]) {
        self.log.settle_some(numbers.iter().copied(), |_, _| {});
    }

    /// The records that are found next lie in this segment.
    pub(crate) fn found_segment(&mut self, segment: SegmentIndex) {
        self.segments.push_back(LogSegment {
            segment,
            end: self.log.end(),
            opened: Ticket::default(),
        });
    }

    /// A record was found on flash, behind all others.
    ///
    /// # Panics
    /// If no segment was found.
    pub(crate) fn found(&mut self, record: Record, now: Instant) {
        let number = self.log.push(record, now);
        let segment = self.segments.back_mut();
        segment.expect("records lie in a segment").end = number + 1;
        self.chunks.found(number + 1, record.at);
    }

    /// The number before which the origin has everything, and a recovery knows it.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Whether the origin has something of the log of which a recovery does not know, so that nothing
    /// but these blocks may be written to it.
    pub fn bars(&self, blocks: impl Iterator<Item = BlockIndex>) -> bool {
        self.repeats.meets_all() || self.repeats.meets(blocks)
    }

    /// Some of the records that were found are trusted: the origin has them.
    pub(crate) fn found_trusted(&mut self, numbers: impl Iterator<Item = u64>) {
        self.log.settle_some(numbers, |_, _| {});
        self.released = self.log.base();
        self.repeats.known(self.released);
    }
}

/// The dirty logs of a cache, by disk; memory only up to the highest slot that has one.
#[derive(Debug, Default)]
pub(crate) struct DirtyDisks(Vec<Option<Box<DirtyDisk>>>);

impl DirtyDisks {
    #[inline]
    pub(crate) fn get(&self, disk: DiskSlot) -> Option<&DirtyDisk> {
        self.0.get(disk.index())?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, disk: DiskSlot) -> Option<&mut DirtyDisk> {
        self.0.get_mut(disk.index())?.as_deref_mut()
    }

    /// Gives a disk a log, or takes it away.
    pub(crate) fn set(&mut self, disk: DiskSlot, dirty: Option<DirtyDisk>) {
        if self.0.len() <= disk.index() {
            self.0.resize_with(disk.index() + 1, || None);
        }
        self.0[disk.index()] = dirty.map(Box::new);
    }

    /// What a disk's log says of a block.
    #[inline]
    pub(crate) fn find(&self, disk: DiskSlot, block: BlockIndex) -> Found {
        self.get(disk)
            .map_or(Found::Clean, |dirty| dirty.log.find(block))
    }

    /// Whether a disk's origin lacks something.
    #[inline]
    pub(crate) fn has(&self, disk: DiskSlot) -> bool {
        self.get(disk).is_some_and(|dirty| !dirty.log.is_empty())
    }

    /// Whether any origin lacks something.
    pub(crate) fn has_any(&self) -> bool {
        self.iter().any(|(_, dirty)| !dirty.log.is_empty())
    }

    /// Every disk that has a log.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DiskSlot, &DirtyDisk)> {
        let logs = self.0.iter().zip((0..).map(DiskSlot::new));
        logs.filter_map(|(log, disk)| Some((disk, log.as_deref()?)))
    }

    /// Those of which something waits for the journal.
    pub(crate) fn waiting_for_the_journal(&self) -> Vec<DiskSlot> {
        let waits = |dirty: &DirtyDisk| !dirty.settled.is_empty() || dirty.wants_durability();
        let waiting = self.iter().filter(|(_, dirty)| waits(dirty));
        waiting.map(|(disk, _)| disk).collect()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let of = |dirty: &DirtyDisk| dirty.log.bytes() + dirty.repeats.bytes();
        self.iter().map(|(_, dirty)| of(dirty)).sum()
    }
}
