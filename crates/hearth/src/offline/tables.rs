//! The disk and segment tables of a cache on flash: its latest checkpoint with the journal
//! replayed on top, and whatever is wrong with either.

use super::check::Faults;
use daemon::page;
use flash_format::{
    CheckpointPage, Damage, DiskEntry, JournalEntry, JournalPage, SegmentEntry, SegmentIndex,
    SegmentState, Superblock,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use units::{DiskSlot, FlashSlot};

/// The tables as recovery would see them.
pub(super) struct Tables {
    pub(super) disks: Vec<Option<DiskEntry>>,
    pub(super) segments: Vec<SegmentEntry>,
    pub(super) journal_pages: u64,
    /// Whether the journal is whole, so that the tables may be believed.
    pub(super) believed: bool,
}

impl Tables {
    pub(super) fn read(
        file: &File,
        superblock: &Superblock,
        faults: &mut Faults,
    ) -> io::Result<Self> {
        let mut tables = Self {
            disks: vec![None; DiskSlot::COUNT],
            segments: SegmentEntry::all_unused(&superblock.geometry),
            journal_pages: 0,
            believed: true,
        };
        tables.read_checkpoint(file, superblock, faults)?;
        tables.replay_journal(file, superblock, faults)?;
        Ok(tables)
    }

    fn read_checkpoint(
        &mut self,
        file: &File,
        superblock: &Superblock,
        faults: &mut Faults,
    ) -> io::Result<()> {
        let geometry = &superblock.geometry;
        for number in 0..geometry.checkpoint_pages() {
            let offset = geometry.checkpoint_page_offset(superblock.checkpoint_area, number);
            let bytes = page(file, offset)?;
            let decoded = CheckpointPage::decode(
                &bytes,
                geometry,
                superblock.uuid,
                superblock.checkpoint,
                number,
            );
            match decoded {
                Ok(CheckpointPage::Disks(disks)) => {
                    if let Some(slots) = CheckpointPage::disks_of(number) {
                        self.disks[slots].clone_from_slice(&disks);
                    }
                }
                Ok(CheckpointPage::Segments(segments)) => {
                    let range = CheckpointPage::segments_of(geometry, number);
                    for (index, segment) in range.zip(segments) {
                        self.segments[SegmentIndex::new(index).index()] = segment;
                    }
                }
                Err(damage) => faults.add(format!(
                    "page {number} of checkpoint {} at {}: {damage}",
                    superblock.checkpoint,
                    offset.get()
                )),
            }
        }
        Ok(())
    }

    fn replay_journal(
        &mut self,
        file: &File,
        superblock: &Superblock,
        faults: &mut Faults,
    ) -> io::Result<()> {
        let geometry = &superblock.geometry;
        let mut pages = BTreeMap::new();
        for place in 0..geometry.journal_pages() {
            let offset = geometry.journal_page_offset(place);
            match JournalPage::decode(&page(file, offset)?, superblock.uuid) {
                Ok(found) if found.sequence % geometry.journal_pages() == place => {
                    pages.insert(found.sequence, found);
                }
                // Never written, or written by an earlier cache on this flash.
                Err(Damage::Absent | Damage::Misplaced) => {}
                Ok(_) => faults.note(format!("journal page at {}: misplaced", offset.get())),
                // The last batch before a power cut may be torn; a gap before it is told below.
                Err(damage) => {
                    faults.note(format!("journal page at {}: {damage}", offset.get()));
                }
            }
        }
        let mut end = superblock.replay_from;
        while let Some(found) = pages.get(&end) {
            for entry in &found.entries {
                self.apply(superblock, *entry);
            }
            end += 1;
        }
        self.journal_pages = end - superblock.replay_from;
        if pages.range(end..).any(|(_, found)| found.batch > end) {
            self.believed = false;
            faults.add(format!(
                "journal page {end} is missing, later ones are there"
            ));
        }
        if let Some(clean_end) = superblock.clean_end
            && clean_end != end
        {
            self.believed = false;
            faults.add(format!(
                "the cache was stopped cleanly with journal page {clean_end} next, but {end} is"
            ));
        }
        Ok(())
    }

    fn apply(&mut self, superblock: &Superblock, entry: JournalEntry) {
        match entry {
            JournalEntry::Open {
                segment,
                disk,
                generation,
                kind,
            } => {
                if let Some(entry) = self.segments.get_mut(segment.index()) {
                    entry.state = SegmentState::Used(kind);
                    entry.cut = None;
                    entry.disk = disk;
                    entry.generation = generation;
                    entry.trusted.fill(0);
                }
            }
            JournalEntry::Free { segment, .. } => {
                if let Some(entry) = self.segments.get_mut(segment.index()) {
                    entry.state = SegmentState::Free;
                    entry.trusted.fill(0);
                }
            }
            JournalEntry::Trust { first, count } => self.set(superblock, first, count, true),
            JournalEntry::Distrust { first, count } => self.set(superblock, first, count, false),
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

    fn set(&mut self, superblock: &Superblock, first: FlashSlot, count: u32, trusted: bool) {
        let pages = superblock.geometry.segment_pages();
        let end = first.get().saturating_add(count);
        for slot in first.get()..end {
            let Some(segment) = self
                .segments
                .get_mut(SegmentIndex::new(slot / pages).index())
            else {
                return;
            };
            segment.set_trusted(slot % pages, trusted);
        }
    }
}
