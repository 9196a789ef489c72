//! What another host may ask of a cache that has a disk, or had it before, and the answers.

use crate::shipment::Shipment;
use block_io::Payload;
use flash_format::SegmentIndex;
use units::{BlockIndex, DiskId};

/// Names a loan. Its issuer chooses it and knows it again in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanId(pub u64);

/// What another host asks of the cache that has a disk, or had it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanRequest {
    /// Which segments have copies of the disk's blocks?
    Segments {
        /// Which disk.
        disk: DiskId,
    },
    /// Which of the disk's blocks are cached in this segment?
    Contents {
        /// Which disk.
        disk: DiskId,
        /// Which segment.
        segment: SegmentIndex,
    },
    /// The bytes of blocks that follow each other.
    Blocks {
        /// Which disk.
        disk: DiskId,
        /// The first block.
        first: BlockIndex,
        /// How many blocks at most.
        count: u32,
    },
    /// What the disk's origin lacks: records of its dirty log, in their order.
    Records(RecordsAsked),
}

/// What of a disk's dirty log is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsAsked {
    /// Which disk.
    pub disk: DiskId,
    /// The number of the first record that is asked for: those before it are kept, durably. An earlier one than the
    /// oldest that is left asks for that.
    pub from: u64,
    /// The oldest record that the origin lacks, as far as who asks knows. If nothing else has changed, and who asks follows
    /// the disk's log ([`Command::Follow`](crate::Command::Follow)), the answer comes when there is something to tell, or
    /// 200 ms later.
    pub settled: Option<u64>,
}

/// What a loan brings, with the bytes of blocks as `B`.
#[derive(Debug)]
pub enum Borrowed<B = Payload> {
    /// The segments, the newest first.
    Segments(Vec<SegmentIndex>),
    /// The blocks, in the order in which they lie on flash.
    Contents(Vec<BlockIndex>),
    /// Verified bytes of as many blocks from the first one on as lie behind each other; at least one.
    Blocks(B),
    /// Records, as many as are shipped at a time; none if there are none from that number on.
    Records(Shipment<B>),
}

/// What was asked for is not lent: the disk is unknown, or another host's, or its key is not here; the block is not
/// cached, or is dirty, or cannot be read; or the flash is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this cache does not lend it")]
pub struct NotLent;
