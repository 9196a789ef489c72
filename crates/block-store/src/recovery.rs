//! Making a store of what is on flash: after a clean stop, a kill, or a power cut.
//!
//! ```text
//!  superblocks ─► journal and checkpoint ─► replay ─► dirty logs, header by header
//!                                                       │
//!                       index ◄─ footers, or chunk by chunk
//!                         │
//!  ready ◄── checkpoint of what was found, completed by a superblock
//! ```
//!
//! Only slots that the table trusts come into the index, each under the descriptor that says
//! what it holds, so an unreadable piece of a clean segment costs warmth and nothing else. Where it cannot be known
//! what may be trusted (a page of the journal is missing, the host says that the cache was given
//! up), nothing is: the cache opens cold and says why. Dirty logs are found in spite of it, but a
//! log of which something is missing, or of which it is not known how much the origin has, is
//! locked until the operator decides.
//!
//! The first thing that the store does is a checkpoint. It leaves behind whatever the
//! last life left in the journal's ring, and nothing is asked of the store before it is complete.

mod chain;
mod inspect;
mod left;
mod logs;
mod segments;
mod tables;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::facts::Committed;
use crate::payload::Pages;
use crate::ports::{Ports, Tag};
use crate::store::Store;
use block_io::{BufPool, FlashDone, FlashOp, FlashVerb, IoError, Token};
use flash_format::SegmentIndex;
use flash_format::{FormatError, PAGE_BYTES, PageBytes, SUPERBLOCK_OFFSETS, Superblock};
pub use inspect::{DirtyReport, FoundBytes, FoundRecord, FoundWhat, Inspection, LogReport};
pub use left::LeftChunk;
use logs::{Logs, Wanted};
use segment_log::FlashWritten;
use segments::Segments;
use slab::Slab;
use std::collections::VecDeque;
use std::vec::Drain;
use tables::Tables;
use units::{Bytes, DiskId, Instant, Offset};

/// Reads in flight at a time: enough to keep any device busy while those before them are taken in, in 8 MiB of buffers.
const READS_MAX: usize = 256;

/// Why a flash could not be opened as a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It holds no cache that can be used.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It cannot be read or written.
    #[error("the flash device failed while the cache was being opened")]
    Io(#[source] IoError),
}

/// Why a cache came up with nothing in it although something was on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColdReason {
    /// The host recorded that this incarnation was given up while guests went on.
    #[error("the flash was given up after a failure while its VMs went on; what is on it is stale")]
    Retired,
    /// A page of the journal that must be there is missing or damaged.
    #[error("the journal is damaged, so it cannot be known which blocks are still right")]
    JournalDamaged,
    /// The host recorded that more had been durable on it than is found.
    #[error("the flash is an older copy of what it was, so what is on it may be stale")]
    OlderCopy,
}

/// A store, and what was found.
pub struct Recovered {
    /// The store. Nothing may be asked of it before `checkpoint` is complete: it leaves behind what the
    /// last life has left in the journal's ring.
    pub store: Box<Store>,
    /// Number of its first checkpoint.
    pub checkpoint: u64,
    /// Blocks that came back.
    pub blocks: u64,
    /// Slots that were trusted but whose descriptors were lost or contradicted each other.
    pub blocks_lost: u64,
    /// Why nothing came back, if that is so.
    pub cold: Option<ColdReason>,
    /// Whether the last life ended with a clean stop.
    pub clean: bool,
    /// What the recovery has written.
    written: FlashWritten,
}

impl Recovered {
    /// The ports of the store from now on.
    pub fn ports<T: Tag<Payload = Pages>>(&mut self, pool: BufPool, now: Instant) -> Ports<T> {
        let mut ports = Ports::new(pool, now);
        let counted = &mut ports.stats_mut().flash_written;
        counted.descriptors += self.written.descriptors;
        counted.dirty += self.written.dirty;
        self.store.write_back().make_found_durable(&mut ports);
        ports
    }
}

impl std::fmt::Debug for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Recovered({} blocks, {} lost, cold: {:?})",
            self.blocks, self.blocks_lost, self.cold
        )
    }
}

