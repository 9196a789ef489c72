//! Who may have bytes of a disk that its origin lacks.
//!
//! Each period in which a disk is attached for writing has an *epoch*. The *owner's record* is kept
//! with the origin and says which cache had the disk last, in which epoch, and whether that cache
//! may still have bytes that the origin lacks (`open`). The same epoch is in the cache's disk table
//! and in each chunk of the dirty log. So a cache that comes back after another one had the disk
//! (its flash was pulled out and put in again, or copied) is told apart.

/// What is recorded with an origin about who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerRecord {
    /// The latest period in which the disk was attached for writing; the first is 1.
    pub epoch: u64,
    /// The cache that had it then: [`crate::Status::uuid`].
    pub cache: u128,
    /// Whether that cache may have bytes that the origin lacks.
    pub open: bool,
}
