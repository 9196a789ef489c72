//! What the origins lack, read from a flash that no cache has open, for the operator to look at.
//!
//! Nothing is written. Bytes are not read either, but where a log may be torn: the report says where
//! they lie and what their checksum is, and whoever wants them reads and compares them.

use super::chain::Chunk;
use super::logs::FoundLog;
use super::tables::Replayed;
use super::{LeftChunk, OpenError, Recovery, Stage};
use crate::config::Config;
use crate::lock::LockReason;
use block_io::{BufPool, FlashDone, FlashOp};
use flash_format::{DirtyRecord, DiskEntry, Erasure, Geometry, PAGE_BYTES, Position};
use std::num::NonZeroU64;
use std::vec::Drain;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, Instant, Offset};

/// What is dirty on a flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyReport {
    /// Which cache.
    pub uuid: u128,
    /// A part of its tables is damaged.
    pub in_doubt: bool,
    /// The logs of all disks whose origins may lack something; without a record where it is not even
    /// known whether there is one.
    pub logs: Vec<LogReport>,
}

/// What is on flash of a disk's dirty log, above its watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// Whose.
    pub id: DiskId,
    /// What people called it; empty if that is lost.
    pub name: String,
    /// The disk's size.
    pub size: Bytes,
    /// The latest period in which a record was written, as in the owner's record; 0 without one.
    pub epoch: u64,
    /// Up to here the origin has everything, as far as the tables know.
    pub watermark: Position,
    /// Why it does not go to the origin on its own, if that is so.
    pub locked: Option<LockReason>,
    /// The tag of the key by which blocks are encrypted, if they are.
    pub key: Option<NonZeroU64>,
    /// What was found, in the order in which it was accepted. Of a damaged log something is missing
    /// somewhere.
    pub records: Vec<FoundRecord>,
}

/// A record of a dirty log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// Where it is in the log.
    pub at: Position,
    /// Records of a higher interval came after a flush that was answered.
    pub interval: u64,
    /// What the guest did.
    pub what: FoundWhat,
}

/// What a guest did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundWhat {
    /// It wrote a block.
    Block {
        /// Which.
        block: BlockIndex,
        /// [`flash_format::checksum`] of what lies on flash.
        checksum: u32,
        /// Where its 4 KiB are.
        bytes: FoundBytes,
        /// The table says that the origin has it.
        is_settled: bool,
    },
    /// It erased blocks.
    Erasure(Erasure),
}

/// Where the bytes of a block are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundBytes {
    /// On flash, at this offset.
    Flash(Offset),
    /// In the memory of a process that was killed: here they are.
    Memory(Vec<u8>),
}

impl DirtyReport {
    pub(super) fn of(replayed: &Replayed, found: &[FoundLog]) -> Self {
        let dirty = found.iter().filter(|log| log.is_dirty());
        let dirty = dirty.filter_map(|log| LogReport::of(replayed, log));
        let is_dirty = |disk| found.iter().any(|log| log.disk == disk && log.is_dirty());
        let others = replayed.disks.iter().zip((0..).map(DiskSlot::new));
        let others = others.filter_map(|(entry, disk)| Some((entry.as_ref()?, disk)));
        let doubtful = others
            .filter(|(entry, disk)| entry.in_doubt && entry.epoch > 0 && !is_dirty(*disk))
            .map(|(entry, _)| LogReport::not_found(entry));
        Self {
            uuid: replayed.superblock.uuid,
            in_doubt: replayed.in_doubt,
            logs: dirty.chain(doubtful).collect(),
        }
    }
}

impl LogReport {
    fn of(replayed: &Replayed, log: &FoundLog) -> Option<Self> {
        let entry = replayed.disks[log.disk.index()].as_ref()?;
        let mut records: Vec<FoundRecord> = Vec::new();
        let mut interval = 0;
        let mut last = log.watermark;
        for chunk in &log.chunks {
            interval += u64::from(chunk.header.begins_interval && !records.is_empty());
            let mut page_in_chunk = 0;
            for (at, record) in chunk.header.records() {
                let what = match record {
                    DirtyRecord::Erasure(erasure) => FoundWhat::Erasure(*erasure),
                    DirtyRecord::Data(data) => {
                        page_in_chunk += 1;
                        let segment = &replayed.segments[chunk.header.segment.index()];
                        FoundWhat::Block {
                            block: data.block,
                            checksum: data.checksum,
                            bytes: bytes_of(
                                &replayed.superblock.geometry,
                                chunk,
                                data.page,
                                page_in_chunk,
                            ),
                            is_settled: segment.is_trusted(data.page),
                        }
                    }
                };
                if at > last {
                    last = at;
                    records.push(FoundRecord { at, interval, what });
                }
            }
        }
        Some(Self {
            id: entry.id,
            name: entry.name.clone(),
            size: entry.size,
            epoch: log.epoch(),
            watermark: log.watermark,
            locked: log.locked(),
            key: entry.key,
            records,
        })
    }

    /// Nothing of a log was found where there may be one.
    fn not_found(entry: &DiskEntry) -> Self {
        Self {
            id: entry.id,
            name: entry.name.clone(),
            size: entry.size,
            epoch: 0,
            watermark: entry.destaged,
            locked: Some(LockReason::Unbelievable),
            key: entry.key,
            records: Vec::new(),
        }
    }
}

/// Where the bytes of a page of a segment are that is the `number`-th block of its chunk, from 1.
fn bytes_of(geometry: &Geometry, chunk: &Chunk, page: u32, number: usize) -> FoundBytes {
    let left = chunk.left.as_ref();
    let left = left.and_then(|left| left.pages.chunks_exact(PAGE_BYTES).nth(number - 1));
    let slot = geometry.slot(chunk.header.segment, page);
    left.map_or_else(
        || FoundBytes::Flash(geometry.slot_offset(slot)),
        |bytes| FoundBytes::Memory(bytes.to_vec()),
    )
}

/// The state machine that looks for what is dirty. Driven like [`Recovery`]: reads of the flash
/// out, completions in.
pub struct Inspection(Recovery);

impl Inspection {
    /// Begins to look at the cache on a device of `capacity` bytes.
    pub fn new(capacity: Bytes, pool: BufPool, now: Instant) -> Self {
        let mut recovery = Recovery::new(Config::default(), capacity, None, pool, now);
        recovery.looks_only = true;
        Self(recovery)
    }

    /// See [`Recovery::set_left`].
    pub fn set_left(&mut self, left: Vec<LeftChunk>) {
        self.0.set_left(left);
    }

    /// Takes out what is to be read from the flash, in order.
    pub fn take_operations(&mut self) -> Drain<'_, FlashOp> {
        self.0.take_operations()
    }

    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.0.flash_done(done, now);
    }

    /// What was found, or why nothing could be; once.
    pub fn finished(&mut self) -> Option<Result<DirtyReport, OpenError>> {
        match std::mem::replace(&mut self.0.stage, Stage::Taken) {
            Stage::Inspected(report) => Some(Ok(*report)),
            Stage::Failed(error) => Some(Err(error)),
            stage => {
                self.0.stage = stage;
                None
            }
        }
    }
}
