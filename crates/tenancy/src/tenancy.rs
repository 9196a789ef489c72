//! All tenants of a cache: who comes and goes, and what is set.

use crate::check;
use crate::counts::Wrote;
use crate::error::SettingsError;
use crate::settings::{Capacity, Settings, TenantSettings};
use crate::shares::Shares;
use crate::tenant::Tenant;
use policy::admission::Fate;
use policy::admission::budget::{Budget, TokenBucket};
use policy::admission::sequential::Runs;
use policy::replacement::Key;
use units::{Bytes, Duration, Instant, TenantSlot};

/// The tenants of a cache: see the crate's header. `K` names a block of any disk.
pub struct Tenancy<K> {
    pub(crate) settings: Settings,
    pub(crate) capacity: Capacity,
    pub(crate) tenants: Vec<Option<Box<Tenant<K>>>>,
    /// By disk: its sequential runs.
    pub(crate) runs: Vec<Option<Box<Runs>>>,
    pub(crate) budget: Option<TokenBucket>,
    /// What was left of the budgets of tenants that have gone, by slot: whoever comes back finds it.
    gone: Vec<Option<TokenBucket>>,
    /// Whoever comes has saved nothing of its budget.
    begins_empty: bool,
    /// Bytes written for all, and for nobody.
    pub(crate) wrote: Wrote,
    pub(crate) shares: Shares,
    /// A block had to leave the flash.
    pub(crate) full: bool,
    pub(crate) now: Instant,
    /// The running window began then, and will end then.
    pub(crate) window_began: Instant,
    pub(crate) window_ends: Instant,
    /// Accesses since the running window began; windows since there was one.
    pub(crate) accesses: u64,
    pub(crate) idle_windows: u32,
}

