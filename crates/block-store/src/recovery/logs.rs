//! The dirty logs: every chunk of theirs on flash and in retained memory, read header by header.
//!
//! ```text
//!  tables doubtful ─► first page of every segment ─┐
//!  tables ─────────────────────────────────────────┴► headers of dirty segments ─► chains
//!                                                                                    │
//!  segments: clean or dirty, cut or free; disks: records, locked or not ◄─ tail's data
//! ```
//!
//! A walk goes from header to header. Where one is not whole it looks at every page that follows:
//! a later header tells whether what is missing was durable, and where the log goes on if the
//! origin has what is missing.
//!
//! What a medium returns may be wrong once: before anything of a log is given up for torn or
//! damaged it has been read [`READS_MAX`] times.
//!
//! Nothing is written here but chunks that a killed process had in memory only.

mod conclude;

use super::chain::{self, Chunk, Data};
use super::left::LeftChunk;
use super::tables::Replayed;
use crate::guard::{Guard, holds};
pub(super) use conclude::FoundLog;
use flash_format::{
    DirtyChunkHeader, DirtyRecord, DiskEntry, Geometry, PAGE_BYTES, Position, SegmentEntry,
    SegmentIndex, SegmentKind, SegmentState, checksum,
};
use std::collections::BTreeMap;
use units::{Bytes, DiskId, DiskSlot, Offset};

/// Pages that are read at a time where no header says how far it is to the next.
const SEARCH_PAGES: u32 = 64;

/// How often a part of a log is read before it is taken for what it seems to be.
const READS_MAX: u32 = 3;

/// What is to be read, or written, in a segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wanted {
    /// The first page of a segment.
    First(SegmentIndex),
    /// A page where a header may be.
    Header(SegmentIndex, u32),
    /// So many pages among which a header may be.
    Search(SegmentIndex, u32, u32),
    /// The blocks of a chunk: its header's page, and how many.
    Data(SegmentIndex, u32, u32),
    /// A chunk that is to be written durably: its header's page, its bytes.
    Write(SegmentIndex, u32, Vec<u8>),
}

/// What was found in a segment.
#[derive(Default)]
pub(super) struct Walk {
    chunks: BTreeMap<u32, Chunk>,
    /// The last page that could not be read.
    unreadable: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Scan,
    Walk,
    Verify,
    Write,
    Done,
}

/// What has been read so far.
pub(super) struct Logs {
    replayed: Replayed,
    geometry: Geometry,
    phase: Phase,
    left: Vec<LeftChunk>,
    /// Nothing is to be written.
    looks_only: bool,
    /// Disks whose logs do not count any more.
    void: Vec<DiskId>,
    walks: BTreeMap<u32, Walk>,
    /// How often that was read again which was not whole.
    again: BTreeMap<Wanted, u32>,
    found: Vec<FoundLog>,
}

