//! The bookkeeping of a cache that is a log of segments: which segment is whose, where the next
//! block goes, which segment is reclaimed, and what of it is kept. No bytes, no I/O, no clock.
//!
//! ```text
//!             prepare, place                 seal, close             write_ended
//!  new block ───────────────► open segment ──────────────► closing ─────────────► closed
//!                              of a stream                                          │
//!  survivor ◄──────────────────────────────── begin_reclaim, keeps, evict, release ─┘
//! ```
//!
//! The daemon's cache and the simulator's `segment` policies run the same [`SegmentLog`]. Whoever
//! drives it does what has to be done outside: a block store writes chunks and footers, keeps
//! checksums and trusted bits, and commits what changes to a journal. A
//! method that asks for something to be done returns it, and the log never waits: between
//! [`SegmentLog::begin_reclaim`] and [`Table::release`] anything may happen to the blocks.
//!
//! Each disk has two streams, one of new blocks and one of what reclaim kept, so that blocks
//! which have proved themselves do not share segments with blocks that have not. A third one is
//! the disk's *dirty log*: blocks, and erasures, that its origin does not have yet. A segment of
//! it is held ([`Phase::Dirty`]) until the driver says that the origin has all of it
//! ([`Table::destaged`]); then it is an ordinary closed one. How much may be dirty is the
//! driver's business: what is dirty asks for no share, and only counts for its tenant.
//!
//! A disk belongs to a tenant, and a tenant has a share of the segments: reclaim takes from
//! whoever is furthest above its share, when room is needed ([`Spare`]). A segment that is warm enough
//! can be spared where it lies; how warm its blocks are is said by four bits of each in the index.
//!
//! The index is a type parameter: the daemon's is exact in 7.6 bytes a block, the simulator's
//! ([`Dense`]) a plain array, since its keys are numbered from zero.
//!
//! Invariants, checked by [`SegmentLog::self_check`]:
//!
//! - A block has one place, in a segment of its disk.
//! - A segment's `live` is the number of index entries that point into it; a disk's cached
//!   blocks are the sum over its segments. So is it for each mark.
//! - While anybody is above its share with segments that can be reclaimed, nobody who is not
//!   loses one.
//! - A segment is free only if nothing points into it and nobody reads or writes it.
//! - No more than half of a victim is kept, and new blocks leave [`SEGMENTS_RESERVED`] segments
//!   to survivors, so that a reclaim that has begun can always end.

#![forbid(unsafe_code)]

mod append;
mod dense;
mod heat;
mod index;
mod limits;
mod log;
mod quiet;
mod reclaim;
mod segment;
mod streams;
mod table;
mod tenants;
mod victim;
mod written;

pub use append::{After, Closed, Placed, Sealed, Step};
pub use dense::Dense;
pub use heat::MARKS;
pub use index::{Entered, Full, Index, Located, Marked};
pub use limits::{REGION_BLOCKS, SEGMENTS_RESERVED, resting_limit, segments_for_shares};
pub use log::SegmentLog;
pub use quiet::{Quiet, place_quietly};
pub use reclaim::Begin;
pub use segment::{Phase, Segment};
pub use streams::{OpenChunk, OpenSegment, Source, StreamKey, StreamKind};
pub use table::{Table, Whereabouts};
pub use tenants::{SEGMENTS_PER_TENANT_MIN, Spare};
pub use victim::{Move, Victim};
pub use written::FlashWritten;
