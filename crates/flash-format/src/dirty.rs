//! Chunks of a dirty log: records of writes that the origin may not have yet, in the order in
//! which they were accepted, behind a page that says what they are.
//!
//! ```text
//! page p        header: disk, epoch, what it follows, how far the log was durable, records
//! page p+1..    the blocks of those records that have bytes
//! ```
//!
//! The disk's identity and size are in each header, so that what is dirty is found even if the
//! disk table is lost. `follows` names the record before the chunk's first, so a chunk that is
//! missing shows by the one behind it.
//!
//! A chunk that is still gathered lives in retained memory, as a *head* and
//! its records ([`DirtyChunkHeader::retained_head`], [`DirtyRecord::to_bytes`]).

use crate::page::{self, BODY_BYTES, COUNTER_END, HEADER_BYTES, Header, Magic, PageBytes};
use crate::segment::{CHUNK_BLOCKS_MAX, Descriptor, check_place, disk_of};
use crate::{DISK_BYTES_MAX, Damage, Geometry, PAGE_BYTES, Position, SegmentIndex};
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskId, DiskSlot};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How blocks are erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErasureKind {
    /// The guest no longer needs them; until the origin knows they read as zeroes.
    Discard,
    /// They read as zeroes from now on.
    Zeroes {
        /// Whether the origin may deallocate them.
        may_unmap: bool,
    },
}

/// A run of whole blocks that is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Erasure {
    /// The first of them.
    pub first: BlockIndex,
    /// How many; not zero.
    pub blocks: u32,
    /// How.
    pub kind: ErasureKind,
}

/// What a guest did to whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyRecord {
    /// It wrote a block: the descriptor says which, and where its bytes are.
    Data(Descriptor),
    /// It erased some.
    Erasure(Erasure),
}

/// The page in front of a chunk of a dirty log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyChunkHeader {
    /// In which segment.
    pub segment: SegmentIndex,
    /// Of which generation.
    pub generation: u64,
    /// Whose log, by its slot in the disk table ...
    pub disk: DiskSlot,
    /// The page where the header itself is.
    pub page: u32,
    /// ... and by its identity.
    pub id: DiskId,
    /// The disk's size.
    pub size: Bytes,
    /// In which period of being attached it was written.
    pub epoch: u64,
    /// A flush was answered between the record before its first one and that one.
    pub begins_interval: bool,
    /// The record before its first one: the watermark, if all before were destaged.
    pub follows: Position,
    /// Everything up to here was durable on flash when the header was made.
    pub durable: Position,
    /// What was done, in order; blocks lie in the pages behind the header in the same order.
    pub records: Vec<DirtyRecord>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) id: U128,
    pub(crate) size: U64,
    pub(crate) epoch: U64,
    pub(crate) follows_generation: U64,
    pub(crate) durable_generation: U64,
    pub(crate) follows_page: U16,
    pub(crate) follows_erasure: U16,
    pub(crate) durable_page: U16,
    pub(crate) durable_erasure: U16,
    pub(crate) begins_interval: u8,
    pub(crate) zero: [u8; 7],
}

const _: () = assert!(size_of::<RawHeader>() == 64);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRetained {
    id: U128,
    epoch: U64,
    generation: U64,
    follows_generation: U64,
    segment: U32,
    page: U16,
    disk: U16,
    follows_page: U16,
    follows_erasure: U16,
    begins_interval: u8,
    zero: [u8; 11],
}

/// Bytes of what retained memory keeps of a chunk beside its records.
pub const RETAINED_HEAD_BYTES: usize = size_of::<RawRetained>();
/// Bytes of a record.
pub const RECORD_BYTES: usize = size_of::<Raw>();

const _: () = assert!(RETAINED_HEAD_BYTES == 64 && RECORD_BYTES == 16);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Raw {
    pub(crate) block: U64,
    /// The block's checksum, or how many blocks are erased.
    pub(crate) low: U32,
    pub(crate) page: U16,
    pub(crate) kind: u8,
    pub(crate) zero: u8,
}

const DATA: u8 = 0;
const DISCARD: u8 = 1;
const ZEROES: u8 = 2;
const ZEROES_UNMAP: u8 = 3;

const RECORDS_OFFSET: usize = HEADER_BYTES + size_of::<RawHeader>();

/// Records that a header describes at most; not more than [`CHUNK_BLOCKS_MAX`] of them have bytes.
pub const RECORDS_PER_CHUNK_MAX: usize = (BODY_BYTES - size_of::<RawHeader>()) / size_of::<Raw>();

