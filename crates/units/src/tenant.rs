//! Who has a share of a cache.

use std::fmt;

/// A tenant's place among those of one cache. A tenant is a VM, or a base image that several
/// VMs read: whatever has a share of the flash of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantSlot(u16);

impl TenantSlot {
    /// Tenants that one cache can have at a time: as many as disks, since each has at least one.
    pub const COUNT: usize = crate::DiskSlot::COUNT;

    /// The slot with this number.
    ///
    /// # Panics
    /// If the number is not below [`TenantSlot::COUNT`].
    pub const fn new(number: u16) -> Self {
        assert!(
            (number as usize) < Self::COUNT,
            "a tenant slot is below TenantSlot::COUNT"
        );
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number as a table index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for TenantSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}
