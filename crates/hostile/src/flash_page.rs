//! A flash that returns anything at all where a page of metadata is expected.
//!
//! The first byte chooses the kind of page and whether its checksum is put right (else hardly
//! any input would get past it), the rest is laid over a page of zeroes.

use crate::pieces;
use flash_format::{
    CheckpointPage, ChunkHeader, DirtyChunkHeader, FooterPage, Geometry, JournalPage, PAGE_BYTES,
    PageBytes, SEGMENT_BYTES_MIN, SegmentIndex, Superblock, checksum,
};
use units::Bytes;

/// Where the fields of the common header are; the book has the table.
const UUID: std::ops::Range<usize> = 8..24;
const SEQUENCE: std::ops::Range<usize> = 24..32;
const PLACE: std::ops::Range<usize> = 32..36;
const PART: std::ops::Range<usize> = 36..40;
const CRC: std::ops::Range<usize> = 60..64;

const MAGICS: [&[u8; 8]; 6] = [
    b"HEARTHsb",
    b"HEARTHjn",
    b"HEARTHcp",
    b"HEARTHck",
    b"HEARTHft",
    b"HEARTHdk",
];

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, content)) = pieces::choice(bytes) else {
        return;
    };
    let mut page: PageBytes = [0; PAGE_BYTES];
    let length = content.len().min(PAGE_BYTES - 8);
    page[8..8 + length].copy_from_slice(&content[..length]);
    page[..8].copy_from_slice(MAGICS[usize::from(choice) % MAGICS.len()]);
    if choice & 0x80 == 0 {
        let sealed = [&page[..CRC.start], &page[CRC.end..]].concat();
        page[CRC].copy_from_slice(&checksum(&sealed).to_le_bytes());
    }
    let geometry = Geometry::new(Bytes::mib(64), SEGMENT_BYTES_MIN).expect("a sound layout");
    superblock(&page);
    journal(&page);
    checkpoint(&page, &geometry);
    segment(&page, &geometry);
}

fn field(page: &PageBytes, range: std::ops::Range<usize>) -> u128 {
    page[range]
        .iter()
        .rev()
        .fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

fn uuid(page: &PageBytes) -> u128 {
    field(page, UUID)
}

fn sequence(page: &PageBytes) -> u64 {
    u64::try_from(field(page, SEQUENCE)).expect("eight bytes")
}

fn word(page: &PageBytes, range: std::ops::Range<usize>) -> u32 {
    u32::try_from(field(page, range)).expect("four bytes")
}

fn superblock(page: &PageBytes) {
    let empty: PageBytes = [0; PAGE_BYTES];
    let present = Bytes::gib(16);
    if let Ok(found) = Superblock::choose([page, &empty], present) {
        assert!(found.geometry.capacity() <= present);
        let again = Superblock::choose([&empty, &found.encode()], present);
        assert_eq!(again, Ok(found));
    }
}

fn journal(page: &PageBytes) {
    let uuid = uuid(page);
    if let Ok(found) = JournalPage::decode(page, uuid) {
        assert_eq!(JournalPage::decode(&found.encode(uuid), uuid), Ok(found));
    }
}

fn checkpoint(page: &PageBytes, geometry: &Geometry) {
    let (uuid, number) = (uuid(page), sequence(page));
    let place = u64::from(word(page, PLACE));
    let decode = |page: &PageBytes| CheckpointPage::decode(page, geometry, uuid, number, place);
    if let Ok(found) = decode(page) {
        assert_eq!(
            decode(&found.encode(geometry, uuid, number, place)),
            Ok(found)
        );
    }
}

fn segment(page: &PageBytes, geometry: &Geometry) {
    let (uuid, generation) = (uuid(page), sequence(page));
    let (place, part) = (word(page, PLACE), word(page, PART));
    // Where a page is, its reader knows: only what stands in it is foreign.
    if place >= geometry.segment_count() || part >= geometry.segment_pages() {
        return;
    }
    let segment = SegmentIndex::new(place);
    let decode =
        |page: &PageBytes| ChunkHeader::decode(page, geometry, uuid, segment, generation, part);
    if let Ok(found) = decode(page) {
        assert!(
            found
                .blocks
                .iter()
                .all(|d| d.page < geometry.segment_pages())
        );
        assert_eq!(decode(&found.encode(uuid)), Ok(found));
    }
    let decode = |page: &PageBytes| {
        DirtyChunkHeader::decode(page, geometry, uuid, segment, generation, part)
    };
    if let Ok(found) = decode(page) {
        assert!(found.records().is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(decode(&found.encode(uuid)), Ok(found));
    }
    let (head, records) = (page[64..].first_chunk(), page[128..].as_chunks().0);
    for count in [0, 1, 2, 8] {
        if let Some(head) = head
            && let Ok(found) = DirtyChunkHeader::from_retained(head, &records[..count], geometry)
        {
            let again = found.retained_head();
            let same = DirtyChunkHeader::from_retained(&again, &records[..count], geometry);
            assert_eq!(same, Ok(found));
        }
    }
    let decode =
        |page: &PageBytes| FooterPage::decode(page, geometry, uuid, segment, generation, part);
    if let Ok(found) = decode(page) {
        assert!(
            found
                .blocks
                .iter()
                .all(|d| d.page < geometry.segment_pages())
        );
        assert_eq!(decode(&found.encode(uuid)), Ok(found));
    }
}
