//! What every part of the cache is told of a guest's request.

use crate::RequestId;
use units::{Bytes, DiskSlot, Offset, TenantSlot};

/// Who asks, and for which bytes of which disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The request that is answered.
    pub(crate) id: RequestId,
    pub(crate) disk: DiskSlot,
    /// Which VM asks; of an image that several read it says which.
    pub(crate) vm: TenantSlot,
    pub(crate) offset: Offset,
    pub(crate) length: Bytes,
}

impl Span {
    /// The byte behind the last.
    pub(crate) fn end(&self) -> Offset {
        self.offset + self.length
    }
}

/// Which request of a guest waits for everything before it to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A flush. One that fails tells the guest that any of its earlier writes may be lost.
    Flush,
    /// A write with FUA, or a read for another host. One that fails tells of itself alone.
    DurableWrite,
}
