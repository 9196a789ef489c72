//! What a pool is made for, and among whom it is divided.

use policy::memory;
use units::{Bytes, TenantSlot};

/// What a pool is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What it may take, tables included.
    pub size: Bytes,
    /// Frames that admission may stage; others are for hot blocks, and prefetched ones have what is free.
    pub staged: u64,
    /// Which blocks that are read are worth a frame.
    pub hot: memory::Spec,
}

/// A tenant's part of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose.
    pub tenant: TenantSlot,
    /// What it counts beside the others': segments of its share of flash.
    pub parts: u32,
    /// Of high priority: `frequency` does not hold it to the threshold.
    pub high_priority: bool,
}
