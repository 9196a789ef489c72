//! The disk and segment tables: the latest checkpoint with the journal replayed on top.

use super::ColdReason;
use crate::facts::Committed;
use crate::guard::{Guard, holds};
use crate::limits::CHECKPOINTS_SKIPPED;
use flash_format::{
    CheckpointPage, DiskEntry, JournalEntry, JournalPage, PAGE_BYTES, SegmentEntry, SegmentIndex,
    SegmentKind, SegmentState, Superblock,
};
use std::collections::BTreeMap;
use units::{DiskSlot, FlashSlot};

/// What has been read so far.
pub(super) struct Tables {
    superblock: Superblock,
    journal: BTreeMap<u64, JournalPage>,
    /// Part of the journal could not be read: what it says is not known.
    journal_unread: bool,
    /// A page of the checkpoint is damaged or could not be read.
    checkpoint_damaged: bool,
    disks: Vec<Option<DiskEntry>>,
    segments: Vec<SegmentEntry>,
}

/// The tables as they were at the end of the last life.
pub(super) struct Replayed {
    pub(super) superblock: Superblock,
    pub(super) disks: Vec<Option<DiskEntry>>,
    pub(super) segments: Vec<SegmentEntry>,
    /// The first sequence number that no page of the ring has.
    pub(super) journal_next: u64,
    pub(super) cold: Option<ColdReason>,
    /// A part of the tables is lost: there may be segments of dirty logs that they do not know, and
    /// watermarks that are older than they should be.
    pub(super) in_doubt: bool,
}

impl Tables {
    pub(super) fn new(superblock: Superblock) -> Self {
        Self {
            journal: BTreeMap::new(),
            journal_unread: false,
            checkpoint_damaged: false,
            disks: vec![None; DiskSlot::COUNT],
            // Whatever cannot be read holds nothing that counts.
            segments: SegmentEntry::all_unused(&superblock.geometry),
            superblock,
        }
    }

    /// Pages of the ring from `first`; none if they cannot be read.
    pub(super) fn journal_read(&mut self, first: u64, bytes: Option<&[u8]>) {
        let ring = self.superblock.geometry.journal_pages();
        self.journal_unread |= bytes.is_none() && holds(Guard::UnreadJournal);
        let pages = bytes.map_or(&[][..], |bytes| bytes.as_chunks::<PAGE_BYTES>().0);
        for (place, bytes) in (first..ring).zip(pages) {
            if let Ok(page) = JournalPage::decode(bytes, self.superblock.uuid)
                && page.sequence % ring == place
                // What is older is in the checkpoint.
                && page.sequence >= self.superblock.replay_from
            {
                self.journal.insert(page.sequence, page);
            }
        }
    }

    /// Pages of the checkpoint from `first`; none if they cannot be read.
    pub(super) fn checkpoint_read(&mut self, first: u64, bytes: Option<&[u8]>) {
        let geometry = self.superblock.geometry;
        let pages = bytes.map_or(&[][..], |bytes| bytes.as_chunks::<PAGE_BYTES>().0);
        self.checkpoint_damaged |= bytes.is_none();
        for (number, bytes) in (first..geometry.checkpoint_pages()).zip(pages) {
            let (uuid, checkpoint) = (self.superblock.uuid, self.superblock.checkpoint);
            match CheckpointPage::decode(bytes, &geometry, uuid, checkpoint, number) {
                Ok(CheckpointPage::Disks(disks)) => {
                    if let Some(slots) = CheckpointPage::disks_of(number) {
                        self.disks[slots].clone_from_slice(&disks);
                    }
                }
                Ok(CheckpointPage::Segments(segments)) => {
                    let range = CheckpointPage::segments_of(&geometry, number);
                    self.segments[range.start as usize..range.end as usize]
                        .clone_from_slice(&segments);
                }
                Err(_) => self.checkpoint_damaged = true,
            }
        }
    }