/// What a read is for.
#[derive(Clone, Copy, Debug)]
enum What {
    Superblock(usize),
    Journal { first: u64 },
    Checkpoint { first: u64 },
    Footer { segment: u32 },
    ChunkHeader { segment: u32, page: u32 },
    Log(LogPart),
}

/// What a read of a dirty log is for, or a write to it.
#[derive(Clone, Copy, Debug)]
enum LogPart {
    First(SegmentIndex),
    Header(SegmentIndex, u32),
    Search(SegmentIndex, u32, u32),
    Data(SegmentIndex, u32),
    Written,
}

struct Plan {
    what: What,
    offset: Offset,
    /// How much is read; nothing if `bytes` are written.
    pages: usize,
    bytes: Option<Vec<u8>>,
}

enum Stage {
    Superblocks([Option<Box<PageBytes>>; 2]),
    Tables(Box<Tables>),
    Logs(Box<Logs>),
    Segments(Box<Segments>),
    /// Somebody only wanted to look.
    Inspected(Box<DirtyReport>),
    /// The store is there, and has to write its first checkpoint.
    Found(Box<Recovered>),
    Failed(OpenError),
    Taken,
}

/// The state machine that opens a store: operations of the flash out, completions in.
pub struct Recovery {
    config: Config,
    capacity: Bytes,
    required: Option<u64>,
    /// The latest incarnation that has served, as far as the host knows.
    served: u64,
    /// How far its tables were durable, as far as the host knows.
    committed: Committed,
    /// What a killed process has left in memory.
    left: Vec<LeftChunk>,
    /// Disks whose dirty logs are void.
    void: Vec<DiskId>,
    /// Nothing is written, and no store is made.
    looks_only: bool,
    pool: BufPool,
    now: Instant,
    planned: VecDeque<Plan>,
    reads: Slab<What>,
    operations: Vec<FlashOp>,
    /// Chunks that a killed process had in memory only, written to flash.
    written: FlashWritten,
    stage: Stage,
}

impl Recovery {
    /// Begins to open the cache on a device of `capacity` bytes. `incarnation_required` is the
    /// least incarnation that the host still trusts, if it has recorded one for this cache.
    pub fn new(
        config: Config,
        capacity: Bytes,
        incarnation_required: Option<u64>,
        pool: BufPool,
        now: Instant,
    ) -> Self {
        let mut recovery = Self {
            config,
            capacity,
            required: incarnation_required,
            served: 0,
            committed: Committed::default(),
            left: Vec::new(),
            void: Vec::new(),
            looks_only: false,
            pool,
            now,
            planned: VecDeque::new(),
            reads: Slab::new(),
            operations: Vec::new(),
            written: FlashWritten::default(),
            stage: Stage::Superblocks([None, None]),
        };
        for (slot, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
            recovery.plan(What::Superblock(slot), offset, 1);
        }
        recovery.issue_planned();
        recovery
    }

    /// Says which incarnation of this flash was the latest to serve, as the host has recorded it. Flash
    /// with an earlier one is an older copy: what waits on it for an origin may not be all of it, and
    /// is locked. To be called before the first completion comes.
    pub fn set_served(&mut self, incarnation: u64) {
        self.served = incarnation;
    }

    /// Says how far the tables of this flash were durable at the least, as the host has recorded it.
    /// Flash that is not so far is an older copy: nothing on it is trusted, and what waits on it is
    /// locked. To be called before the first completion comes.
    pub fn set_committed(&mut self, committed: Committed) {
        self.committed = committed;
    }

    /// Hands over what a process that was killed has left in retained memory. To be called
    /// before the first completion comes.
    pub fn set_left(&mut self, left: Vec<LeftChunk>) {
        self.left = left;
    }

    /// Makes the dirty logs of these disks void, whatever is wrong with them, and drops their clean
    /// blocks: the operator has brought what the origins lack there, or gives it up. To be called
    /// before the first completion comes; it is done when the cache is ready.
    pub fn set_void(&mut self, disks: Vec<DiskId>) {
        self.void = disks;
    }

