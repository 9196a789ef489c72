//! What of dirty logs must be found again, and no more: every record that was accepted, by its place, and
//! how far the journal says durably that the origin has it.
//!
//! And what of them nobody would miss: chunks of which neither the journal nor a later chunk says
//! durably that they are durable. If the medium loses one of those, no one can tell it from a write
//! that was cut off, so it does not (`storage.rs`).

use crate::verbs::overlap;
use block_io::{FlashVerb, Token};
use cache::RetainedUpdate;
use flash_format::{
    DirtyChunkHeader, Geometry, JournalEntry, JournalPage, PAGE_BYTES, Position, RECORD_BYTES,
    RETAINED_HEAD_BYTES, SegmentIndex, SegmentKind,
};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, DiskSlot, Offset, Set};

type Chunk = ([u8; RETAINED_HEAD_BYTES], Vec<[u8; RECORD_BYTES]>);

/// What a write tells when it is durable.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// How far a disk's log is.
    To {
        disk: DiskSlot,
        to: Position,
        /// The origin has it.
        is_destaged: bool,
    },
    /// That a segment is a log's, from this use on.
    Opened(SegmentIndex, u64),
}

/// A chunk that nobody would miss.
#[derive(Clone, Debug)]
struct Unnamed {
    disk: DiskSlot,
    last: Position,
    place: Range<Offset>,
}

/// What the world knows of one cache's dirty logs. It outlives everything.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    chunks: Vec<Chunk>,
    /// The chunk that is gathered in each place.
    open: BTreeMap<u32, usize>,
    /// Durable entries: up to where the origin has everything.
    watermarks: BTreeMap<DiskSlot, Position>,
    /// Entries that are being written.
    on_their_way: BTreeMap<Token, Vec<Told>>,
    unnamed: Vec<Unnamed>,
    /// Segments and their uses of which the journal has said durably that they are a log's.
    opened: Set<(SegmentIndex, u64)>,
}

