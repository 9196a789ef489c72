//! Checkpoints: the disk and segment tables written out, so that the journal can start anew.
//!
//! Pages are encoded and written step by step while the cache goes on. That is right because
//! the journal is replayed from the checkpoint's start: entries that a page already contains
//! change nothing when they are applied again. Of trust and of watermarks a page has what is durable
//! in the journal and no more ([`Snapshot`](crate::snapshot::Snapshot)): each entry is true only with those before it, and a watermark behind an
//! erasure, without the entry that distrusts what was erased, would bring that back. That a segment
//! was opened is true at once.
//!
//! The superblock completes the checkpoint. Until then the previous one counts.

use crate::guard::{Guard, holds};
use crate::journal::Journal;
use crate::limits::CHECKPOINT_STEP_PAGES;
use std::ops::Range;

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

    /// Of tables that are on no flash: nothing was found there that has to be kept first.
    pub(crate) fn of_nothing() -> Self {
        Self {
            complete: 1,
            ..Self::new(0, 0, 0)
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
    #[inline]
    pub(crate) fn has_found(&self) -> bool {
        self.complete > self.found || !holds(Guard::TablesBeforeJournal)
    }

    /// Whether something may have to be written.
    #[inline]
    pub(crate) fn is_due(&self, journal: &Journal) -> bool {
        self.wanted || self.running.is_some() || journal.wants_checkpoint()
    }

    /// What is to be written next, if something is; `pages` is the length of a checkpoint. Whoever writes
    /// it says when it is durable.
    pub(crate) fn next_step(&mut self, journal: &Journal, pages: u64) -> Option<Step> {
        let wanted = self.wanted || journal.wants_checkpoint();
        if self.running.is_none() && wanted {
            self.wanted = false;
            self.running = Some(Running {
                number: self.complete + 1,
                area: 1 - self.area,
                replay_from: journal.checkpoint_start(),
                next_page: 0,
                clean: std::mem::take(&mut self.wanted_clean),
                busy: false,
            });
        }
        let running = self.running.as_mut().filter(|running| !running.busy)?;
        running.busy = true;
        let (number, area, first) = (running.number, running.area, running.next_page);
        if first < pages {
            let count = (pages - first).min(CHECKPOINT_STEP_PAGES);
            running.next_page = first + count;
            return Some(Step::Pages {
                number,
                area,
                pages: first..first + count,
            });
        }
        self.superblock_sequence += 1;
        Some(Step::Superblock {
            sequence: self.superblock_sequence,
            number,
            area,
            replay_from: running.replay_from,
            // With entries queued the stop would not be clean: then it is an ordinary checkpoint.
            clean_end: (running.clean && journal.is_idle()).then(|| journal.next_sequence()),
        })
    }

    /// Pages are durable.
    pub(crate) fn pages_durable(&mut self) {
        if let Some(running) = &mut self.running {
            running.busy = false;
        }
    }

    /// The superblock is durable, and with it the checkpoint is complete. Returns from which page on the
    /// journal has to be kept.
    ///
    /// # Panics
    /// If no checkpoint was running.
    pub(crate) fn complete_now(&mut self) -> u64 {
        let running = self.running.take().expect("a checkpoint was running");
        self.complete = running.number;
        self.superblock_durable = self.superblock_sequence;
        self.area = running.area;
        running.replay_from
    }
}

/// What is to be written of a checkpoint.
pub(crate) enum Step {
    /// These pages of it.
    Pages {
        number: u64,
        area: u8,
        pages: Range<u64>,
    },
    /// The superblock that completes it.
    Superblock {
        sequence: u64,
        number: u64,
        area: u8,
        replay_from: u64,
        /// Where the journal ends if the stop is clean.
        clean_end: Option<u64>,
    },
}
