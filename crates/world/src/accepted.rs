//! What of dirty logs must be found again, and no more: every record that was accepted, by its place, and
//! how far the journal says durably that the origin has it.

use block_io::{FlashVerb, Token};
use cache::Lasting;
use flash_format::{
    DirtyChunkHeader, Geometry, JournalEntry, JournalPage, LASTING_HEAD_BYTES, PAGE_BYTES,
    Position, RECORD_BYTES,
};
use std::collections::BTreeMap;
use units::{Bytes, DiskSlot};

type Chunk = ([u8; LASTING_HEAD_BYTES], Vec<[u8; RECORD_BYTES]>);

/// What the world knows of one cache's dirty logs. It outlives everything.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    chunks: Vec<Chunk>,
    /// The chunk that is gathered in each place.
    open: BTreeMap<u32, usize>,
    /// Durable entries: up to where the origin has everything.
    watermarks: BTreeMap<DiskSlot, Position>,
    /// Entries that are being written.
    on_their_way: BTreeMap<Token, Vec<(DiskSlot, Position)>>,
    pub(crate) blocks: u64,
}

impl Accepted {
    pub(crate) fn hear(&mut self, what: &Lasting) {
        match what {
            Lasting::Begin { place, head } => {
                self.open.insert(*place, self.chunks.len());
                self.chunks.push((*head, Vec::new()));
            }
            Lasting::Push {
                place,
                record,
                page,
            } => {
                let chunk = self.open[place];
                self.chunks[chunk].1.push(*record);
                self.blocks += u64::from(page.is_some());
            }
            Lasting::Clear { .. } => {}
        }
    }

    /// The cache writes to flash.
    pub(crate) fn writes(
        &mut self,
        token: Token,
        verb: &FlashVerb,
        geometry: &Geometry,
        uuid: u128,
    ) {
        let journal = geometry.journal_page_offset(0)..geometry.checkpoint_page_offset(0, 0);
        let FlashVerb::Write {
            offset,
            data,
            durable: true,
        } = verb
        else {
            return;
        };
        if !journal.contains(offset) {
            return;
        }
        let (pages, _) = data.as_chunks::<PAGE_BYTES>();
        let pages = pages.iter();
        let decoded = pages.filter_map(|page| JournalPage::decode(page, uuid).ok());
        let entries = decoded.flat_map(|page| page.entries);
        let moved = entries.filter_map(|entry| match entry {
            JournalEntry::Destaged { disk, to } => Some((disk, to)),
            _ => None,
        });
        self.on_their_way.insert(token, moved.collect());
    }

    /// A flash operation has ended.
    pub(crate) fn ended(&mut self, token: Token, ok: bool) {
        for (disk, to) in self.on_their_way.remove(&token).unwrap_or_default() {
            let watermark = self.watermarks.entry(disk).or_default();
            if ok && to > *watermark {
                *watermark = to;
            }
        }
    }

    /// The process has ended: nobody hears of what is on its way.
    pub(crate) fn process_ended(&mut self) {
        self.on_their_way.clear();
        self.open.clear();
    }

    /// The longest that the log of the disk in this slot can be after a start: a block for each
    /// record of which it is not durably known that the origin has it.
    pub(crate) fn logged_most(&self, disk: DiskSlot, geometry: &Geometry) -> Bytes {
        let watermark = self.watermarks.get(&disk).copied().unwrap_or_default();
        let headers = self.chunks.iter().filter_map(|(head, records)| {
            DirtyChunkHeader::from_lasting(head, records, geometry).ok()
        });
        let mut above = 0;
        for header in headers.filter(|header| header.disk == disk) {
            let records = header.records();
            above += records.filter(|(at, _)| *at > watermark).count() as u64;
        }
        Bytes::new(above * PAGE_BYTES as u64)
    }
}