impl Accepted {
    pub(crate) fn note(&mut self, what: &RetainedUpdate) {
        match what {
            RetainedUpdate::Begin { place, head } => {
                self.open.insert(*place, self.chunks.len());
                self.chunks.push((*head, Vec::new()));
            }
            RetainedUpdate::Push { place, record, .. } => {
                let chunk = self.open[place];
                self.chunks[chunk].1.push(*record);
            }
            RetainedUpdate::Clear { .. } => {}
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
        let FlashVerb::Write {
            offset,
            data,
            durable,
        } = verb
        else {
            return;
        };
        let journal = geometry.journal_page_offset(0)..geometry.checkpoint_page_offset(0, 0);
        let segments = geometry.segment_offset(SegmentIndex::new(0));
        if journal.contains(offset) && *durable {
            self.on_their_way.insert(token, told_by_journal(data, uuid));
        } else if *offset >= segments {
            let told = self.writes_to_segment(*offset, data, geometry, uuid);
            if let (Some(told), true) = (told, *durable) {
                self.on_their_way.insert(token, vec![told]);
            }
        }
    }

    fn writes_to_segment(
        &mut self,
        offset: Offset,
        data: &[u8],
        geometry: &Geometry,
        uuid: u128,
    ) -> Option<Told> {
        let length = Bytes::new(data.len() as u64);
        let place = offset..offset + length;
        self.unnamed.retain(|chunk| !overlap(&chunk.place, &place));
        let within = offset - geometry.segment_offset(SegmentIndex::new(0));
        let number = within.get() / geometry.segment_bytes().get();
        let page = within.get() % geometry.segment_bytes().get() / PAGE_BYTES as u64;
        let is_footer = page == u64::from(geometry.segment_pages() - geometry.footer_pages());
        if is_footer || !data.starts_with(&DirtyChunkHeader::MAGIC) {
            return None;
        }
        let bytes = data.first_chunk::<PAGE_BYTES>()?;
        let header = self.chunks.iter().rev().find_map(|(head, _)| {
            let of = DirtyChunkHeader::from_retained(head, &[], geometry).ok()?;
            let (segment, generation) = (of.segment, of.generation);
            let is_it = (u64::from(segment.get()), u64::from(of.page)) == (number, page);
            let decode = || {
                DirtyChunkHeader::decode(bytes, geometry, uuid, segment, generation, of.page).ok()
            };
            is_it.then(decode).flatten()
        })?;
        self.unnamed.push(Unnamed {
            disk: header.disk,
            last: header.last(),
            place,
        });
        Some(Told::To {
            disk: header.disk,
            to: header.durable,
            is_destaged: false,
        })
    }

    /// Whether a recovery surely finds the chunks of this use of a segment.
    pub(crate) fn is_known(&self, chunk: &DirtyChunkHeader) -> bool {
        self.opened.contains(&(chunk.segment, chunk.generation))
    }

    /// Where chunks lie that nobody would miss.
    pub(crate) fn unnamed(&self) -> Vec<Range<Offset>> {
        self.unnamed
            .iter()
            .map(|chunk| chunk.place.clone())
            .collect()
    }

    /// Whether something is read there that nobody would miss.
    pub(crate) fn reads_unnamed(&self, verb: &FlashVerb) -> bool {
        let FlashVerb::Read { offset, length, .. } = verb else {
            return false;
        };
        let place = *offset..*offset + *length;
        self.unnamed
            .iter()
            .any(|chunk| overlap(&chunk.place, &place))
    }

    /// A flash operation has ended.
    pub(crate) fn ended(&mut self, token: Token, ok: bool) {
        for told in self.on_their_way.remove(&token).unwrap_or_default() {
            match told {
                _ if !ok => {}
                Told::Opened(segment, generation) => {
                    self.opened.insert((segment, generation));
                }
                Told::To {
                    disk,
                    to,
                    is_destaged,
                } => {
                    self.unnamed
                        .retain(|chunk| chunk.disk != disk || chunk.last > to);
                    let watermark = self.watermarks.entry(disk).or_default();
                    if is_destaged && to > *watermark {
                        *watermark = to;
                    }
                }
            }
        }
    }

    /// The process has ended: nobody learns of what is on its way.
    pub(crate) fn process_ended(&mut self) {
        self.on_their_way.clear();
        self.open.clear();
    }

    /// Every chunk of which it is not durably known that the origin has it.
    pub(crate) fn waiting(&self, geometry: &Geometry) -> Vec<DirtyChunkHeader> {
        let headers = self.chunks.iter().filter_map(|(head, records)| {
            DirtyChunkHeader::from_retained(head, records, geometry).ok()
        });
        let waits = |header: &DirtyChunkHeader| {
            let watermark = self.watermarks.get(&header.disk);
            watermark.is_none_or(|watermark| header.last() > *watermark)
        };
        headers.filter(waits).collect()
    }

    /// The longest that the log of the disk in this slot can be after a start: a block for each
    /// record of which it is not durably known that the origin has it.
    pub(crate) fn logged_most(&self, disk: DiskSlot, geometry: &Geometry) -> Bytes {
        let watermark = self.watermarks.get(&disk).copied().unwrap_or_default();
        let headers = self.chunks.iter().filter_map(|(head, records)| {
            DirtyChunkHeader::from_retained(head, records, geometry).ok()
        });
        let mut above = 0;
        for header in headers.filter(|header| header.disk == disk) {
            let records = header.records();
            above += records.filter(|(at, _)| *at > watermark).count() as u64;
        }
        Bytes::new(above * PAGE_BYTES as u64)
    }
}

fn told_by_journal(data: &[u8], uuid: u128) -> Vec<Told> {
    let (pages, _) = data.as_chunks::<PAGE_BYTES>();
    let pages = pages.iter();
    let decoded = pages.filter_map(|page| JournalPage::decode(page, uuid).ok());
    let entries = decoded.flat_map(|page| page.entries);
    let told = entries.filter_map(|entry| {
        let (disk, to, is_destaged) = match entry {
            JournalEntry::Destaged { disk, to } => (disk, to, true),
            JournalEntry::Logged { disk, to } => (disk, to, false),
            JournalEntry::Open {
                segment,
                generation,
                kind: SegmentKind::Dirty,
                ..
            } => return Some(Told::Opened(segment, generation)),
            _ => return None,
        };
        Some(Told::To {
            disk,
            to,
            is_destaged,
        })
    });
    told.collect()
}
