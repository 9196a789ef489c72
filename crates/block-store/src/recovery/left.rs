//! What a process that was killed has left in retained memory: chunks of dirty logs that
//! were gathered, or on their way to flash.

use crate::guard::{Guard, holds};
use flash_format::{
    DirtyChunkHeader, DirtyRecord, Geometry, PAGE_BYTES, RECORD_BYTES, RETAINED_HEAD_BYTES,
    checksum,
};

/// A chunk of a dirty log that was found in retained memory.
#[derive(Clone, PartialEq, Eq)]
pub struct LeftChunk {
    /// [`DirtyChunkHeader::retained_head`].
    pub head: [u8; RETAINED_HEAD_BYTES],
    /// Its records, in order: [`DirtyRecord::to_bytes`].
    pub records: Vec<[u8; RECORD_BYTES]>,
    /// The blocks of those that have bytes, in order; there may be more behind them.
    pub pages: Vec<u8>,
}

impl std::fmt::Debug for LeftChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeftChunk({} records)", self.records.len())
    }
}

impl LeftChunk {
    /// What it is, with as many of its records as are whole. None if it is nothing of this cache's,
    /// or has no whole record.
    pub(super) fn header(&self, geometry: &Geometry) -> Option<DirtyChunkHeader> {
        let mut header =
            DirtyChunkHeader::from_retained(&self.head, &self.records, geometry).ok()?;
        let mut pages = self.pages.chunks_exact(PAGE_BYTES);
        let whole = header.records.iter().take_while(|record| match record {
            DirtyRecord::Data(at) => pages
                .next()
                .is_some_and(|page| checksum(page) == at.checksum || !holds(Guard::LeftChecksum)),
            DirtyRecord::Erasure(_) => true,
        });
        let whole = whole.count();
        header.records.truncate(whole);
        (whole > 0).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::{Descriptor, Position, SegmentIndex};
    use units::{BlockIndex, Bytes, DiskId, DiskSlot};

    #[test]
    fn records_count_up_to_the_first_that_is_not_whole() {
        let geometry = Geometry::new(Bytes::mib(2), Bytes::kib(64)).unwrap();
        let pages: Vec<u8> = [1, 2, 3]
            .iter()
            .flat_map(|byte| [*byte; PAGE_BYTES])
            .collect();
        let data = |page: u32| {
            let at = page as usize * PAGE_BYTES;
            DirtyRecord::Data(Descriptor {
                block: BlockIndex::new(u64::from(page)),
                checksum: checksum(&pages[at..at + PAGE_BYTES]),
                page: page + 1,
            })
        };
        let header = DirtyChunkHeader {
            segment: SegmentIndex::new(1),
            generation: 3,
            disk: DiskSlot::new(0),
            page: 0,
            id: DiskId::from_u128(1),
            size: flash_format::DISK_BYTES_MAX,
            epoch: 1,
            begins_interval: true,
            follows: Position::START,
            durable: Position::START,
            records: vec![data(0), data(1), data(2)],
        };
        let mut left = LeftChunk {
            head: header.retained_head(),
            records: header.records.iter().map(DirtyRecord::to_bytes).collect(),
            pages: pages.clone(),
        };
        assert_eq!(left.header(&geometry), Some(header.clone()));
        left.pages[2 * PAGE_BYTES] ^= 1;
        let records = left.header(&geometry).map(|found| found.records);
        assert_eq!(records, Some(header.records[..2].to_vec()));
        left.pages[0] ^= 1;
        assert_eq!(left.header(&geometry), None);
    }
}