    /// Takes out what is to be carried out on the flash, in order.
    pub fn take_operations(&mut self) -> Drain<'_, FlashOp> {
        self.operations.drain(..)
    }

    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this recovery, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.now = now;
        let FlashDone {
            token, buf, result, ..
        } = done;
        let key = usize::try_from(token.0).expect("a token that this recovery gave out");
        let what = self.reads.remove(key);
        let bytes = match (&result, &buf) {
            (Ok(()), Some(buf)) => Some(&buf[..]),
            _ => None,
        };
        self.read_done(what, bytes, result.err());
        self.issue_planned();
        if self.reads.is_empty() && self.planned.is_empty() {
            self.next_stage();
            self.issue_planned();
        }
    }

    /// The store, when everything is read, or why there is none; once.
    pub fn finished(&mut self) -> Option<Result<Recovered, OpenError>> {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Failed(error) => Some(Err(error)),
            Stage::Found(recovered) => Some(Ok(*recovered)),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// How far the reading has come: parts done and parts in all, of the present stage.
    pub fn progress(&self) -> (u64, u64) {
        match &self.stage {
            Stage::Segments(segments) => segments.progress(),
            _ => (0, 0),
        }
    }

    fn plan(&mut self, what: What, offset: Offset, pages: usize) {
        self.planned.push_back(Plan {
            what,
            offset,
            pages,
            bytes: None,
        });
    }

    fn issue_planned(&mut self) {
        while self.reads.len() < READS_MAX {
            let Some(plan) = self.planned.pop_front() else {
                return;
            };
            let token = Token(self.reads.insert(plan.what) as u64);
            let verb = match plan.bytes {
                None => {
                    let bytes = plan.pages * PAGE_BYTES;
                    FlashVerb::Read {
                        offset: plan.offset,
                        length: Bytes::new(bytes as u64),
                        buf: self.pool.take(bytes),
                    }
                }
                Some(bytes) => {
                    self.written.descriptors += PAGE_BYTES as u64;
                    self.written.dirty += (bytes.len() - PAGE_BYTES) as u64;
                    FlashVerb::Write {
                        offset: plan.offset,
                        data: self.pool.copy_of(&bytes),
                        durable: true,
                    }
                }
            };
            self.operations.push(FlashOp { token, verb });
        }
    }

    fn read_done(&mut self, what: What, bytes: Option<&[u8]>, error: Option<IoError>) {
        match (&mut self.stage, what) {
            (Stage::Superblocks(slots), What::Superblock(slot)) => match (bytes, error) {
                (Some(bytes), _) => slots[slot] = Some(Box::new(page(bytes))),
                (None, error) => {
                    self.stage = Stage::Failed(OpenError::Io(error.unwrap_or(IoError::Failed)));
                }
            },
            (Stage::Tables(tables), What::Journal { first }) => tables.journal_read(first, bytes),
            (Stage::Tables(tables), What::Checkpoint { first }) => {
                tables.checkpoint_read(first, bytes);
            }
            (Stage::Segments(segments), What::Footer { segment }) => {
                if let Some((page, offset)) = segments.footer_read(segment, bytes) {
                    self.plan(What::ChunkHeader { segment, page }, offset, 1);
                }
            }
            (Stage::Segments(segments), What::ChunkHeader { segment, page }) => {
                if let Some((page, offset)) = segments.chunk_header_read(segment, page, bytes) {
                    self.plan(What::ChunkHeader { segment, page }, offset, 1);
                }
            }
            (Stage::Logs(logs), What::Log(part)) => {
                let next = match part {
                    LogPart::First(segment) => logs.first_read(segment, bytes),
                    LogPart::Header(segment, page) => logs.header_read(segment, page, bytes),
                    LogPart::Search(segment, page, count) => {
                        logs.search_read(segment, page, count, bytes)
                    }
                    LogPart::Data(segment, page) => logs.data_read(segment, page, bytes),
                    LogPart::Written => {
                        if let Some(error) = error {
                            self.stage = Stage::Failed(OpenError::Io(error));
                        }
                        None
                    }
                };
                if let (Some(wanted), Stage::Logs(logs)) = (next, &self.stage) {
                    let plan = plan_of(logs, wanted);
                    self.planned.push_back(plan);
                }
            }
            // A superblock failed already; what else was read does not matter.
            _ => {}
        }
    }

    fn next_stage(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Superblocks([Some(a), Some(b)]) => {
                match Superblock::choose([&a, &b], self.capacity) {
                    Ok(superblock) => self.read_tables(superblock),
                    Err(error) => self.stage = Stage::Failed(error.into()),
                }
            }
            Stage::Tables(tables) => {
                let replayed = tables.replay(self.required, self.served, self.committed);
                let left = std::mem::take(&mut self.left);
                let void = std::mem::take(&mut self.void);
                self.read_logs(Logs::new(replayed, left, void, self.looks_only));
            }
            Stage::Logs(logs) => self.read_logs(*logs),
            Stage::Segments(segments) => self.open(*segments),
            other => self.stage = other,
        }
    }

    fn read_tables(&mut self, superblock: Superblock) {
        let geometry = superblock.geometry;
        // Each step ends at a multiple of 64 pages, so that it never crosses the ring's end.
        for first in (0..geometry.journal_pages()).step_by(64) {
            let pages = (geometry.journal_pages() - first).min(64);
            self.plan(
                What::Journal { first },
                geometry.journal_page_offset(first),
                count(pages),
            );
        }
        for first in (0..geometry.checkpoint_pages()).step_by(64) {
            let pages = (geometry.checkpoint_pages() - first).min(64);
            let offset = geometry.checkpoint_page_offset(superblock.checkpoint_area, first);
            self.plan(What::Checkpoint { first }, offset, count(pages));
        }
        self.stage = Stage::Tables(Box::new(Tables::new(superblock)));
    }

    fn read_logs(&mut self, mut logs: Logs) {
        let Some(wanted) = logs.next() else {
            self.read_segments(logs);
            return;
        };
        let plans = wanted.into_iter().map(|wanted| plan_of(&logs, wanted));
        self.planned.extend(plans);
        self.stage = Stage::Logs(Box::new(logs));
    }

    fn read_segments(&mut self, logs: Logs) {
        let (replayed, found) = logs.into_found();
        if self.looks_only {
            let report = DirtyReport::of(&replayed, &found);
            self.stage = Stage::Inspected(Box::new(report));
            return;
        }
        let segments = Segments::new(replayed, &found, &self.config, self.now);
        for (segment, offset, pages) in segments.footers() {
            self.plan(What::Footer { segment }, offset, pages);
        }
        let nothing = self.planned.is_empty();
        self.stage = Stage::Segments(Box::new(segments));
        if nothing {
            self.next_stage();
        }
    }

    fn open(&mut self, segments: Segments) {
        let recovered = segments.into_store(self.config.clone(), self.written);
        self.stage = Stage::Found(Box::new(recovered));
    }
}

fn plan_of(logs: &Logs, wanted: Wanted) -> Plan {
    let read = |part, segment, page, pages: u32| Plan {
        what: What::Log(part),
        offset: logs.page_offset(segment, page),
        pages: count(u64::from(pages)),
        bytes: None,
    };
    match wanted {
        Wanted::First(segment) => read(LogPart::First(segment), segment, 0, 1),
        Wanted::Header(segment, page) => read(LogPart::Header(segment, page), segment, page, 1),
        Wanted::Search(segment, page, pages) => {
            read(LogPart::Search(segment, page, pages), segment, page, pages)
        }
        Wanted::Data(segment, page, pages) => {
            read(LogPart::Data(segment, page), segment, page + 1, pages)
        }
        Wanted::Write(segment, page, bytes) => Plan {
            bytes: Some(bytes),
            ..read(LogPart::Written, segment, page, 0)
        },
    }
}

fn count(pages: u64) -> usize {
    usize::try_from(pages).expect("at most 64")
}

fn page(bytes: &[u8]) -> PageBytes {
    bytes[..PAGE_BYTES].try_into().expect("a page has its size")
}
