//! Prefetched blocks that nobody has read yet: first in, first out, and a count of what was worth it.

use policy::replacement::Key;
use units::TenantSlot;

use super::Frames;
use crate::counts::AheadCounts;
use crate::kind::Kind;

impl<K: Key, B> Frames<K, B> {
    /// A block was prefetched. Its tenant's oldest leaves for it where the tenant has as many as it may, or its least
    /// recently used hot block where the pool is full. False if it is not taken: it has a frame, its tenant has no share,
    /// or no frame that the tenant could give up.
    pub fn put_ahead(&mut self, tenant: TenantSlot, key: K, bytes: B) -> bool {
        if self.has(key) {
            return false;
        }
        let ahead_max = self.tenants.get(tenant).map_or(0, |of| of.ahead_max);
        if ahead_max == 0 {
            return false;
        }
        let has_all = self.len_of(tenant, Kind::Ahead) == ahead_max;
        let mut evicted = None;
        if self.is_full() && !has_all {
            evicted = self.evict_oldest(tenant, Kind::Hot);
        }
        if has_all || (self.is_full() && evicted.is_none()) {
            evicted = self.evict_oldest_ahead(tenant);
            if evicted.is_none() {
                return false;
            }
        }
        self.put(Kind::Ahead, tenant, key, bytes);
        true
    }

    /// A prefetched block is read: it leaves, and its bytes are those of a miss that is over.
    pub fn use_ahead(&mut self, key: K) -> Option<B> {
        self.get_of(Kind::Ahead, key)?;
        let (_, tenant, bytes) = self.take(key)?;
        self.tenants.get_mut(tenant).ahead.used += 1;
        Some(bytes)
    }

    /// The prefetched block that waits longest of a tenant's leaves unread.
    pub fn evict_oldest_ahead(&mut self, tenant: TenantSlot) -> Option<K> {
        self.evict_oldest(tenant, Kind::Ahead)
    }

    /// What became of the prefetched blocks of a tenant.
    pub fn ahead_counts(&self, tenant: TenantSlot) -> AheadCounts {
        let tenant = self.tenants.get(tenant);
        tenant.map_or_else(AheadCounts::default, |tenant| tenant.ahead)
    }
}
