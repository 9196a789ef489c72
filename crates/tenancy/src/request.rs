//! A request as the tenancy sees it.

use policy::admission::Access;
use units::{BlockIndex, Bytes, DiskSlot, Instant, TenantSlot};

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

/// What is to be remembered of a request until each of its blocks has been found or fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who asks.
    pub vm: TenantSlot,
    /// Whose blocks they are.
    pub tenant: TenantSlot,
    /// Whether they are written.
    pub write: bool,
    /// Which region of which disk it begins in: what HEC counts touches by.
    pub region: u64,
    /// Length of the sequential run that the request belongs to, its own included.
    pub run: Bytes,
}

impl Arrival {
    /// As admission policies see it.
    pub(crate) const fn access(&self, now: Instant) -> Access {
        Access {
            tenant: self.tenant,
            write: self.write,
            region: self.region,
            run: self.run,
            now,
        }
    }
}
