//! Checkpoints: the disk and segment tables written out, so that the journal can start anew.
//!
//! Pages are encoded and written step by step while the cache goes on. That is right because
//! the journal is replayed from the checkpoint's start: entries that a page already contains
//! change nothing when they are applied again. Of trust and of watermarks a page has what is durable
//! in the journal and no more: each entry is true only with those before it, and a watermark behind an
//! erasure, without the entry that distrusts what was erased, would bring that back. That a segment
//! was opened is true at once.
//!
//! The superblock completes the checkpoint. Until then the previous one counts.

use crate::guard::{Guard, holds};
use crate::limits::CHECKPOINT_STEP_PAGES;
use crate::ports::{Errand, Ports};
use crate::store::Store;
use flash_format::{
    CheckpointPage, JournalEntry, PAGE_BYTES, SegmentEntry, SegmentIndex, Superblock,
};

struct Running {
    number: u64,
    area: u8,
    replay_from: u64,
    next_page: u64,
    clean: bool,
    /// A write is on its way.
    busy: bool,
}

/// The latest checkpoint, and the one being written.
pub(crate) struct Checkpoint {
    complete: u64,
    /// The one that was complete when the cache was opened.
    found: u64,
    area: u8,
    superblock_sequence: u64,
    /// The same of the one that is durable.
    superblock_durable: u64,
    wanted: bool,
    wanted_clean: bool,
    running: Option<Running>,
}

impl Checkpoint {
    /// After recovery: checkpoint `complete` is in `area`.
    pub(crate) fn new(complete: u64, area: u8, superblock_sequence: u64) -> Self {
        Self {
            complete,
            found: complete,
            area,
            superblock_sequence,
            superblock_durable: superblock_sequence,
            wanted: false,
            wanted_clean: false,
            running: None,
        }
    }

    /// Asks for a checkpoint of the tables as they are now. Returns its number.
    pub(crate) fn want(&mut self) -> u64 {
        self.wanted = true;
        self.complete + 1 + u64::from(self.running.is_some())
    }

    /// Asks for the last checkpoint before a clean stop.
    pub(crate) fn want_clean(&mut self) -> u64 {
        self.wanted_clean = true;
        self.want()
    }

    /// Number of the latest complete checkpoint.
    pub(crate) fn complete(&self) -> u64 {
        self.complete
    }

    /// The sequence number of the latest superblock that is durable.
    pub(crate) fn superblock_durable(&self) -> u64 {
        self.superblock_durable
    }

    /// Whether the tables on flash are those that this process has found or made.
    pub(crate) fn has_found(&self) -> bool {
        self.complete > self.found || !holds(Guard::TablesBeforeJournal)
    }
}

impl Store {
    pub(crate) fn pump_checkpoint<T>(&mut self, ports: &mut Ports<T>) {
        let wanted = self.checkpoint.wanted || self.journal.wants_checkpoint();
        if self.checkpoint.running.is_none() && wanted {
            self.checkpoint.wanted = false;
            self.checkpoint.running = Some(Running {
                number: self.checkpoint.complete + 1,
                area: 1 - self.checkpoint.area,
                replay_from: self.journal.checkpoint_start(),
                next_page: 0,
                clean: std::mem::take(&mut self.checkpoint.wanted_clean),
                busy: false,
            });
        }
        if self
            .checkpoint
            .running
            .as_ref()
            .is_some_and(|running| !running.busy)
        {
            self.write_checkpoint_step(ports);
        }
    }

    fn write_checkpoint_step<T>(&mut self, ports: &mut Ports<T>) {
        let total = self.geometry.checkpoint_pages();
        let running = self
            .checkpoint
            .running
            .as_mut()
            .expect("a checkpoint is running");
        running.busy = true;
        let (first, number, area) = (running.next_page, running.number, running.area);
        ports.wake_at(ports.now + self.config.flash_timeout);
        if first == total {
            self.write_superblock(ports);
            return;
        }
        let count = (total - first).min(CHECKPOINT_STEP_PAGES);
        running.next_page = first + count;
        let bytes = usize::try_from(count).expect("at most 64") * PAGE_BYTES;
        let mut buf = ports.pool.take(bytes);
        for (page, to) in (first..).zip(buf[..bytes].chunks_exact_mut(PAGE_BYTES)) {
            let encoded =
                self.checkpoint_page(page)
                    .encode(&self.geometry, self.uuid, number, page);
            to.copy_from_slice(&encoded);
        }
        ports.count_written(None, |written| written.checkpoint += bytes as u64);
        let offset = self.geometry.checkpoint_page_offset(area, first);
        ports.flash_write(
            Errand::CheckpointPages,
            offset,
            buf.freeze().slice(0..bytes),
            true,
        );
    }

