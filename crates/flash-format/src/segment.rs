//! Segments: chunks of blocks from the front, each behind a page of descriptors, and a footer
//! at the end that repeats all descriptors so that recovery reads one place.
//!
//! ```text
//! page 0        chunk header: disk, generation, descriptors of the blocks that follow
//! page 1..      blocks
//! page n        the next chunk's header
//! ...
//! last pages    footer: every descriptor of the segment
//! ```
//!
//! A descriptor says what a page holds, not whether it may be trusted: that is the segment
//! table's bit.

use crate::page::{self, BODY_BYTES, HEADER_BYTES, Magic, PageBytes};
use crate::{Damage, Geometry, PAGE_BYTES, SegmentIndex};
use units::{BlockIndex, DiskSlot};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What one page of a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Which block of the segment's disk.
    pub block: BlockIndex,
    /// crc32c of its 4 KiB.
    pub checksum: u32,
    /// In which page of the segment.
    pub page: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Raw {
    pub(crate) block: U64,
    pub(crate) checksum: U32,
    pub(crate) page: U16,
    pub(crate) zero: U16,
}

/// Descriptors that a page holds.
pub const DESCRIPTORS_PER_PAGE: usize = BODY_BYTES / size_of::<Raw>();

/// Most blocks that are written behind one header: with its header 512 KiB.
pub const CHUNK_BLOCKS_MAX: u32 = 127;

const _: () = assert!(CHUNK_BLOCKS_MAX as usize <= DESCRIPTORS_PER_PAGE);

/// The page in front of a chunk's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// In which segment.
    pub segment: SegmentIndex,
    /// Of which generation.
    pub generation: u64,
    /// Whose blocks.
    pub disk: DiskSlot,
    /// The page where the header itself is.
    pub page: u32,
    /// What the pages behind it hold, in order.
    pub blocks: Vec<Descriptor>,
}

/// One page of a segment's footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterPage {
    /// In which segment.
    pub segment: SegmentIndex,
    /// Of which generation.
    pub generation: u64,
    /// Whose blocks.
    pub disk: DiskSlot,
    /// Which page of the footer, from 0.
    pub part: u32,
    /// Descriptors in the whole footer.
    pub total: u32,
    /// Descriptors in this page.
    pub blocks: Vec<Descriptor>,
}

impl ChunkHeader {
    /// The page for the cache `uuid`.
    ///
    /// # Panics
    /// If there are too many blocks.
    pub fn encode(&self, uuid: u128) -> PageBytes {
        let header = page::header(Magic::CHUNK, uuid, self.generation);
        let at = (self.segment, self.page, self.disk);
        encode_descriptors(header, at, &self.blocks)
    }

    /// What the page `page` of a segment says as a chunk header.
    ///
    /// # Errors
    /// How it is damaged.
    pub fn decode(
        bytes: &PageBytes,
        geometry: &Geometry,
        uuid: u128,
        segment: SegmentIndex,
        generation: u64,
        page: u32,
    ) -> Result<Self, Damage> {
        let header = page::open(bytes, Magic::CHUNK)?;
        check_place(&header, uuid, segment, generation, page)?;
        let mut blocks = Vec::new();
        decode_descriptors(&header, bytes, &mut blocks)?;
        let room = geometry.segment_pages() - geometry.footer_pages();
        let in_order = blocks
            .iter()
            .zip(page + 1..room)
            .filter(|(d, p)| d.page == *p)
            .count()
            == blocks.len();
        if !in_order || blocks.is_empty() {
            return Err(Damage::Impossible);
        }
        Ok(Self {
            segment,
            generation,
            disk: disk_of(&header)?,
            page,
            blocks,
        })
    }
}

impl FooterPage {
    /// The page for the cache `uuid`.
    ///
    /// # Panics
    /// If there are too many blocks.
    pub fn encode(&self, uuid: u128) -> PageBytes {
        let mut header = page::header(Magic::FOOTER, uuid, self.generation);
        header.more = U64::new(u64::from(self.total));
        let at = (self.segment, self.part, self.disk);
        encode_descriptors(header, at, &self.blocks)
    }

    /// What page `part` of a segment's footer says.
    ///
    /// # Errors
    /// How it is damaged.
    pub fn decode(
        bytes: &PageBytes,
        geometry: &Geometry,
        uuid: u128,
        segment: SegmentIndex,
        generation: u64,
        part: u32,
    ) -> Result<Self, Damage> {
        let mut blocks = Vec::new();
        let place = (uuid, segment, generation, part);
        let (disk, total) = decode_footer_page(bytes, geometry, place, &mut blocks)?;
        Ok(Self {
            segment,
            generation,
            disk,
            part,
            total,
            blocks,
        })
    }
}