impl<K: Key + Into<u64>> Tenancy<K> {
    /// No tenants. The first window begins now.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(
        settings: Settings,
        capacity: Capacity,
        now: Instant,
    ) -> Result<Self, SettingsError> {
        check::all(&settings, capacity, &[])?;
        let mut tenancy = Self {
            budget: settings.budget.map(|budget| TokenBucket::new(budget, now)),
            settings,
            capacity,
            tenants: Vec::new(),
            gone: Vec::new(),
            begins_empty: false,
            runs: Vec::new(),
            wrote: Wrote::default(),
            shares: Shares::default(),
            full: false,
            now,
            window_began: now,
            window_ends: now,
            accesses: 0,
            idle_windows: 0,
        };
        tenancy.window_ends = now + tenancy.window();
        Ok(tenancy)
    }

    /// Nothing is saved of any write budget, nor of those of tenants that come later: an earlier life of
    /// this cache may have spent all that there was. So over any span of time, with however many lives in
    /// it, no more is let in than the rate and one burst allow. What that life owed is forgotten.
    pub fn begin_empty(&mut self) {
        self.begins_empty = true;
        let now = self.now;
        let empty = |bucket: &mut Option<TokenBucket>| {
            *bucket = bucket
                .as_ref()
                .map(|bucket| TokenBucket::empty(bucket.budget(), now));
        };
        empty(&mut self.budget);
        for (_, tenant) in self.each_mut() {
            empty(&mut tenant.budget);
        }
    }

    /// A tenant comes. Its first share is an equal part, until a window has shown what it wants; all
    /// shares are divided anew ([`Tenancy::shares`]), and blocks that have to leave staging for it go
    /// into `left` as from [`Tenancy::missed`].
    ///
    /// # Errors
    /// [`SettingsError::TenantExists`]; any other if its settings cannot hold beside the others'.
    pub fn attach(
        &mut self,
        slot: TenantSlot,
        settings: TenantSettings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        if self.get(slot).is_some() {
            return Err(SettingsError::TenantExists(slot));
        }
        self.check_with(slot, &settings)?;
        let mut tenant = Tenant::new(settings, &self.settings, self.now)?;
        if let (true, Some(budget)) = (self.begins_empty, tenant.settings.budget) {
            tenant.budget = Some(TokenBucket::empty(budget, self.now));
        }
        if let (Some(budget), Some(mut bucket)) = (tenant.settings.budget, self.take_gone(slot)) {
            bucket.set(budget, self.now);
            tenant.budget = Some(bucket);
        }
        if self.tenants.len() <= slot.index() {
            self.tenants.resize_with(slot.index() + 1, || None);
        }
        self.tenants[slot.index()] = Some(Box::new(tenant));
        self.divide(left);
        Ok(())
    }

    /// A tenant goes, with all that is known of it but what is left of its write budget: coming and going
    /// wins no burst. Whatever of it is staged is to be dropped. False if there was none.
    pub fn detach(&mut self, slot: TenantSlot, left: &mut Vec<(K, Fate)>) -> bool {
        let known = self.tenants.get_mut(slot.index());
        let Some(tenant) = known.and_then(Option::take) else {
            return false;
        };
        if tenant.budget.is_some() {
            if self.gone.len() <= slot.index() {
                self.gone.resize_with(slot.index() + 1, || None);
            }
            self.gone[slot.index()] = tenant.budget;
        }
        for (_, tenant) in self.each_mut() {
            if let Some(tags) = &mut tenant.tags {
                tags.forget(slot);
            }
        }
        self.divide(left);
        true
    }

    fn take_gone(&mut self, slot: TenantSlot) -> Option<TokenBucket> {
        self.gone.get_mut(slot.index())?.take()
    }

    /// Changes what holds for all tenants. What does not depend on a setting that changes is kept:
    /// ghosts, staged blocks, demand, curves. Blocks that leave staging for a change go into `left` as
    /// from [`Tenancy::missed`].
    ///
    /// # Errors
    /// If the settings contradict each other or those of a tenant; nothing is changed.
    pub fn set(
        &mut self,
        settings: Settings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        let tenants = self.each().map(|(slot, tenant)| (slot, &tenant.settings));
        check::all(&settings, self.capacity, &tenants.collect::<Vec<_>>())?;
        if settings.budget != self.settings.budget {
            follow(&mut self.budget, settings.budget, self.now);
        }
        let before = std::mem::replace(&mut self.settings, settings);
        let (after, now) = (self.settings.clone(), self.now);
        for (_, tenant) in self.each_mut() {
            let same = tenant.settings.clone();
            tenant.follow(same, (&before, &after), now, left)?;
        }
        self.window_ends = self.window_ends.min(now + self.window());
        self.divide(left);
        Ok(())
    }

    /// Changes what holds for one tenant; see [`Tenancy::set`].
    ///
    /// # Errors
    /// [`SettingsError::UnknownTenant`]; any other if they cannot hold beside the others'; nothing is
    /// changed.
    pub fn set_tenant(
        &mut self,
        slot: TenantSlot,
        settings: TenantSettings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        if self.get(slot).is_none() {
            return Err(SettingsError::UnknownTenant(slot));
        }
        self.check_with(slot, &settings)?;
        let (all, now) = (self.settings.clone(), self.now);
        self.tenant_mut(slot)
            .follow(settings, (&all, &all), now, left)?;
        self.divide(left);
        Ok(())
    }

    /// The flash that is divided changes.
    ///
    /// # Errors
    /// If floors are above it; nothing is changed.
    pub fn set_capacity(
        &mut self,
        capacity: Capacity,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        let tenants = self.each().map(|(slot, tenant)| (slot, &tenant.settings));
        check::all(&self.settings, capacity, &tenants.collect::<Vec<_>>())?;
        self.capacity = capacity;
        self.divide(left);
        Ok(())
    }

    fn check_with(&self, slot: TenantSlot, new: &TenantSettings) -> Result<(), SettingsError> {
        let others = self.each().filter(|(other, _)| *other != slot);
        let mut all: Vec<_> = others
            .map(|(slot, tenant)| (slot, &tenant.settings))
            .collect();
        all.push((slot, new));
        check::all(&self.settings, self.capacity, &all)
    }

    /// What holds for all tenants.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What holds for one tenant.
    pub fn tenant_settings(&self, slot: TenantSlot) -> Option<&TenantSettings> {
        Some(&self.get(slot)?.settings)
    }

    /// The flash that is divided.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// How the flash is divided now.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// What a hit of the tenant's saves: the origin's latency less the flash's, as it was measured. The
    /// `utility` allocation goes by it.
    pub fn saves(&mut self, slot: TenantSlot, saved: Duration) {
        if let Some(tenant) = self.get_mut(slot) {
            tenant.saved = saved;
        }
    }

    /// All memory of the tenancy, staged bytes included.
    pub fn memory(&self) -> Bytes {
        let tenants: Bytes = self.each().map(|(_, tenant)| tenant.memory()).sum();
        let runs = self.runs.iter().flatten().count() * size_of::<Runs>();
        let tables = self.tenants.capacity() * size_of::<Option<Box<Tenant<K>>>>()
            + self.runs.capacity() * size_of::<Option<Box<Runs>>>()
            + self.gone.capacity() * size_of::<Option<TokenBucket>>();
        tenants + Bytes::new((runs + tables) as u64)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (TenantSlot, &Tenant<K>)> {
        let all = self.tenants.iter().zip((0..).map(TenantSlot::new));
        all.filter_map(|(tenant, slot)| Some((slot, &**tenant.as_ref()?)))
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = (TenantSlot, &mut Tenant<K>)> {
        let all = self.tenants.iter_mut().zip((0..).map(TenantSlot::new));
        all.filter_map(|(tenant, slot)| Some((slot, &mut **tenant.as_mut()?)))
    }

    pub(crate) fn get(&self, slot: TenantSlot) -> Option<&Tenant<K>> {
        self.tenants.get(slot.index())?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: TenantSlot) -> Option<&mut Tenant<K>> {
        self.tenants.get_mut(slot.index())?.as_deref_mut()
    }

    #[inline]
    pub(crate) fn tenant_mut(&mut self, slot: TenantSlot) -> &mut Tenant<K> {
        self.get_mut(slot).expect("the tenant is attached")
    }
}

/// A bucket follows a changed budget: what was saved and what is owed stays.
pub(crate) fn follow(bucket: &mut Option<TokenBucket>, budget: Option<Budget>, now: Instant) {
    match (bucket.as_mut(), budget) {
        (Some(bucket), Some(budget)) => bucket.set(budget, now),
        (_, budget) => *bucket = budget.map(|budget| TokenBucket::new(budget, now)),
    }
}