const _: () = assert!(CHUNK_BLOCKS_MAX as usize <= RECORDS_PER_CHUNK_MAX);

/// The records of a chunk with their positions.
pub type DirtyRecords<'a> = Box<dyn Iterator<Item = (Position, &'a DirtyRecord)> + 'a>;

impl DirtyChunkHeader {
    /// How its page begins.
    pub const MAGIC: [u8; 8] = Magic::DIRTY_CHUNK.0;

    /// The records with their positions, in order.
    pub fn records(&self) -> DirtyRecords<'_> {
        let mut last = Position::of_page(self.generation, self.page);
        Box::new(self.records.iter().map(move |record| {
            last = match record {
                DirtyRecord::Data(at) => Position::of_page(self.generation, at.page),
                DirtyRecord::Erasure(_) => last.next_erasure(),
            };
            (last, record)
        }))
    }

    /// The position of its last record; of the header itself while it has none.
    pub fn last(&self) -> Position {
        let header = Position::of_page(self.generation, self.page);
        self.records().last().map_or(header, |(at, _)| at)
    }

    /// How many of the records have bytes: so many pages follow the header.
    ///
    /// # Panics
    /// Never: a page has few records.
    pub fn blocks(&self) -> u32 {
        let data = |record: &&DirtyRecord| matches!(record, DirtyRecord::Data(_));
        u32::try_from(self.records.iter().filter(data).count()).expect("a page has few records")
    }

    /// The page for the cache `uuid`, sealed.
    ///
    /// # Panics
    /// If there are more than [`RECORDS_PER_CHUNK_MAX`] records.
    pub fn encode(&self, uuid: u128) -> PageBytes {
        let mut bytes = [0; PAGE_BYTES];
        for (place, record) in self.records.iter().enumerate() {
            store(&mut bytes, place, record);
        }
        let count = u32::try_from(self.records.len()).expect("it was checked");
        self.seal(&mut bytes, uuid, count);
        bytes
    }

    /// What retained memory keeps of it beside the records: not the disk's size, which the table
    /// has, nor how far the log is durable.
    ///
    /// # Panics
    /// If no segment has its page.
    pub fn retained_head(&self) -> [u8; RETAINED_HEAD_BYTES] {
        let raw = RawRetained {
            id: U128::new(self.id.to_u128()),
            epoch: U64::new(self.epoch),
            generation: U64::new(self.generation),
            follows_generation: U64::new(self.follows.generation),
            segment: U32::new(self.segment.get()),
            page: U16::new(u16::try_from(self.page).expect("a segment has at most 4096 pages")),
            disk: U16::new(self.disk.get()),
            follows_page: U16::new(self.follows.page),
            follows_erasure: U16::new(self.follows.erasure),
            begins_interval: u8::from(self.begins_interval),
            zero: [0; 11],
        };
        zerocopy::transmute!(raw)
    }

    /// The header of a chunk that was found in retained memory with these records.
    ///
    /// # Errors
    /// [`Damage::Impossible`] and [`Damage::Misplaced`].
    pub fn from_retained(
        head: &[u8; RETAINED_HEAD_BYTES],
        records: &[[u8; RECORD_BYTES]],
        geometry: &Geometry,
    ) -> Result<Self, Damage> {
        let raw: RawRetained = zerocopy::transmute!(*head);
        if raw.segment.get() >= geometry.segment_count() {
            return Err(Damage::Misplaced);
        }
        let disk = raw.disk.get();
        let is_possible = usize::from(disk) < DiskSlot::COUNT
            && raw.generation.get() < COUNTER_END
            && raw.begins_interval <= 1
            && records.len() <= RECORDS_PER_CHUNK_MAX;
        if !is_possible {
            return Err(Damage::Impossible);
        }
        let found = Self {
            segment: SegmentIndex::new(raw.segment.get()),
            generation: raw.generation.get(),
            disk: DiskSlot::new(disk),
            page: u32::from(raw.page.get()),
            id: DiskId::from_u128(raw.id.get()),
            size: DISK_BYTES_MAX,
            epoch: raw.epoch.get(),
            begins_interval: raw.begins_interval == 1,
            follows: Position {
                generation: raw.follows_generation.get(),
                page: raw.follows_page.get(),
                erasure: raw.follows_erasure.get(),
            },
            durable: Position::START,
            records: records
                .iter()
                .map(|record| decode(&zerocopy::transmute!(*record)))
                .collect::<Result<_, _>>()?,
        };
        let is_possible = found.is_possible(geometry);
        is_possible.then_some(found).ok_or(Damage::Impossible)
    }

    /// What page `page` of a segment says.
    ///
    /// # Errors
    /// How it is damaged. [`Damage::Absent`] also if it is another kind of page.
    pub fn decode(
        bytes: &PageBytes,
        geometry: &Geometry,
        uuid: u128,
        segment: SegmentIndex,
        generation: u64,
        page: u32,
    ) -> Result<Self, Damage> {
        let header = page::open(bytes, Magic::DIRTY_CHUNK)?;
        check_place(&header, uuid, segment, generation, page)?;
        let found = Self::read(&header, bytes, geometry)?;
        if found.records.is_empty() {
            return Err(Damage::Impossible);
        }
        Ok(found)
    }

    /// What the first page of a segment says if it begins a part of a dirty log, whatever its
    /// generation: for when the segment table is lost.
    ///
    /// # Errors
    /// As of [`DirtyChunkHeader::decode`].
    pub fn decode_first(
        bytes: &PageBytes,
        geometry: &Geometry,
        uuid: u128,
        segment: SegmentIndex,
    ) -> Result<Self, Damage> {
        let header = page::open(bytes, Magic::DIRTY_CHUNK)?;
        let generation = header.sequence.get();
        Self::decode(bytes, geometry, uuid, segment, generation, 0)
    }

    fn seal(&self, bytes: &mut PageBytes, uuid: u128, count: u32) {
        let raw = RawHeader {
            id: U128::new(self.id.to_u128()),
            size: U64::new(self.size.get()),
            epoch: U64::new(self.epoch),
            follows_generation: U64::new(self.follows.generation),
            durable_generation: U64::new(self.durable.generation),
            follows_page: U16::new(self.follows.page),
            follows_erasure: U16::new(self.follows.erasure),
            durable_page: U16::new(self.durable.page),
            durable_erasure: U16::new(self.durable.erasure),
            begins_interval: u8::from(self.begins_interval),
            zero: [0; 7],
        };
        bytes[HEADER_BYTES..RECORDS_OFFSET].copy_from_slice(raw.as_bytes());
        let mut header = page::header(Magic::DIRTY_CHUNK, uuid, self.generation);
        header.place = U32::new(self.segment.get());
        header.part = U32::new(self.page);
        header.extra = U64::new(u64::from(self.disk.get()));
        header.count = U32::new(count);
        page::seal(bytes, header);
    }

    fn read(header: &Header, bytes: &PageBytes, geometry: &Geometry) -> Result<Self, Damage> {
        let raw = RawHeader::read_from_bytes(&bytes[HEADER_BYTES..RECORDS_OFFSET])
            .map_err(|_| Damage::Impossible)?;
        let count = header.count.get() as usize;
        let (records, _) = <[Raw]>::ref_from_prefix_with_elems(&bytes[RECORDS_OFFSET..], count)
            .map_err(|_| Damage::Impossible)?;
        let found = Self {
            segment: SegmentIndex::new(header.place.get()),
            generation: header.sequence.get(),
            disk: disk_of(header)?,
            page: header.part.get(),
            id: DiskId::from_u128(raw.id.get()),
            size: Bytes::new(raw.size.get()),
            epoch: raw.epoch.get(),
            begins_interval: raw.begins_interval == 1,
            follows: Position {
                generation: raw.follows_generation.get(),
                page: raw.follows_page.get(),
                erasure: raw.follows_erasure.get(),
            },
            durable: Position {
                generation: raw.durable_generation.get(),
                page: raw.durable_page.get(),
                erasure: raw.durable_erasure.get(),
            },
            records: records.iter().map(decode).collect::<Result<_, _>>()?,
        };
        if found.is_possible(geometry) && raw.begins_interval <= 1 {
            Ok(found)
        } else {
            Err(Damage::Impossible)
        }
    }

    fn is_possible(&self, geometry: &Geometry) -> bool {
        let room = geometry.segment_pages() - geometry.footer_pages();
        if self.page >= room || self.epoch >= COUNTER_END || self.size > DISK_BYTES_MAX {
            return false;
        }
        let here = Position::of_page(self.generation, self.page);
        let in_order = self.follows < here && self.durable <= self.follows;
        let blocks = self.size.get() / BLOCK_BYTES;
        let mut pages = (self.page + 1..room).take(CHUNK_BLOCKS_MAX as usize);
        let fits = self.records.iter().all(|record| match record {
            DirtyRecord::Data(at) => at.block.get() < blocks && pages.next() == Some(at.page),
            DirtyRecord::Erasure(erasure) => {
                let end = erasure.first.get() + u64::from(erasure.blocks);
                erasure.blocks > 0 && end <= blocks
            }
        });
        in_order && fits
    }
}

