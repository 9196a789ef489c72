//! Who is attached: the tenants of a cache by their slots.

use crate::settings::TenantSettings;
use crate::tenant::Tenant;
use policy::replacement::Key;
use units::{Bytes, Duration, TenantSlot};

/// The tenants that are attached.
pub(crate) struct Tenants<K> {
    by_slot: Vec<Option<Box<Tenant<K>>>>,
}

impl<K> Default for Tenants<K> {
    fn default() -> Self {
        Self {
            by_slot: Vec::new(),
        }
    }
}

impl<K: Key + Into<u64>> Tenants<K> {
    pub(crate) fn each(&self) -> impl Iterator<Item = (TenantSlot, &Tenant<K>)> {
        let all = self.by_slot.iter().zip((0..).map(TenantSlot::new));
        all.filter_map(|(tenant, slot)| Some((slot, &**tenant.as_ref()?)))
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = (TenantSlot, &mut Tenant<K>)> {
        let all = self.by_slot.iter_mut().zip((0..).map(TenantSlot::new));
        all.filter_map(|(tenant, slot)| Some((slot, &mut **tenant.as_mut()?)))
    }

    pub(crate) fn get(&self, slot: TenantSlot) -> Option<&Tenant<K>> {
        self.by_slot.get(slot.index())?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: TenantSlot) -> Option<&mut Tenant<K>> {
        self.by_slot.get_mut(slot.index())?.as_deref_mut()
    }

    /// # Panics
    /// If the tenant is not attached.
    #[inline]
    pub(crate) fn attached(&mut self, slot: TenantSlot) -> &mut Tenant<K> {
        self.get_mut(slot).expect("the tenant is attached")
    }

    /// A tenant comes into a slot that is free.
    pub(crate) fn insert(&mut self, slot: TenantSlot, tenant: Tenant<K>) {
        if self.by_slot.len() <= slot.index() {
            self.by_slot.resize_with(slot.index() + 1, || None);
        }
        self.by_slot[slot.index()] = Some(Box::new(tenant));
    }

    /// A tenant goes; the others forget that it used blocks of theirs. False if there was none.
    pub(crate) fn remove(&mut self, slot: TenantSlot) -> bool {
        let known = self.by_slot.get_mut(slot.index());
        if known.and_then(Option::take).is_none() {
            return false;
        }
        for (_, tenant) in self.each_mut() {
            tenant.forget(slot);
        }
        true
    }

    /// What is set of each.
    pub(crate) fn settings(&self) -> Vec<(TenantSlot, &TenantSettings)> {
        let all = self.each().map(|(slot, tenant)| (slot, tenant.settings()));
        all.collect()
    }

    /// The same if this were set of one of them, or of one that comes.
    pub(crate) fn settings_with<'a>(
        &'a self,
        slot: TenantSlot,
        new: &'a TenantSettings,
    ) -> Vec<(TenantSlot, &'a TenantSettings)> {
        let mut all = self.settings();
        all.retain(|(other, _)| *other != slot);
        all.push((slot, new));
        all
    }

    /// The smallest window of all.
    pub(crate) fn window(&self) -> Option<Duration> {
        let windows = self.each().map(|(_, tenant)| tenant.wants().window);
        windows.min()
    }

    /// All memory, staged bytes included.
    pub(crate) fn memory(&self) -> Bytes {
        let table = self.by_slot.capacity() * size_of::<Option<Box<Tenant<K>>>>();
        let each: Bytes = self.each().map(|(_, tenant)| tenant.memory()).sum();
        each + Bytes::new(table as u64)
    }
}
