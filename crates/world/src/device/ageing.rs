//! What befalls a cache's flash when its process has ended: pages that rot or cannot be read, an old copy
//! that is put back, and what flash that lies loses with its power.

use super::CacheDevice;
use crate::run::Run;
use crate::settings::{Special, pick};
use crate::storage::Handle;
use cache::Committed;
use flash_format::{DirtyChunkHeader, JournalPage, PAGE_BYTES, SUPERBLOCK_OFFSETS, SegmentIndex};
use units::{Bytes, Offset};

/// A chunk of a dirty log that is on flash.
struct OnFlash {
    header: DirtyChunkHeader,
    offset: Offset,
}

impl CacheDevice {
    /// What a crash found half done on flash.
    pub(crate) fn mark_writes_in_flight(&self, run: &mut Run) {
        let journal = self.geometry.journal_page_offset(0);
        let checkpoints = self.geometry.checkpoint_page_offset(0, 0);
        let segments = self.geometry.segment_offset(SegmentIndex::new(0));
        let handles = self.handle.iter();
        for offset in handles.flat_map(Handle::writes_in_flight) {
            run.hit(match offset {
                _ if offset < journal => "superblock in flight at a crash",
                _ if offset < checkpoints => "journal page in flight at a crash",
                _ if offset < segments => "checkpoint in flight at a crash",
                _ => "blocks in flight at a crash",
            });
        }
    }

    /// Somebody copies the flash between two lives, and puts the copy back after a later one.
    pub(crate) fn put_back_an_old_copy(&mut self, run: &mut Run) {
        if !run.settings().old_copies {
            return;
        }
        if let Some(copy) = self.old_copy.take() {
            if run.one_in(2) {
                run.hit("old copy of the flash put back");
                self.is_suspect = true;
                self.flash.poke(Offset::ZERO, &copy);
                run.event(&[15], || "an old copy of the flash is put back".to_owned());
            }
        } else if run.one_in(2) {
            let mut copy = vec![0; self.geometry.capacity().to_usize()];
            self.flash.peek(Offset::ZERO, &mut copy);
            self.old_copy = Some(copy);
        }
    }

    /// Something befalls a page of a dirty log, or of the journal.
    pub(crate) fn rot_at_rest(&mut self, run: &mut Run) {
        self.flash.make_readable();
        if run.special() != Special::Rotten || !run.one_in(2) {
            return;
        }
        if run.one_in(3) {
            self.journal_rots(run);
            return;
        }
        let chunks = self.chunks_on_flash();
        if chunks.is_empty() {
            return;
        }
        let chosen = pick(run.dice(), &chunks);
        let pages = 1 + u64::from(chosen.header.blocks()).min(1);
        let page = Bytes::new(run.below(pages) * PAGE_BYTES as u64);
        let at = chosen.offset + page;
        let named = chunks.iter().any(|other| {
            other.header.disk == chosen.header.disk
                && other.header.durable >= chosen.header.last()
                && self.accepted.is_known(&other.header)
        });
        // What nothing behind it says was durable passes for torn if it rots.
        if named && run.one_in(2) {
            run.hit("dirty log rots");
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(at, &mut bytes);
            let byte = run.index(PAGE_BYTES);
            bytes[byte] ^= 1 << run.below(8);
            self.flash.poke(at, &bytes);
        } else {
            run.hit("dirty log cannot be read");
            self.flash
                .make_unreadable(at..at + Bytes::new(PAGE_BYTES as u64));
        }
        self.is_suspect = true;
        run.event(&[24, at.get()], || {
            format!("the flash's page at {at} is spoilt")
        });
    }

    /// A page of the journal that is not the newest rots: the newest would leave no trace.
    fn journal_rots(&mut self, run: &mut Run) {
        let mut pages = self.journal_pages();
        let mut bytes = [0; PAGE_BYTES];
        let Some((_, newest)) = pages.pop() else {
            return;
        };
        // Older ones are in the checkpoint.
        let recent = &pages[pages.len().saturating_sub(6)..];
        if recent.is_empty() {
            return;
        }
        let (_, at) = *pick(run.dice(), recent);
        run.hit("journal rots");
        self.is_suspect = true;
        // A power cut must not take the newest page, if it is not durable, and the trace with it.
        self.flash.peek(newest, &mut bytes);
        self.flash.poke(newest, &bytes);
        self.flash.peek(at, &mut bytes);
        bytes[PAGE_BYTES / 2] ^= 1;
        self.flash.poke(at, &bytes);
        run.event(&[25, at.get()], || {
            format!("the journal's page at {at} rots")
        });
    }

    /// Every chunk of a dirty log that is whole on flash and not known to be at its origin.
    fn chunks_on_flash(&self) -> Vec<OnFlash> {
        let geometry = &self.geometry;
        let mut found = Vec::new();
        for header in self.accepted.waiting(geometry) {
            let offset = geometry.segment_offset(header.segment)
                + Bytes::new(u64::from(header.page) * PAGE_BYTES as u64);
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(offset, &mut bytes);
            let (segment, generation, page) = (header.segment, header.generation, header.page);
            let uuid = self.uuid;
            let there = DirtyChunkHeader::decode(&bytes, geometry, uuid, segment, generation, page);
            if let Ok(header) = there {
                found.push(OnFlash { header, offset });
            }
        }
        found
    }

    /// Whether a power cut may take what it has said was durable.
    pub(crate) fn lies_about_durability(&self) -> bool {
        self.flash.lies_about_durability()
    }

    /// The power of flash that lies is about to be cut. What it loses then has to be found out, so it
    /// keeps what leaves no trace: the newest superblock and the newest page of the journal, unless the
    /// host has recorded them, and chunks of dirty logs of which nobody says that they are durable.
    /// `committed` is how far the process knows its tables to be durable.
    pub(crate) fn spare_what_leaves_no_trace(
        &mut self,
        committed: Option<Committed>,
        run: &mut Run,
    ) {
        self.is_suspect = true;
        let page = Bytes::new(PAGE_BYTES as u64);
        if committed != Some(self.committed) {
            for at in SUPERBLOCK_OFFSETS {
                self.flash.make_durable(at, at + page);
            }
        }
        // The process may have died before it knew of the newest page: the host has not recorded that.
        match self.journal_pages().pop() {
            Some((number, newest)) if number >= self.committed.journal => {
                run.hit("lying flash spares the newest page");
                self.flash.make_durable(newest, newest + page);
            }
            _ => run.hit("lying flash spares nothing"),
        }
        for chunk in self.accepted.unnamed() {
            self.flash.make_durable(chunk.start, chunk.end);
        }
    }

    /// The pages of the journal that are whole, by their numbers, and where they lie.
    fn journal_pages(&self) -> Vec<(u64, Offset)> {
        let mut bytes = [0; PAGE_BYTES];
        let mut pages = Vec::new();
        for number in 0..self.geometry.journal_pages() {
            let offset = self.geometry.journal_page_offset(number);
            self.flash.peek(offset, &mut bytes);
            if let Ok(page) = JournalPage::decode(&bytes, self.uuid) {
                pages.push((page.sequence, offset));
            }
        }
        pages.sort_unstable();
        pages
    }
}
