//! The bytes of a cache on flash, and nothing else: encode, decode, verify.
//!
//! ```text
//! 0        superblock, slot 0            4 KiB
//! 64 KiB   superblock, slot 1            4 KiB
//! 128 KiB  journal                       a ring of 4 KiB pages
//!          checkpoint area 0             disk table, then segment table
//!          checkpoint area 1             the same again: the two take turns
//!          segments                      each: chunks from the front, footer at the end
//! ```
//!
//! Every page of metadata starts with the same 64-byte header whose last four bytes are the
//! crc32c of the rest of the page, and says which cache (uuid) and which place it belongs to,
//! so that torn, stale, foreign and misdirected pages all show. All numbers are little-endian;
//! counters stay below 2^62, so that counting on never overflows.
//!
//! What the pieces mean together, the commit order and what is assumed of the medium are in
//! the book, `format.md`; this crate only knows how each looks. Each offset has one source,
//! the structs below; a test renders them and compares the table in the book.

#![forbid(unsafe_code)]

mod checkpoint;
mod dirty;
mod error;
mod geometry;
mod journal;
#[cfg(test)]
mod layout;
mod page;
mod position;
mod segment;
mod segment_size;
mod superblock;

pub use checkpoint::{
    CheckpointPage, DISKS_PER_PAGE, DiskEntry, NAME_BYTES_MAX, SegmentEntry, SegmentKind,
    SegmentState,
};
pub use dirty::{
    DirtyChunkHeader, DirtyRecord, DirtyRecords, Erasure, ErasureKind, RECORD_BYTES,
    RECORDS_PER_CHUNK_MAX, RETAINED_HEAD_BYTES,
};
pub use error::FormatError;
pub use geometry::{
    DISK_BYTES_MAX, Geometry, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SegmentIndex,
};
pub use journal::{JOURNAL_ENTRIES_PER_PAGE, JournalEntry, JournalPage};
pub use page::{Damage, PAGE_BYTES, PageBytes, checksum};
pub use position::Position;
pub use segment::{
    CHUNK_BLOCKS_MAX, ChunkHeader, DESCRIPTORS_PER_PAGE, Descriptor, FooterPage, read_footer,
};
pub use segment_size::segment_bytes_for;
pub use superblock::{FORMAT_VERSION, SUPERBLOCK_OFFSETS, Superblock};