fn store(page: &mut PageBytes, place: usize, record: &DirtyRecord) {
    assert!(place < RECORDS_PER_CHUNK_MAX, "the records fit in the page");
    let at = RECORDS_OFFSET + place * size_of::<Raw>();
    page[at..at + size_of::<Raw>()].copy_from_slice(&record.to_bytes());
}

impl DirtyRecord {
    /// It as bytes, as a header has it.
    ///
    /// # Panics
    /// If no segment has its page.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        zerocopy::transmute!(raw(self))
    }
}

fn raw(record: &DirtyRecord) -> Raw {
    match record {
        DirtyRecord::Data(at) => Raw {
            block: U64::new(at.block.get()),
            low: U32::new(at.checksum),
            page: U16::new(u16::try_from(at.page).expect("a segment has at most 4096 pages")),
            kind: DATA,
            zero: 0,
        },
        DirtyRecord::Erasure(erasure) => Raw {
            block: U64::new(erasure.first.get()),
            low: U32::new(erasure.blocks),
            page: U16::ZERO,
            kind: match erasure.kind {
                ErasureKind::Discard => DISCARD,
                ErasureKind::Zeroes { may_unmap: false } => ZEROES,
                ErasureKind::Zeroes { may_unmap: true } => ZEROES_UNMAP,
            },
            zero: 0,
        },
    }
}

