//! A request as the brain sees it.

use units::{BlockIndex, DiskSlot, Instant, TenantSlot};

/// Blocks of one disk that a VM reads or writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub vm: TenantSlot,
    /// Whose blocks they are: the VM itself, or the base image that it reads.
    pub tenant: TenantSlot,
    /// Which disk: names blocks in samples, and keeps sequential runs apart.
    pub disk: DiskSlot,
    /// The first block.
    pub first: BlockIndex,
    /// How many blocks.
    pub count: u64,
    /// Whether they are written.
    pub write: bool,
    /// When it came. Earlier times than were heard before count as the latest one.
    pub now: Instant,
}
