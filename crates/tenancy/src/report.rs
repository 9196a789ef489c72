//! What an operator sees of a tenant, and of all together.

use crate::counts::{Counts, Wrote};
use crate::gauge::Wants;
use crate::settings::TenantSettings;
use crate::sharing::Sharing;
use mrc::Curve;
use units::{Bytes, Instant, TenantSlot};

/// A write budget and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Bytes a day.
    pub per_day: Bytes,
    /// Bytes that may be written at once after a long rest.
    pub burst: Bytes,
    /// Bytes that may be written now.
    pub left: Bytes,
    /// Bytes that were written beyond it, which are made up for before anything is let in.
    pub debt: Bytes,
}

/// A live miss-ratio curve, and what it says of the sizes that matter.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveCurve {
    /// Of reads alone.
    pub reads: Curve,
    /// Of reads and writes.
    pub all: Curve,
    /// Part of the tenant's blocks that are sampled for it.
    pub rate: f64,
    /// The tenant's present share in blocks.
    pub present_blocks: u64,
    /// Read hit ratio of an LRU cache of that size.
    pub present_hit_ratio: f64,
    /// What the tenant is proposed: its target, in blocks.
    pub proposed_blocks: u64,
    /// Read hit ratio of an LRU cache of that size.
    pub proposed_hit_ratio: f64,
    /// The size at the knee of the reads' curve, in blocks.
    pub knee_blocks: Option<u64>,
}

/// One tenant, now.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Who.
    pub tenant: TenantSlot,
    /// What was set.
    pub settings: TenantSettings,
    /// Its admission policy as it is written in settings.
    pub admission: String,
    /// Its demand, and the window it is measured over.
    pub wants: Wants,
    /// Segments that it is to hold.
    pub share_segments: u32,
    /// Segments that the allocation asked for.
    pub target_segments: u32,
    /// Memory that its admission may use, staged blocks included.
    pub staging: Bytes,
    /// What became of its blocks since it was attached.
    pub counts: Counts,
    /// Its write budget, if it has one.
    pub budget: Option<BudgetLeft>,
    /// Reads a second in the last window.
    pub reads_a_second: f64,
    /// Its live curve.
    pub curve: LiveCurve,
    /// Who uses its cached blocks: of a base image.
    pub sharing: Option<Sharing>,
    /// All memory that the tenancy has for it.
    pub memory: Bytes,
}

/// All tenants together, now.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReport {
    /// Tenants attached.
    pub tenants: usize,
    /// When the running window ends.
    pub window_ends: Instant,
    /// Bytes written to flash since the start, by what for.
    pub wrote: Wrote,
    /// The device's write budget, if it has one.
    pub budget: Option<BudgetLeft>,
    /// Blocks that are divided among tenants.
    pub capacity_blocks: u64,
    /// Demand by capacity; above 1 the host is overloaded.
    pub load: f64,
    /// Blocks that would be cached twice or more if base images were not shared. An estimate.
    pub saved_by_sharing_blocks: u64,
    /// All memory of the tenancy, staged bytes included.
    pub memory: Bytes,
    /// What it may have.
    pub memory_limit: Bytes,
}