fn decode(raw: &Raw) -> Result<DirtyRecord, Damage> {
    if raw.block.get() >> BlockIndex::BITS != 0 {
        return Err(Damage::Impossible);
    }
    let block = BlockIndex::new(raw.block.get());
    let erasure = |kind| {
        DirtyRecord::Erasure(Erasure {
            first: block,
            blocks: raw.low.get(),
            kind,
        })
    };
    match raw.kind {
        DATA => Ok(DirtyRecord::Data(Descriptor {
            block,
            checksum: raw.low.get(),
            page: u32::from(raw.page.get()),
        })),
        DISCARD => Ok(erasure(ErasureKind::Discard)),
        ZEROES => Ok(erasure(ErasureKind::Zeroes { may_unmap: false })),
        ZEROES_UNMAP => Ok(erasure(ErasureKind::Zeroes { may_unmap: true })),
        _ => Err(Damage::Impossible),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: u128 = 77;

    fn geometry() -> Geometry {
        Geometry::new(Bytes::mib(64), Bytes::mib(1)).unwrap()
    }

    fn data(block: u64, page: u32) -> DirtyRecord {
        DirtyRecord::Data(Descriptor {
            block: BlockIndex::new(block),
            checksum: 0xdead_0000 + page,
            page,
        })
    }

    fn erasure(first: u64, blocks: u32, kind: ErasureKind) -> DirtyRecord {
        DirtyRecord::Erasure(Erasure {
            first: BlockIndex::new(first),
            blocks,
            kind,
        })
    }

    /// At page 10: a discard, block 5, zeroes over it, block 6.
    fn sample() -> DirtyChunkHeader {
        DirtyChunkHeader {
            segment: SegmentIndex::new(4),
            generation: 8,
            disk: DiskSlot::new(2),
            page: 10,
            id: DiskId::from_u128(0x1234),
            size: Bytes::gib(1),
            epoch: 3,
            begins_interval: true,
            follows: Position::of_page(8, 9),
            durable: Position {
                generation: 7,
                page: 200,
                erasure: 3,
            },
            records: vec![
                erasure(0, 262_144, ErasureKind::Discard),
                data(5, 11),
                erasure(4, 2, ErasureKind::Zeroes { may_unmap: true }),
                erasure(9, 1, ErasureKind::Zeroes { may_unmap: false }),
                data(6, 12),
            ],
        }
    }

    fn decode(header: &DirtyChunkHeader, bytes: &PageBytes) -> Result<DirtyChunkHeader, Damage> {
        let (segment, generation) = (header.segment, header.generation);
        DirtyChunkHeader::decode(bytes, &geometry(), UUID, segment, generation, header.page)
    }

    #[test]
    fn a_header_comes_back_only_in_its_place_and_time() {
        let header = sample();
        let bytes = header.encode(UUID);
        assert_eq!(decode(&header, &bytes), Ok(header.clone()));
        let other = |change: fn(&mut DirtyChunkHeader)| {
            let mut other = header.clone();
            change(&mut other);
            decode(&other, &bytes)
        };
        assert_eq!(other(|h| h.generation = 9), Err(Damage::Misplaced));
        assert_eq!(other(|h| h.page = 11), Err(Damage::Misplaced));
        let elsewhere = other(|h| h.segment = SegmentIndex::new(5));
        assert_eq!(elsewhere, Err(Damage::Misplaced));
        let mut torn = bytes;
        torn[RECORDS_OFFSET + 3] ^= 1;
        assert_eq!(decode(&header, &torn), Err(Damage::Checksum));
    }

    #[test]
    fn each_record_has_a_position_of_its_own() {
        let header = sample();
        let positions: Vec<(u16, u16)> = header
            .records()
            .map(|(at, _)| (at.page, at.erasure))
            .collect();
        assert_eq!(positions, [(10, 1), (11, 0), (11, 1), (11, 2), (12, 0)]);
        assert_eq!(header.last(), Position::of_page(8, 12));
        assert_eq!(header.blocks(), 2);
    }

    #[test]
    fn what_cannot_be_is_told_from_what_is_torn() {
        let changes: [fn(&mut DirtyChunkHeader); 8] = [
            |h| h.records.clear(),
            |h| h.records[4] = data(6, 13),
            |h| h.records[1] = data(262_144, 11),
            |h| h.records[0] = erasure(1, 262_144, ErasureKind::Discard),
            |h| h.records[0] = erasure(1, 0, ErasureKind::Discard),
            |h| h.follows = Position::of_page(8, 10),
            |h| h.durable = Position::of_page(8, 10),
            |h| h.size = DISK_BYTES_MAX + Bytes::new(1),
        ];
        for (place, change) in changes.into_iter().enumerate() {
            let mut header = sample();
            change(&mut header);
            let found = decode(&header, &header.encode(UUID));
            assert_eq!(found, Err(Damage::Impossible), "change {place}");
        }
    }

    #[test]
    fn the_first_page_of_a_segment_tells_its_generation() {
        let header = DirtyChunkHeader {
            page: 0,
            follows: Position::of_page(7, 201),
            records: vec![erasure(0, 1, ErasureKind::Discard)],
            ..sample()
        };
        let bytes = header.encode(UUID);
        let first = |segment| DirtyChunkHeader::decode_first(&bytes, &geometry(), UUID, segment);
        assert_eq!(first(header.segment), Ok(header.clone()));
        assert_eq!(first(SegmentIndex::new(3)), Err(Damage::Misplaced));
    }

    #[test]
    fn what_lasts_of_a_chunk_comes_back() {
        let header = DirtyChunkHeader {
            size: DISK_BYTES_MAX,
            durable: Position::START,
            ..sample()
        };
        let head = header.retained_head();
        let records: Vec<[u8; RECORD_BYTES]> =
            header.records.iter().map(DirtyRecord::to_bytes).collect();
        let read = |head: &[u8; RETAINED_HEAD_BYTES], records: &[[u8; RECORD_BYTES]]| {
            DirtyChunkHeader::from_retained(head, records, &geometry())
        };
        assert_eq!(read(&head, &records), Ok(header.clone()));
        let few = read(&head, &records[..2]).unwrap();
        assert_eq!(few.records, header.records[..2]);
        // Block 6 does not lie where the first block does.
        assert_eq!(read(&head, &records[4..]), Err(Damage::Impossible));
        let mut elsewhere = head;
        elsewhere[40] = 0xff;
        assert_eq!(read(&elsewhere, &records), Err(Damage::Misplaced));
    }

    #[test]
    fn a_full_header_comes_back() {
        let erased = |n| erasure(n, 1, ErasureKind::Discard);
        let mut records: Vec<DirtyRecord> = (0..121).map(erased).collect();
        records.extend((1..=127).map(|page| data(u64::from(page), 10 + page)));
        assert_eq!(records.len(), RECORDS_PER_CHUNK_MAX);
        let mut header = DirtyChunkHeader {
            records,
            ..sample()
        };
        assert_eq!(decode(&header, &header.encode(UUID)), Ok(header.clone()));
        // One block more than a chunk may have.
        header.records[120] = data(0, 11);
        for (page, record) in (11..).zip(&mut header.records[120..]) {
            *record = data(0, page);
        }
        assert_eq!(
            decode(&header, &header.encode(UUID)),
            Err(Damage::Impossible)
        );
    }
}