    /// Replays the journal. Nothing is trusted if the host requires a later incarnation, or if a
    /// page that was acknowledged is missing; segments of dirty logs stay what they are. They are in
    /// doubt if a later incarnation than this has served. Both if more was durable than is found.
    pub(super) fn replay(
        mut self,
        required: Option<u64>,
        served: u64,
        committed: Committed,
    ) -> Replayed {
        let start = self.superblock.replay_from;
        let mut end = start;
        while self.journal.contains_key(&end) {
            end += 1;
        }
        let last_seen = self.journal.keys().next_back().copied().unwrap_or(0);
        // No page of the ring has a number this far behind the first one to replay. Had one been
        // missed, a later recovery would take it for the continuation of what is written now.
        let beyond_ring = start + self.superblock.geometry.journal_pages();
        let journal_next = if self.journal_unread {
            beyond_ring.max(last_seen + 1)
        } else {
            end.max(last_seen + 1)
        };
        let stale = required.is_some_and(|required| self.superblock.incarnation < required);
        let found = Committed {
            superblock: self.superblock.sequence,
            journal: journal_next,
        };
        let went_back = committed.is_beyond(found) && holds(Guard::CommittedIsThere);
        let cold = if stale && holds(Guard::Incarnation) {
            Some(ColdReason::Retired)
        } else if (self.journal_unread || self.lost_a_page(end)) && holds(Guard::JournalGap) {
            Some(ColdReason::JournalDamaged)
        } else if went_back {
            Some(ColdReason::OlderCopy)
        } else {
            None
        };
        let is_old_copy = self.superblock.incarnation < served && holds(Guard::OldCopyIsDoubt);
        let is_damaged = self.checkpoint_damaged || self.journal_unread || self.lost_a_page(end);
        let in_doubt = is_damaged || is_old_copy || went_back;
        let entries: Vec<JournalEntry> = self
            .journal
            .range(start..end)
            .flat_map(|(_, page)| page.entries.clone())
            .collect();
        for entry in entries {
            self.apply(entry);
        }
        // Without its disk's entry a segment's blocks would be taken for those of the next disk
        // that gets the slot.
        let disks = &self.disks;
        for segment in &mut self.segments {
            let orphan = disks[segment.disk.index()].is_none();
            if cold.is_some() || (orphan && holds(Guard::SegmentNeedsItsDisk)) {
                segment.trusted.fill(0);
                // The chunks of a dirty log say themselves whose it is.
                if segment.state != SegmentState::Used(SegmentKind::Dirty) {
                    segment.state = SegmentState::Free;
                }
            }
        }
        // Each life has an incarnation of its own: a copy of this flash from an earlier life is
        // then told apart by what the host has recorded.
        // What is required may be one that an earlier life has had, so this is above that too.
        let known = self.superblock.incarnation.max(required.unwrap_or(0));
        self.superblock.incarnation = known.saturating_add(1);
        // Lives of which these tables know nothing have numbered checkpoints of their own after this one, and
        // opened segments under these numbers. What is left of them must not be taken for what is written now.
        let is_behind = went_back || is_old_copy || stale;
        if is_behind && holds(Guard::NumbersAreSkipped) {
            self.superblock.checkpoint += CHECKPOINTS_SKIPPED;
        }
        Replayed {
            superblock: self.superblock,
            disks: self.disks,
            segments: self.segments,
            journal_next,
            in_doubt,
            cold,
        }
    }

    /// Whether a page at or behind `end` was acknowledged. One batch is written at a time, so a
    /// page of a batch that began after the gap shows that the gap's batch had been durable.
    fn lost_a_page(&self, end: u64) -> bool {
        let later_batch = self.journal.range(end..).any(|(_, page)| page.batch > end);
        later_batch
            || self
                .superblock
                .clean_end
                .is_some_and(|clean_end| clean_end != end)
    }

    fn apply(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::Open {
                segment,
                disk,
                generation,
                kind,
            } => {
                if let Some(entry) = self.segments.get_mut(segment.index()) {
                    *entry = SegmentEntry {
                        state: SegmentState::Used(kind),
                        disk,
                        generation,
                        cut: None,
                        trusted: vec![0; entry.trusted.len()],
                    };
                }
            }
            JournalEntry::Free { segment, .. } => {
                if let Some(entry) = self.segments.get_mut(segment.index()) {
                    entry.state = SegmentState::Free;
                    entry.trusted.fill(0);
                }
            }
            JournalEntry::Trust { first, count } => self.set(first, count, true),
            JournalEntry::Distrust { first, count } => self.set(first, count, false),
            JournalEntry::Destaged { disk, to } => {
                if let Some(entry) = &mut self.disks[disk.index()] {
                    entry.destaged = entry.destaged.max(to);
                }
            }
            JournalEntry::Logged { disk, to } => {
                if let Some(entry) = &mut self.disks[disk.index()] {
                    entry.logged = entry.logged.max(to);
                }
            }
        }
    }

    fn set(&mut self, first: FlashSlot, count: u32, trusted: bool) {
        let pages = self.superblock.geometry.segment_pages();
        let end = u64::from(first.get()) + u64::from(count);
        for slot in u64::from(first.get())..end.min(self.superblock.geometry.slots()) {
            let number = u32::try_from(slot).expect("slots are 32-bit numbers");
            let (segment, page) = (SegmentIndex::new(number / pages), number % pages);
            self.segments[segment.index()].set_trusted(page, trusted);
        }
    }
}