impl Logs {
    pub(super) fn new(
        replayed: Replayed,
        left: Vec<LeftChunk>,
        void: Vec<DiskId>,
        looks_only: bool,
    ) -> Self {
        Self {
            geometry: replayed.superblock.geometry,
            replayed,
            phase: Phase::Scan,
            left,
            looks_only,
            void,
            walks: BTreeMap::new(),
            again: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn uuid(&self) -> u128 {
        self.replayed.superblock.uuid
    }

    /// Where a page of a segment is.
    pub(super) fn page_offset(&self, segment: SegmentIndex, page: u32) -> Offset {
        self.geometry.segment_offset(segment) + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    /// What is to be done next, when everything that was asked for has been: none if that is all.
    pub(super) fn next(&mut self) -> Option<Vec<Wanted>> {
        loop {
            let (wanted, next) = match self.phase {
                Phase::Scan => (self.scan(), Phase::Walk),
                Phase::Walk => (self.begin_walks(), Phase::Verify),
                Phase::Verify => (self.tails(), Phase::Write),
                Phase::Write => (self.conclude(), Phase::Done),
                Phase::Done => return None,
            };
            self.phase = next;
            if !wanted.is_empty() {
                return Some(wanted);
            }
        }
    }

    /// Segments of dirty logs that the tables do not know are looked for if these cannot be
    /// believed.
    fn scan(&self) -> Vec<Wanted> {
        if !self.replayed.in_doubt {
            return Vec::new();
        }
        let all = (0..self.geometry.segment_count()).map(SegmentIndex::new);
        all.map(Wanted::First).collect()
    }

    /// The first page of a segment has come.
    pub(super) fn first_read(
        &mut self,
        segment: SegmentIndex,
        bytes: Option<&[u8]>,
    ) -> Option<Wanted> {
        if bytes.is_none() {
            return self.once_more(Wanted::First(segment));
        }
        let page = bytes.and_then(|bytes| bytes.first_chunk::<PAGE_BYTES>());
        let header = page.and_then(|page| {
            DirtyChunkHeader::decode_first(page, &self.geometry, self.uuid(), segment).ok()
        });
        if let Some(header) = header {
            self.adopt(&header);
        }
        None
    }

    /// Takes a segment for a part of the log whose chunk was found in it, if that may be.
    fn adopt(&mut self, header: &DirtyChunkHeader) -> bool {
        let entry = &self.replayed.segments[header.segment.index()];
        let known = &mut self.replayed.disks[header.disk.index()];
        let is_its = known.as_ref().is_none_or(|disk| disk.id == header.id);
        let watermark = known.as_ref().map_or(Position::START, |disk| disk.destaged);
        let listed = entry.state == SegmentState::Used(SegmentKind::Dirty)
            && entry.generation == header.generation
            && entry.disk == header.disk;
        // A segment that was freed has the generation of its last use.
        let is_new = entry.generation < header.generation;
        if !is_its || !(listed || is_new) || header.generation < watermark.generation {
            return false;
        }
        known.get_or_insert_with(|| DiskEntry {
            id: header.id,
            name: String::new(),
            size: header.size,
            fingerprint: None,
            epoch: header.epoch,
            destaged: Position::START,
            logged: Position::START,
            in_doubt: true,
            key: None,
        });
        let entry = &mut self.replayed.segments[header.segment.index()];
        if is_new {
            *entry = SegmentEntry {
                state: SegmentState::Used(SegmentKind::Dirty),
                disk: header.disk,
                generation: header.generation,
                cut: None,
                trusted: vec![0; entry.trusted.len()],
            };
        }
        true
    }

    fn begin_walks(&mut self) -> Vec<Wanted> {
        for left in std::mem::take(&mut self.left) {
            let Some(mut header) = left.header(&self.geometry) else {
                continue;
            };
            // A cut is of the segment as it is used now.
            if !self.adopt(&header) || header.page >= self.pages_end(header.segment) {
                continue;
            }
            let disk = self.replayed.disks[header.disk.index()].as_ref();
            header.size = disk.map_or(header.size, |disk| disk.size);
            let walk = self.walks.entry(header.segment.get()).or_default();
            let chunk = Chunk {
                data: Data::Whole,
                left: Some(left),
                header,
            };
            walk.chunks.insert(chunk.header.page, chunk);
        }
        let mut wanted = Vec::new();
        for (number, entry) in (0..).zip(&self.replayed.segments) {
            if entry.state != SegmentState::Used(SegmentKind::Dirty) {
                continue;
            }
            let disk = self.replayed.disks[entry.disk.index()].as_ref();
            let watermark = disk.map_or(Position::START, |disk| disk.destaged);
            if entry.generation >= watermark.generation {
                let segment = SegmentIndex::new(number);
                self.walks.entry(number).or_default();
                wanted.push(Wanted::Header(segment, 0));
            }
        }
        wanted
    }

    /// Where the pages of a segment end in which chunks may be.
    fn pages_end(&self, segment: SegmentIndex) -> u32 {
        let room = self.geometry.segment_pages() - self.geometry.footer_pages();
        let cut = self.replayed.segments[segment.index()].cut;
        let cut = cut.filter(|_| holds(Guard::CutStays));
        cut.map_or(room, |cut| cut.min(room))
    }

    /// A page where a header may be has come.
    pub(super) fn header_read(
        &mut self,
        segment: SegmentIndex,
        page: u32,
        bytes: Option<&[u8]>,
    ) -> Option<Wanted> {
        let found = bytes.and_then(|bytes| self.decode(segment, page, bytes));
        let is_left = self.walks.get(&segment.get())?.chunks.contains_key(&page);
        if found.is_none() && !is_left {
            let again = self.once_more(Wanted::Header(segment, page));
            if again.is_some() {
                return again;
            }
        }
        let walk = self.walks.get_mut(&segment.get())?;
        if bytes.is_none() {
            walk.unreadable = Some(page);
        }
        let left = walk.chunks.get(&page).map(|chunk| &chunk.header);
        let next = match (found, left) {
            // What is in memory is what was to be written here, and perhaps more.
            (_, Some(left)) => page + 1 + left.blocks(),
            (Some(header), None) => {
                let next = page + 1 + header.blocks();
                let chunk = Chunk {
                    header,
                    data: Data::Unread,
                    left: None,
                };
                walk.chunks.insert(page, chunk);
                next
            }
            (None, None) => return self.search(segment, page + 1),
        };
        (next < self.pages_end(segment)).then_some(Wanted::Header(segment, next))
    }

    /// The same again, unless it was read often enough.
    fn once_more(&mut self, wanted: Wanted) -> Option<Wanted> {
        let reads = self.again.entry(wanted.clone()).or_insert(1);
        *reads += 1;
        (*reads <= READS_MAX && holds(Guard::ReadAgain)).then_some(wanted)
    }

    fn decode(&self, segment: SegmentIndex, page: u32, bytes: &[u8]) -> Option<DirtyChunkHeader> {
        let entry = &self.replayed.segments[segment.index()];
        let bytes = bytes.first_chunk::<PAGE_BYTES>()?;
        let (uuid, generation) = (self.uuid(), entry.generation);
        let header =
            DirtyChunkHeader::decode(bytes, &self.geometry, uuid, segment, generation, page)
                .ok()?;
        let disk = self.replayed.disks[header.disk.index()].as_ref();
        let is_its = disk.is_none_or(|disk| disk.id == header.id);
        (header.disk == entry.disk && is_its).then_some(header)
    }

    /// Looks for the next header from a page on.
    fn search(&self, segment: SegmentIndex, page: u32) -> Option<Wanted> {
        let left = self.pages_end(segment).checked_sub(page)?;
        (left > 0).then(|| Wanted::Search(segment, page, left.min(SEARCH_PAGES)))
    }

    /// Pages among which a header may be have come.
    pub(super) fn search_read(
        &mut self,
        segment: SegmentIndex,
        first: u32,
        count: u32,
        bytes: Option<&[u8]>,
    ) -> Option<Wanted> {
        if bytes.is_none() {
            let again = self.once_more(Wanted::Search(segment, first, count));
            if again.is_some() {
                return again;
            }
        }
        let walk = self.walks.get_mut(&segment.get())?;
        let end = first + count;
        if bytes.is_none() {
            walk.unreadable = Some(end - 1);
        }
        let left = walk.chunks.range(first..end).next().map(|(page, _)| *page);
        let pages = bytes.unwrap_or_default().chunks_exact(PAGE_BYTES);
        let mut pages = (first..end).zip(pages);
        let found = pages.find(|(page, bytes)| self.decode(segment, *page, bytes).is_some());
        let found = found.map(|(page, _)| page);
        match found.into_iter().chain(left).min() {
            Some(page) => Some(Wanted::Header(segment, page)),
            None => self.search(segment, end),
        }
    }

    /// The blocks of a chunk have come.
    pub(super) fn data_read(
        &mut self,
        segment: SegmentIndex,
        page: u32,
        bytes: Option<&[u8]>,
    ) -> Option<Wanted> {
        let chunks = self.found.iter_mut().flat_map(|log| &mut log.chunks);
        let of = |chunk: &&mut Chunk| (chunk.header.segment, chunk.header.page) == (segment, page);
        let chunk = chunks.into_iter().find(of)?;
        chunk.data = bytes.map_or(Data::Unreadable, |bytes| {
            let mut pages = bytes.chunks_exact(PAGE_BYTES);
            let is_right = |record: &DirtyRecord| match record {
                DirtyRecord::Data(at) => {
                    let page = pages.next();
                    page.is_some_and(|page| checksum(page) == at.checksum)
                }
                DirtyRecord::Erasure(_) => true,
            };
            if chunk.header.records.iter().all(is_right) || !holds(Guard::TailChecksum) {
                Data::Whole
            } else {
                Data::Torn
            }
        });
        let (is_whole, blocks) = (chunk.data == Data::Whole, chunk.header.blocks());
        if is_whole {
            return None;
        }
        self.once_more(Wanted::Data(segment, page, blocks))
    }

    pub(super) fn unreadable(&self, disk: DiskSlot) -> Option<Position> {
        let places = self.walks.iter().filter_map(|(number, walk)| {
            let entry = &self.replayed.segments[SegmentIndex::new(*number).index()];
            let page = walk.unreadable.filter(|_| entry.disk == disk)?;
            Some(Position::of_page(entry.generation, page))
        });
        places.max()
    }

    /// Sorts what the walks found by disks, and asks for the blocks of what may be torn.
    fn tails(&mut self) -> Vec<Wanted> {
        let mut logs: BTreeMap<DiskSlot, Vec<Chunk>> = BTreeMap::new();
        for (number, walk) in &mut self.walks {
            let entry = &self.replayed.segments[SegmentIndex::new(*number).index()];
            let chunks = std::mem::take(&mut walk.chunks);
            logs.entry(entry.disk)
                .or_default()
                .extend(chunks.into_values());
        }
        let mut wanted = Vec::new();
        for (disk, mut chunks) in logs {
            chunks.sort_by_key(|chunk| chunk.header.last());
            let entry = self.replayed.disks[disk.index()].as_ref();
            let watermark = entry.map_or(Position::START, |entry| entry.destaged);
            let logged = entry.map_or(Position::START, |entry| entry.logged);
            let durable = chain::durable(logged.max(watermark), &chunks);
            let end = chain::end(watermark, logged, &chunks, self.unreadable(disk));
            for Chunk { header, left, .. } in &chunks[..end.chunks] {
                if left.is_none() && header.last() > durable && header.blocks() > 0 {
                    let data = Wanted::Data(header.segment, header.page, header.blocks());
                    wanted.push(data);
                }
            }
            self.found.push(FoundLog {
                disk,
                watermark,
                logged,
                chunks,
                is_damaged: false,
                in_doubt: (entry.is_none_or(|entry| entry.in_doubt) || self.replayed.in_doubt)
                    && holds(Guard::DoubtLocks),
            });
        }
        wanted
    }
}
