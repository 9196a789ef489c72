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
//! | [`disk`] | the log of one disk, and how it lies on flash |
//! | [`chunks`] | how far each of its chunks has come |
//! | [`append`] | records into the open chunk |
//! | [`places`] | what a process that is killed leaves to the next one |
//! | [`durable`] | how far the log would survive a power cut |
//! | [`settle`] | what the origin has becomes clean |
//!
//! [`Logs`] has them all. It issues nothing but flushes of the flash: it says when a chunk is to be sealed,
//! and what has become clean, and its caller does so.

mod append;
mod chunks;
mod disk;
mod durable;
mod places;
mod settle;

use crate::chunks::Segments;
use crate::disks::DiskTable;
use crate::journal::{Journal, Ticket};
use crate::limits::LOGGED_AFTER;
use crate::ports::{Payload, Ports, Tag};
use dirty_log::{Found, RecordNumber, What};
pub use disk::DirtyDisk;
pub(crate) use durable::Seal;
use places::Places;
pub(crate) use settle::Settled;
use std::collections::VecDeque;
use units::{BlockIndex, DiskSlot, Duration, Instant};

/// What logs are entered in, and learn from.
pub(crate) struct LogTables<'a, P: Payload> {
    pub(crate) segments: &'a mut Segments<P>,
    pub(crate) journal: &'a mut Journal,
    pub(crate) disks: &'a mut DiskTable,
}

/// The dirty logs of a store.
pub(crate) struct Logs {
    by_disk: DirtyDisks,
    /// Of retained memory: where no chunk of a log is.
    places: Places,
    /// Logs that are durable farther than the journal says, and since when.
    unnamed: VecDeque<(Instant, DiskSlot)>,
    flash_timeout: Duration,
}

impl Logs {
    /// What a recovery has found. Retained memory has so many places.
    pub(crate) fn new(found: DirtyDisks, places: u32, flash_timeout: Duration) -> Self {
        Self {
            by_disk: found,
            places: Places::new(places),
            unnamed: VecDeque::new(),
            flash_timeout,
        }
    }

    /// By disk.
    #[inline]
    pub(crate) fn by_disk(&self) -> &DirtyDisks {
        &self.by_disk
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn by_disk_mut(&mut self) -> &mut DirtyDisks {
        &mut self.by_disk
    }

    /// The journal is durable up to here: chunks on flash are found there, and need no other memory.
    pub(crate) fn journal_durable<T: Tag>(&mut self, ports: &mut Ports<T>, durable: Ticket) {
        self.places.clear(ports, durable);
    }

    /// Asks to be looked at when something that waits is due.
    pub(crate) fn tick<T: Tag>(&self, ports: &mut Ports<T>) {
        if let Some((since, _)) = self.unnamed.front()
            && *since + LOGGED_AFTER > ports.now()
        {
            ports.wake_at(*since + LOGGED_AFTER);
        }
    }
}

/// The dirty logs of a cache, by disk; memory only up to the highest slot that has one.
#[derive(Debug, Default)]
pub struct DirtyDisks(Vec<Option<Box<DirtyDisk>>>);

impl DirtyDisks {
    /// A disk's log; none if the disk has none.
    #[inline]
    pub fn get(&self, disk: DiskSlot) -> Option<&DirtyDisk> {
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
    pub fn find(&self, disk: DiskSlot, block: BlockIndex) -> Found {
        self.get(disk)
            .map_or(Found::Clean, |dirty| dirty.log().find(block))
    }

    /// Whether a disk's origin lacks something.
    #[inline]
    pub fn has(&self, disk: DiskSlot) -> bool {
        self.get(disk).is_some_and(|dirty| !dirty.log().is_empty())
    }

    /// Whether any origin lacks something.
    pub fn has_any(&self) -> bool {
        self.iter().any(|(_, dirty)| !dirty.log().is_empty())
    }

    /// Which block a record of a disk's log holds; none if the record is an erasure.
    pub fn block_of_record(&self, disk: DiskSlot, number: RecordNumber) -> Option<BlockIndex> {
        match self.get(disk)?.log().record(number).what {
            What::Data { block, .. } => Some(block),
            What::Erasure(_) => None,
        }
    }

    /// Every disk that has a log.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DiskSlot, &DirtyDisk)> {
        let logs = self.0.iter().zip((0..).map(DiskSlot::new));
        logs.filter_map(|(log, disk)| Some((disk, log.as_deref()?)))
    }

    /// Those of which something waits for the journal.
    pub(crate) fn waiting_for_the_journal(&self) -> Vec<DiskSlot> {
        let waiting = self
            .iter()
            .filter(|(_, dirty)| dirty.waits_for_the_journal());
        waiting.map(|(disk, _)| disk).collect()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|(_, dirty)| dirty.bytes()).sum()
    }
}
