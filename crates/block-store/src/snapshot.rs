//! The tables as a checkpoint that is written now has them.
//!
//! Of trust a page has what is durable in the journal and no more: each entry is true only with those
//! before it.

use crate::chunks::Segments;
use crate::disks::DiskTable;
use crate::guard::{Guard, holds};
use crate::journal::Journal;
use crate::ports::Payload;
use crate::trust::Trust;
use flash_format::{CheckpointPage, Geometry, JournalEntry, SegmentEntry, SegmentIndex};

/// What the tables are made of.
pub(crate) struct Snapshot<'a, P: Payload> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) disks: &'a DiskTable,
    pub(crate) segments: &'a Segments<P>,
    pub(crate) trust: &'a Trust,
    pub(crate) journal: &'a Journal,
}

impl<P: Payload> Snapshot<'_, P> {
    /// A page of a checkpoint that is written now.
    pub(crate) fn page(&self, page: u64) -> CheckpointPage {
        if let Some(slots) = CheckpointPage::disks_of(page) {
            CheckpointPage::Disks(self.disks.part(slots))
        } else {
            let segments = CheckpointPage::segments_of(self.geometry, page);
            let first = segments.start;
            let mut entries: Vec<SegmentEntry> = segments
                .map(SegmentIndex::new)
                .map(|n| self.trust.entry(n, self.segments.table().get(n)))
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
