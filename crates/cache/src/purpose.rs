//! What operations in flight are for: what is remembered of each until it completes.

use crate::api::{ControlId, RequestId};
use crate::fills::{FillId, Fills};
use crate::request::Asked;
use crate::under_way::ReadId;
use block_store::WriteCount;
use units::{BlockIndex, DiskSlot, FlashSlot};

/// Which write of a guest, among those under way.
pub(crate) type WriteId = usize;

/// Which loan, among those under way.
pub(crate) type LoanKey = usize;

/// What the cache reads from flash for.
#[derive(Debug)]
pub(crate) enum ReadPurpose {
    /// A run of blocks for a guest.
    Hit(Hit),
    /// The rest of a block of which a guest writes a part.
    MergeHit(MergeHit),
    /// Records of a dirty log, on their way to the origin.
    DestageRead(DestageRead),
    /// For another host.
    Loan(LoanRead),
    /// To see whether it is what was written.
    Scrub(ScrubRead),
}

/// A read of the scrub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScrubRead {
    /// Of which pass.
    pub(crate) pass: u64,
    /// The first slot that is read; none: a footer.
    pub(crate) slot: Option<FlashSlot>,
}

/// A read from flash for a guest.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about a read"
)]
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) read: ReadId,
    pub(crate) part: usize,
    pub(crate) disk: DiskSlot,
    pub(crate) first: BlockIndex,
    pub(crate) slot: FlashSlot,
    pub(crate) count: u32,
    /// Of the run's bytes, where the part begins, and its length.
    pub(crate) skip: usize,
    pub(crate) length: usize,
    /// It took too long, and the origin was asked instead.
    pub(crate) abandoned: bool,
    /// Asked to see whether the flash is slow still.
    pub(crate) is_probe: bool,
    /// The origin does not have it.
    pub(crate) dirty: bool,
    /// It is read into memory that is not ours.
    pub(crate) in_place: bool,
}

/// A block that is read for a write of a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    pub(crate) disk: DiskSlot,
    /// For which write, and which of its ends.
    pub(crate) waiting: u64,
    pub(crate) tail: bool,
    pub(crate) block: BlockIndex,
}

/// Where a merge is read from on flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeHit {
    pub(crate) merge: Merge,
    pub(crate) slot: FlashSlot,
    /// The origin does not have it.
    pub(crate) dirty: bool,
}

/// Pages of a log that come from flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageRead {
    pub(crate) disk: DiskSlot,
    pub(crate) slot: FlashSlot,
    pub(crate) id: destage::ReadId,
}

/// A read for another host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoanRead {
    /// Copies of blocks, or which there are, for the host that has the disk now or is about to.
    Copies(LoanKey),
    /// Records of a dirty log, for the host that is about to get the disk.
    Records(RecordRead),
}

/// Blocks of a shipment that are read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRead {
    pub(crate) gathering: usize,
    /// Which of those that it misses, and how many.
    pub(crate) from: usize,
    pub(crate) count: usize,
    pub(crate) slot: FlashSlot,
}

/// What the completion of an operation of an origin means.
#[derive(Debug)]
pub(crate) enum OriginPurpose {
    /// A run of blocks for guests, to be admitted.
    Fill(FillId),
    /// Part of a guest's read, not to be admitted.
    Direct {
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        skip: usize,
        length: usize,
    },
    /// A guest's write.
    GuestWrite(WriteId),
    /// A flush, but for those of a destage.
    Flush(OriginFlush),
    /// The rest of a block of which a guest writes a part.
    MergeFill(Merge),
    /// A part of a dirty log.
    DestageWrite(DiskSlot, destage::WriteId),
    /// A flush that makes it durable there.
    DestageFlush(DiskSlot, destage::WriteId),
}

impl OriginPurpose {
    /// Whose origin was read, if it was.
    pub(crate) fn disk_of_read(&self, fills: &Fills) -> Option<DiskSlot> {
        match self {
            Self::Fill(fill) => Some(fills.disk(*fill)),
            Self::Direct { disk, .. } => Some(*disk),
            Self::MergeFill(merge) => Some(merge.disk),
            _ => None,
        }
    }
}

/// A flush of a disk's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginFlush {
    pub(crate) disk: DiskSlot,
    pub(crate) since: FlushMark,
    pub(crate) purpose: FlushPurpose,
}

/// Who waits for a flush of an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlushPurpose {
    /// A guest's request.
    Guest { request: RequestId, asked: Asked },
    /// A guest's flush of a disk under write-back, of which this many late changes had been read. Its log is
    /// flushed next.
    LateReads { request: RequestId, ended: u64 },
    /// The cache itself.
    Own,
    /// A disk that comes under write-back, with this number of the flush.
    Enter { number: u64 },
    /// A command, for a disk without a log.
    Demand { id: ControlId },
}

/// What was so when a flush of a disk's origin was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushMark {
    /// How many writes of the disk had ended, as far as that matters to what is cached.
    pub(crate) writes: WriteCount,
    /// How many flushes of its origin had failed.
    pub(crate) failed: u64,
}
