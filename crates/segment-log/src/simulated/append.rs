//! Blocks that come in: into the open chunk of a stream, full chunks and footers counted as written.

use super::{Gathered, NOTHING, SimulatedLog, block_of};
use crate::append::{After, Placed, Sealed, Step};
use crate::index::Index;
use crate::streams::{Source, StreamKey};
use crate::written::FlashWritten;
use flash_format::SegmentIndex;
use std::ops::Range;
use units::{DiskSlot, FlashSlot};

impl SimulatedLog {
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        disk: DiskSlot,
        key: u32,
        source: Source,
        evicted: &mut impl FnMut(DiskSlot, u32),
    ) {
        let stream = StreamKey::of(disk, source);
        let Some(placed) = self.place(stream, key, source) else {
            self.chores.not_admitted += 1;
            self.reclaim(evicted);
            return;
        };
        self.log
            .enter(disk, block_of(key), placed.slot)
            .expect("a dense index is never full");
        if source == Source::Update {
            self.rest(key, placed.slot);
        }
        self.finish(stream, placed);
        if self.restless {
            self.restless = false;
            self.reclaim(evicted);
        }
        self.commits.pump(self.now);
    }

    pub(super) fn place(&mut self, stream: StreamKey, key: u32, source: Source) -> Option<Placed> {
        loop {
            match self.log.prepare(stream, self.now) {
                Step::Ready => break,
                Step::NoSegment => return None,
                Step::Close => self.close(stream),
                Step::Opened { segment, .. } => {
                    let slots = self.slots_of(segment);
                    self.contents[slots].fill(NOTHING);
                    self.commits.open(self.now);
                    self.wake_at(self.commits.due());
                    self.restless = true;
                }
                Step::ChunkOpened { .. } => self.wake_at(self.now + self.delays.write),
            }
        }
        let placed = self.log.place(stream, source, self.now);
        self.contents[placed.slot.index()] = key;
        if let Some(Gathered(sources)) = self.log.content_mut(stream) {
            sources.push(source);
        }
        Some(placed)
    }

    /// The slots of a segment, as indices.
    pub(super) fn slots_of(&self, segment: SegmentIndex) -> Range<usize> {
        let pages = self.log.geometry().segment_pages() as usize;
        segment.index() * pages..(segment.index() + 1) * pages
    }

    /// What has to be done after a block was placed and entered.
    pub(super) fn finish(&mut self, stream: StreamKey, placed: Placed) {
        match placed.after {
            After::Nothing => {}
            After::Seal => self.seal(stream),
            After::Close => self.close(stream),
        }
    }

    pub(super) fn seal(&mut self, stream: StreamKey) {
        let Some(sealed) = self.log.seal(stream) else {
            return;
        };
        let content = self.log.content_mut(stream).expect("the stream is open");
        let sources = std::mem::take(&mut content.0);
        self.written.count_chunk(&sealed);
        self.note(stream.disk, |written| written.count_chunk(&sealed));
        self.log.write_ended(sealed.segment);
        if sealed.blocks_of(Source::Fill) > 0 {
            self.trust_fills(stream.disk, &sealed, &sources);
        }
        self.commits.pump(self.now);
    }

    pub(super) fn note(&mut self, disk: DiskSlot, count: impl FnOnce(&mut FlashWritten)) {
        if let Some(untold) = &mut self.untold {
            let mut written = FlashWritten::default();
            count(&mut written);
            untold.push((disk, written));
        }
    }

    /// Trusts the fills of a chunk that are still in the index.
    fn trust_fills(&mut self, disk: DiskSlot, chunk: &Sealed, sources: &[Source]) {
        let mut run: Option<(FlashSlot, u32)> = None;
        for (page, source) in (chunk.page + 1..).zip(sources) {
            let slot = self.log.geometry().slot(chunk.segment, page);
            let block = block_of(self.contents[slot.index()]);
            let fresh = *source == Source::Fill && self.log.index().get(disk, block) == Some(slot);
            run = match run {
                Some((first, count)) if fresh => Some((first, count + 1)),
                None if fresh => Some((slot, 1)),
                Some((first, count)) => {
                    self.trust(first, count);
                    None
                }
                None => None,
            };
        }
        if let Some((first, count)) = run {
            self.trust(first, count);
        }
    }

    pub(super) fn close(&mut self, stream: StreamKey) {
        self.seal(stream);
        if let Some(closed) = self.log.close(stream) {
            let footer_pages = self.log.geometry().footer_pages();
            self.written.count_footer(footer_pages);
            self.note(stream.disk, |written| written.count_footer(footer_pages));
            self.log.write_ended(closed.segment);
            self.restless = true;
        }
    }
}