/// Reads the whole footer of a segment from its pages: appends its descriptors to `blocks`, in
/// order. After an error `blocks` may have some of them.
///
/// # Errors
/// How it is damaged, [`Damage::Misplaced`] if it is another disk's among them.
pub fn read_footer(
    bytes: &[u8],
    geometry: &Geometry,
    uuid: u128,
    segment: SegmentIndex,
    generation: u64,
    owner: DiskSlot,
    blocks: &mut Vec<Descriptor>,
) -> Result<(), Damage> {
    let before = blocks.len();
    let pages = bytes.as_chunks::<PAGE_BYTES>().0;
    for part in 0..geometry.footer_pages() {
        let page = pages.get(part as usize).ok_or(Damage::Absent)?;
        let place = (uuid, segment, generation, part);
        let (disk, total) = decode_footer_page(page, geometry, place, blocks)?;
        if disk != owner {
            return Err(Damage::Misplaced);
        }
        let last = part + 1 == geometry.footer_pages();
        if last && blocks.len() - before != total as usize {
            return Err(Damage::Impossible);
        }
    }
    Ok(())
}

/// Appends the descriptors of a footer's page; whose segment it was, and how many descriptors the
/// footer has in all.
fn decode_footer_page(
    bytes: &PageBytes,
    geometry: &Geometry,
    (uuid, segment, generation, part): (u128, SegmentIndex, u64, u32),
    blocks: &mut Vec<Descriptor>,
) -> Result<(DiskSlot, u32), Damage> {
    let header = page::open(bytes, Magic::FOOTER)?;
    check_place(&header, uuid, segment, generation, part)?;
    let before = blocks.len();
    decode_descriptors(&header, bytes, blocks)?;
    let room = geometry.segment_pages() - geometry.footer_pages();
    let total = u32::try_from(header.more.get()).map_err(|_| Damage::Impossible)?;
    let outside = |at: &Descriptor| at.page == 0 || at.page >= room;
    if blocks[before..].iter().any(outside) || total > geometry.segment_blocks_max() {
        return Err(Damage::Impossible);
    }
    Ok((disk_of(&header)?, total))
}

pub(crate) fn check_place(
    header: &page::Header,
    uuid: u128,
    segment: SegmentIndex,
    generation: u64,
    part: u32,
) -> Result<(), Damage> {
    let here = header.uuid.get() == uuid && header.place.get() == segment.get();
    let now = header.sequence.get() == generation && header.part.get() == part;
    if here && now {
        Ok(())
    } else {
        Err(Damage::Misplaced)
    }
}

pub(crate) fn disk_of(header: &page::Header) -> Result<DiskSlot, Damage> {
    match u16::try_from(header.extra.get()) {
        Ok(disk) if usize::from(disk) < DiskSlot::COUNT => Ok(DiskSlot::new(disk)),
        _ => Err(Damage::Impossible),
    }
}

fn encode_descriptors(
    mut header: page::Header,
    (segment, part, disk): (SegmentIndex, u32, DiskSlot),
    blocks: &[Descriptor],
) -> PageBytes {
    header.place = U32::new(segment.get());
    header.part = U32::new(part);
    header.extra = U64::new(u64::from(disk.get()));
    assert!(
        blocks.len() <= DESCRIPTORS_PER_PAGE,
        "the descriptors fit in a page"
    );
    let mut bytes = [0; PAGE_BYTES];
    for (block, raw) in blocks
        .iter()
        .zip(bytes[HEADER_BYTES..].chunks_exact_mut(size_of::<Raw>()))
    {
        let entry = Raw {
            block: U64::new(block.block.get()),
            checksum: U32::new(block.checksum),
            page: U16::new(u16::try_from(block.page).expect("a segment has at most 4096 pages")),
            zero: U16::ZERO,
        };
        raw.copy_from_slice(entry.as_bytes());
    }
    header.count = U32::new(u32::try_from(blocks.len()).expect("at most 252"));
    page::seal(&mut bytes, header);
    bytes
}

