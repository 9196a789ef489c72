//! The chunks of a segment, header after header: how what lies in a segment is known that has no whole footer.

use flash_format::{
    ChunkHeader, Descriptor, DirtyChunkHeader, DirtyRecord, Geometry, PageBytes, SegmentIndex,
};
use units::DiskSlot;

/// Which use of which segment is walked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    pub(crate) uuid: u128,
    pub(crate) segment: SegmentIndex,
    pub(crate) generation: u64,
    pub(crate) disk: DiskSlot,
}

impl Walked {
    /// The blocks of the chunk whose header a page may be; it may be one of a dirty log. None: the page is no header of
    /// this use of the segment.
    pub(crate) fn blocks(
        &self,
        geometry: &Geometry,
        page: u32,
        bytes: &PageBytes,
    ) -> Option<Vec<Descriptor>> {
        let Self {
            uuid,
            segment,
            generation,
            disk,
        } = *self;
        if let Ok(header) = ChunkHeader::decode(bytes, geometry, uuid, segment, generation, page) {
            return (header.disk == disk).then_some(header.blocks);
        }
        let header = DirtyChunkHeader::decode(bytes, geometry, uuid, segment, generation, page);
        let header = header.ok().filter(|header| header.disk == disk)?;
        Some(blocks_of(&header))
    }
}

/// The blocks of a dirty log's chunk.
pub(crate) fn blocks_of(header: &DirtyChunkHeader) -> Vec<Descriptor> {
    let records = header.records.iter();
    let blocks = records.filter_map(|record| match record {
        DirtyRecord::Data(at) => Some(*at),
        DirtyRecord::Erasure(_) => None,
    });
    blocks.collect()
}

/// Where the header of the next chunk would be, behind that of one with so many blocks; none at the end of the segment.
pub(crate) fn next_header(geometry: &Geometry, page: u32, blocks: usize) -> Option<u32> {
    let next = page + 1 + u32::try_from(blocks).expect("a chunk has few blocks");
    let end = geometry.segment_pages() - geometry.footer_pages();
    (next + 1 < end).then_some(next)
}
