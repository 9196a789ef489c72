//! Memory in front of flash: which block that is read is worth a frame.
//!
//! ```text
//!   read ─┬─ has a frame ──► hit                                    served from memory
//!         └─ has none, its bytes
//!            come from flash
//!            or origin ────► read ─► a frame from now on | none     whoever leaves for it is named
//!   written, discarded, its disk leaves ──► remove                  a frame equals the origin's bytes, or is gone
//! ```
//!
//! A frame is a copy of what is on flash or at the origin, so a block that leaves costs nothing but a later read
//! (non-exclusive tiering, as L. Xiang et al., "Nomad: non-exclusive memory tiering via transactional page migration",
//! OSDI 2024, argue for). Hence the replacement policies of [`crate::replacement`] serve as they are: they keep whatever
//! is read, and name who leaves. `frequency` is another: it gives a frame only to what was read often enough.
//!
//! - One policy a VM; its frames are its share. When the share changes the owner makes a new policy and tells it what
//!   has a frame, the oldest first.
//! - [`Hot::memory`] is bounded: [`TABLE_BYTES_MAX`] for each frame, and [`TABLE_BYTES_FIXED`].

pub mod frequency;

mod kept;
mod registry;

pub use registry::Spec;

use crate::replacement::{Capacity, Fraction};
use units::Bytes;

/// The most that a policy takes for each frame: rows and index of S3-FIFO, which remembers 0.9 ghosts a frame; the index
/// doubles when its removed entries fill it.
pub const TABLE_BYTES_MAX: u64 = 208;

/// The most that a policy takes whatever the number of frames: the least that tables and sketches have.
pub const TABLE_BYTES_FIXED: Bytes = Bytes::kib(8);

/// What a VM has of the memory in front of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its frames.
    pub frames: Capacity,
    /// For [`frequency`]: the VM's weight among all VMs, whose mean is one; one without a resource monitor.
    pub weight: Fraction,
    /// For [`frequency`]: a VM of high priority is not held to the threshold.
    pub high_priority: bool,
}

impl Share {
    /// A share of a VM with weight 1 and no priority.
    pub const fn new(frames: Capacity) -> Self {
        Self {
            frames,
            weight: Fraction::ONE,
            high_priority: false,
        }
    }
}

/// A policy at work, for one VM. One owner, no threads.
pub trait Hot<K>: Send {
    /// A block without a frame is read, and its bytes are at hand. True if it is worth a frame; then it has one from
    /// now on, and who left for it, one block at most, is appended to `left`: never `key`.
    fn read(&mut self, key: K, left: &mut Vec<K>) -> bool;

    /// A block that has a frame is read. On the path of every hit in memory.
    fn hit(&mut self, key: K);

    /// A block had a frame when this policy was made, and keeps it if it can. Told once for each of them, the oldest
    /// first; who leaves for it is appended to `left`.
    fn restore(&mut self, key: K, left: &mut Vec<K>);

    /// The block changes, or its frame is needed for something else: it has none any more.
    fn remove(&mut self, key: K);

    /// Blocks that have a frame.
    fn len(&self) -> u32;

    /// Whether none has.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it holds.
    fn memory(&self) -> Bytes;

    /// The VM's weight is another. What has a frame keeps it, and what was counted stays. Only [`frequency`] goes by it.
    fn set_weight(&mut self, _weight: Fraction) {}
}