    /// A page of a checkpoint that is written now.
    pub(crate) fn checkpoint_page(&self, page: u64) -> CheckpointPage {
        if let Some(slots) = CheckpointPage::disks_of(page) {
            CheckpointPage::Disks(self.disks.part(slots))
        } else {
            let segments = CheckpointPage::segments_of(&self.geometry, page);
            let first = segments.start;
            let mut entries: Vec<SegmentEntry> = segments
                .map(SegmentIndex::new)
                .map(|n| {
                    let cut = self.cuts.get(&n).copied();
                    self.trusted.entry(n, self.log.segment(n), cut)
                })
                .collect();
            self.take_back_pending(first, &mut entries);
            CheckpointPage::Segments(entries)
        }
    }

    /// Leaves of the trusted slots of segments `first` and on what the journal has durably.
    fn take_back_pending(&self, first: u32, entries: &mut [SegmentEntry]) {
        if !holds(Guard::CheckpointIsDurable) {
            return;
        }
        for queued in self.journal.pending() {
            let (slot, count, trusted) = match queued.entry {
                JournalEntry::Trust { first, count } => (first, count, false),
                JournalEntry::Distrust { first, count } => (first, count, true),
                _ => continue,
            };
            let segment = self.geometry.segment_of(slot).get();
            let Some(entry) = segment
                .checked_sub(first)
                .and_then(|nth| entries.get_mut(nth as usize))
                .filter(|entry| entry.generation == queued.generation)
            else {
                continue;
            };
            for page in (self.geometry.page_of(slot)..).take(count as usize) {
                entry.set_trusted(page, trusted);
            }
        }
    }

    fn write_superblock<T>(&mut self, ports: &mut Ports<T>) {
        let running = self
            .checkpoint
            .running
            .as_ref()
            .expect("a checkpoint is running");
        // With entries queued the stop would not be clean: then it is an ordinary checkpoint.
        let clean = running.clean && self.journal.is_idle();
        let superblock = Superblock {
            uuid: self.uuid,
            sequence: self.checkpoint.superblock_sequence + 1,
            geometry: self.geometry,
            incarnation: self.incarnation,
            checkpoint: running.number,
            checkpoint_area: running.area,
            replay_from: running.replay_from,
            clean_end: clean.then(|| self.journal.next_sequence()),
        };
        self.checkpoint.superblock_sequence = superblock.sequence;
        ports.count_written(None, |written| written.checkpoint += PAGE_BYTES as u64);
        let page = ports.pool.copy_of(&superblock.encode());
        ports.flash_write(Errand::Superblock, superblock.offset(), page, true);
    }

    /// Pages of the running checkpoint are durable, or have failed to be.
    pub(crate) fn checkpoint_pages_done<T>(&mut self, ports: &mut Ports<T>, written: bool) {
        if !written {
            checkpoint_failed(ports);
        } else if let Some(running) = &mut self.checkpoint.running {
            running.busy = false;
        }
    }

    /// The superblock of the running checkpoint is durable, or has failed to be.
    pub(crate) fn superblock_done<T>(&mut self, ports: &mut Ports<T>, written: bool) {
        if !written {
            checkpoint_failed(ports);
            return;
        }
        let running = self
            .checkpoint
            .running
            .take()
            .expect("a checkpoint was running");
        self.checkpoint.complete = running.number;
        self.checkpoint.superblock_durable = self.checkpoint.superblock_sequence;
        self.checkpoint.area = running.area;
        self.journal.truncate(running.replay_from);
        ports.stats.checkpoints += 1;
    }
}

fn checkpoint_failed<T>(ports: &mut Ports<T>) {
    ports.stats.flash_errors += 1;
    ports.fail("a checkpoint could not be written");
}
