//! Memory in front of a simulated cache: how much, and which blocks are worth it.

use crate::size::CacheSize;
use policy::memory::Spec;

/// Memory in front of a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// How many blocks it has room for.
    pub size: CacheSize,
    /// Which blocks that are read are worth a frame.
    pub policy: Spec,
}
