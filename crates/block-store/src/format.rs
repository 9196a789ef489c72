//! Making an empty cache.

use flash_format::{
    CheckpointPage, FormatError, Geometry, PAGE_BYTES, SegmentEntry, Superblock, segment_bytes_for,
};
use units::{Bytes, Offset};

/// How a cache is to be made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Size of the device.
    pub capacity: Bytes,
    /// Bytes in a segment: a power of two from 64 KiB to 16 MiB.
    pub segment_bytes: Bytes,
    /// Which cache it will be: 128 random bits.
    pub uuid: u128,
}

impl FormatOptions {
    /// The defaults for a device of this size.
    pub fn new(capacity: Bytes, uuid: u128) -> Self {
        Self {
            capacity,
            segment_bytes: segment_bytes_for(capacity),
            uuid,
        }
    }
}

/// The incarnation of a cache that was never opened.
pub(crate) const FORMATTED: u64 = 1;

/// What has to be written where to make an empty cache: in this order, with a flush before the
/// last write, which makes it one, and another flush after it.
///
/// # Errors
/// [`FormatError::SegmentSize`] and [`FormatError::TooSmall`].
pub fn format(options: &FormatOptions) -> Result<Vec<(Offset, Vec<u8>)>, FormatError> {
    let geometry = Geometry::new(options.capacity, options.segment_bytes)?;
    let zeroes = |offset| (offset, vec![0; PAGE_BYTES]);
    let superblock = Superblock {
        uuid: options.uuid,
        sequence: 0,
        geometry,
        incarnation: FORMATTED,
        checkpoint: 1,
        checkpoint_area: 0,
        replay_from: 1,
        clean_end: Some(1),
    };
    // The other slot first: a superblock of an earlier cache must not win over the new one.
    let [_, other] = flash_format::SUPERBLOCK_OFFSETS;
    let mut writes = vec![zeroes(superblock.offset()), zeroes(other)];
    // On a file, pages that were never written cost the file system a transaction each when they
    // first are, just where somebody waits for the write to be durable.
    for page in 0..geometry.journal_pages() {
        writes.push(zeroes(geometry.journal_page_offset(page)));
    }
    for page in 0..geometry.checkpoint_pages() {
        writes.push(zeroes(geometry.checkpoint_page_offset(1, page)));
    }
    for page in 0..geometry.checkpoint_pages() {
        let content = if let Some(slots) = CheckpointPage::disks_of(page) {
            CheckpointPage::Disks(vec![None; slots.len()])
        } else {
            let count = CheckpointPage::segments_of(&geometry, page).len();
            CheckpointPage::Segments(vec![SegmentEntry::unused(&geometry); count])
        };
        let bytes = content.encode(&geometry, options.uuid, 1, page);
        writes.push((geometry.checkpoint_page_offset(0, page), bytes.to_vec()));
    }
    writes.push((superblock.offset(), superblock.encode().to_vec()));
    Ok(writes)
}