fn decode_descriptors(
    header: &page::Header,
    bytes: &PageBytes,
    blocks: &mut Vec<Descriptor>,
) -> Result<(), Damage> {
    let count = header.count.get() as usize;
    let (raw, _) = <[Raw]>::ref_from_prefix_with_elems(&bytes[HEADER_BYTES..], count)
        .map_err(|_| Damage::Impossible)?;
    // Looked at all together and not one by one, so that a whole page costs no branches.
    let highest = raw.iter().fold(0, |bits, raw| bits | raw.block.get());
    if highest >> BlockIndex::BITS != 0 {
        return Err(Damage::Impossible);
    }
    blocks.extend(raw.iter().map(|raw| Descriptor {
        block: BlockIndex::new(raw.block.get()),
        checksum: raw.checksum.get(),
        page: u32::from(raw.page.get()),
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn geometry() -> Geometry {
        Geometry::new(Bytes::mib(64), Bytes::mib(1)).unwrap()
    }

    fn descriptors(first_page: u32, count: u32) -> Vec<Descriptor> {
        (0..count)
            .map(|i| Descriptor {
                block: BlockIndex::new(u64::from(i) * 7),
                checksum: i,
                page: first_page + i,
            })
            .collect()
    }

    #[test]
    fn a_chunk_header_comes_back_only_in_its_place_and_time() {
        let segment = SegmentIndex::new(4);
        let header = ChunkHeader {
            segment,
            generation: 8,
            disk: DiskSlot::new(2),
            page: 10,
            blocks: descriptors(11, 127),
        };
        let bytes = header.encode(1);
        let decode = |uuid, segment, generation, page| {
            ChunkHeader::decode(&bytes, &geometry(), uuid, segment, generation, page)
        };
        assert_eq!(decode(1, segment, 8, 10), Ok(header));
        for wrong in [
            decode(2, segment, 8, 10),
            decode(1, SegmentIndex::new(5), 8, 10),
            decode(1, segment, 7, 10),
            decode(1, segment, 8, 11),
        ] {
            assert_eq!(wrong, Err(Damage::Misplaced));
        }
    }

    #[test]
    fn a_chunk_that_reaches_into_the_footer_is_impossible() {
        let g = geometry();
        let segment = SegmentIndex::new(0);
        let page = g.segment_pages() - g.footer_pages() - 2;
        let header = ChunkHeader {
            segment,
            generation: 1,
            disk: DiskSlot::new(0),
            page,
            blocks: descriptors(page + 1, 2),
        };
        let found = ChunkHeader::decode(&header.encode(1), &g, 1, segment, 1, page);
        assert_eq!(found, Err(Damage::Impossible));
    }

    #[test]
    fn a_footer_page_comes_back() {
        let segment = SegmentIndex::new(1);
        let footer = FooterPage {
            segment,
            generation: 3,
            disk: DiskSlot::new(2),
            part: 0,
            total: 200,
            blocks: descriptors(1, 200),
        };
        assert_eq!(
            FooterPage::decode(&footer.encode(1), &geometry(), 1, segment, 3, 0),
            Ok(footer)
        );
    }

    /// The pages of a footer with so many descriptors.
    fn footer(geometry: &Geometry, segment: SegmentIndex, total: u32) -> Vec<u8> {
        let all = descriptors(1, total);
        let mut parts = all.chunks(DESCRIPTORS_PER_PAGE);
        let page = |part| {
            let blocks = parts.next().unwrap_or_default().to_vec();
            let page = FooterPage {
                segment,
                generation: 3,
                disk: DiskSlot::new(2),
                part,
                total,
                blocks,
            };
            page.encode(1)
        };
        (0..geometry.footer_pages()).flat_map(page).collect()
    }

    #[test]
    fn a_whole_footer_is_read_and_a_part_or_another_disks_is_not() {
        let g = Geometry::new(Bytes::mib(64), Bytes::mib(4)).unwrap();
        let segment = SegmentIndex::new(1);
        let bytes = footer(&g, segment, 700);
        let read = |bytes: &[u8], disk| {
            let (disk, mut blocks) = (DiskSlot::new(disk), Vec::new());
            read_footer(bytes, &g, 1, segment, 3, disk, &mut blocks).map(|()| blocks)
        };
        assert_eq!(read(&bytes, 2), Ok(descriptors(1, 700)));
        assert_eq!(read(&bytes, 1), Err(Damage::Misplaced));
        assert_eq!(read(&bytes[..3 * PAGE_BYTES], 2), Err(Damage::Absent));
        let mut torn = bytes.clone();
        torn[PAGE_BYTES + 100] ^= 1;
        assert_eq!(read(&torn, 2), Err(Damage::Checksum));
        // The last page counts the descriptors of another footer.
        let mut mixed = bytes;
        let other = footer(&g, segment, 600);
        mixed[3 * PAGE_BYTES..].copy_from_slice(&other[3 * PAGE_BYTES..]);
        assert_eq!(read(&mixed, 2), Err(Damage::Impossible));
    }
}
