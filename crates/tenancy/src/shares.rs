//! How the flash is divided.

use units::{Instant, TenantSlot};

/// One tenant's part of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose.
    pub tenant: TenantSlot,
    /// Segments that it is to hold: what the log is told.
    pub segments: u32,
    /// Segments that the allocation asked for in this window; [`Share::segments`] follows it where the
    /// difference is worth a change.
    pub target_segments: u32,
}

/// The division of a window, by rising tenant. Without tenants it is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The window began then.
    pub since: Instant,
    /// Windows that have ended so far.
    pub window: u64,
    /// What each tenant has. Their segments are all that the cache has, or fewer where spare flash
    /// stays idle.
    pub of: Vec<Share>,
    /// Segments promised to nobody.
    pub idle_segments: u32,
    /// Demand of all tenants by what there is.
    pub load: f64,
    /// Whether the tenants want more than there is: the host is overloaded.
    pub overloaded: bool,
}

impl Shares {
    /// A tenant's share.
    pub fn get(&self, tenant: TenantSlot) -> Option<&Share> {
        let at = self.of.binary_search_by_key(&tenant, |share| share.tenant);
        at.ok().map(|at| &self.of[at])
    }

    /// The sum of all shares.
    pub fn segments(&self) -> u64 {
        self.of.iter().map(|share| u64::from(share.segments)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_found_by_its_tenant() {
        let share = |tenant, segments| Share {
            tenant: TenantSlot::new(tenant),
            segments,
            target_segments: segments,
        };
        let shares = Shares {
            of: vec![share(1, 10), share(7, 30)],
            ..Shares::default()
        };
        assert_eq!(shares.get(TenantSlot::new(7)), Some(&share(7, 30)));
        assert_eq!(shares.get(TenantSlot::new(2)), None);
        assert_eq!(shares.segments(), 40);
    }
}
