//! Blocks that were read and are worth a frame: a policy for each tenant says which.

use policy::replacement::Key;
use units::TenantSlot;

use super::Frames;
use crate::kind::{Kind, kind_of, tenant_of};

impl<K: Key, B> Frames<K, B> {
    /// Whether there are frames for hot blocks, whosever.
    #[inline]
    pub fn has_room_for_hot(&self) -> bool {
        self.hot_max > 0
    }

    /// Whether a block is hot, whosever.
    #[inline]
    pub fn has_hot(&self) -> bool {
        self.len(Kind::Hot) > 0
    }

    /// Whether a tenant has frames for hot blocks.
    #[inline]
    pub fn keeps_hot(&self, tenant: TenantSlot) -> bool {
        self.tenants
            .get(tenant)
            .is_some_and(|tenant| tenant.hot.is_some())
    }

    /// A block without a frame is read, and its bytes are at hand. If its tenant's policy finds it worth a frame, what
    /// `bytes` gives is kept from now on, and whoever has to leave does. True if so.
    pub fn read(&mut self, tenant: TenantSlot, key: K, bytes: impl FnOnce() -> B) -> bool {
        if !self.keeps_hot(tenant) || self.has(key) {
            return false;
        }
        let Some(policy) = &mut self.tenants.get_mut(tenant).hot else {
            return false;
        };
        let mut left = std::mem::take(&mut self.left);
        let is_worth_it = policy.read(key, &mut left);
        for key in left.drain(..) {
            self.take(key);
        }
        self.left = left;
        if !is_worth_it {
            return false;
        }
        // Prefetched blocks may have taken what the share says.
        if self.is_full() && self.evict_oldest(tenant, Kind::Hot).is_none() {
            if let Some(policy) = &mut self.tenants.get_mut(tenant).hot {
                policy.remove(key);
            }
            return false;
        }
        self.put((Kind::Hot, 0), tenant, key, bytes());
        true
    }

    /// A hot block is read: its bytes. None if it is not one.
    #[inline]
    pub fn hit(&mut self, key: K) -> Option<&B> {
        if !self.has_hot() {
            return None;
        }
        let place = self.rows.find(key)?;
        let tag = self.rows.tag(place);
        if kind_of(tag) != Kind::Hot {
            return None;
        }
        let tenant = self.tenants.get_mut(tenant_of(tag));
        tenant.lists[Kind::Hot as usize].move_to_front(place, &mut self.rows);
        if let Some(policy) = &mut tenant.hot {
            policy.hit(key);
        }
        self.bytes[place.to_usize()].as_ref()
    }
}
