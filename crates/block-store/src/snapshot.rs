//! The tables as a checkpoint that is written now has them.
//!
//! Of trust a page has what is durable in the journal and no more: each entry is true only with those
//! before it.

use crate::chunks::Content;
use crate::disks::DiskTable;
use crate::guard::{Guard, holds};
use crate::index::Index;
use crate::journal::Journal;
use crate::trusted::Trusted;
use flash_format::{CheckpointPage, Geometry, JournalEntry, SegmentEntry, SegmentIndex};
use segment_log::SegmentLog;
use std::collections::BTreeMap;

/// What the tables are made of.
pub(crate) struct Snapshot<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) disks: &'a DiskTable,
    pub(crate) log: &'a SegmentLog<Index, Content>,
    pub(crate) trusted: &'a Trusted,
    pub(crate) cuts: &'a BTreeMap<SegmentIndex, u32>,
    pub(crate) journal: &'a Journal,
}

impl Snapshot<'_> {
    /// A page of a checkpoint that is written now.
    pub(crate) fn page(&self, page: u64) -> CheckpointPage {
        if let Some(slots) = CheckpointPage::disks_of(page) {
            CheckpointPage::Disks(self.disks.part(slots))
        } else {
            let segments = CheckpointPage::segments_of(self.geometry, page);
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
}
