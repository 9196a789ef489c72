//! The brain beside a cache: who wants what, what may enter, who gets how much ([`tenancy`]).
//!
//! ```text
//!   requests ─► arrives ─► sampled demand, curves        window over ─► shares ─► segment log
//!   blocks   ─► hit, missed, staged_hit ─► verdicts      evictions, bytes written ─► accounts
//! ```
//!
//! Three states. *Off*: there are no tenants, every fill is admitted and the log reclaims what is
//! oldest, whosever it is. *On*. *Closed*: the settings contradict each other, or a tenant's
//! contradict the others'; what is cached is served and kept right, but nothing enters the flash,
//! since it is not known what may. A guest never hears of it; the status says why.
//!
//! What the brain is told never fails and never waits; what it says is done by `admission.rs`.

use crate::admission::Key;
use crate::cache::Cache;
use crate::disks::slots;
use crate::flash::Flash;
use crate::ports::Ports;
use policy::admission::{Fate, region_of};
use segment_log::{FlashWritten, Spare};
use tenancy::{Arrival, Capacity, Request, Settings, SettingsError, Tenancy, TenantSettings};
use units::{Bytes, DiskSlot, Duration, Instant, TenantSlot};

/// Blocks that leave staging, and where to.
pub(crate) type Left = Vec<(Key, Fate)>;

/// The brain, if there is one.
#[derive(Default)]
pub(crate) struct Brain {
    tenancy: Option<Box<Tenancy<Key>>>,
    /// Why there is none although there should be.
    error: Option<SettingsError>,
    /// Blocks that leave staging, until the cache has let go of them.
    pub(crate) left: Left,
    saved: Saved,
}

/// How long reads took since the last window ended.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    #[inline]
    fn add(&mut self, time: Duration) {
        self.sum = self.sum.saturating_add(time.as_nanos());
        self.count += 1;
    }

    fn take(&mut self) -> Option<u64> {
        let Self { sum, count } = std::mem::take(self);
        sum.checked_div(count)
    }
}

/// What a hit saves: how long the origins of each tenant take, and how long the flash does.
#[derive(Default)]
struct Saved {
    flash: Mean,
    origins: Vec<Mean>,
}

impl Brain {
    /// That of a cache with this flash; off without settings.
    pub(crate) fn new(settings: Option<Settings>, flash: &Flash, now: Instant) -> Self {
        let mut brain = Self::default();
        if let Some(settings) = settings {
            match Tenancy::new(settings, Capacity::of(flash.geometry()), now) {
                Ok(mut tenancy) => {
                    if !flash.is_new() {
                        tenancy.begin_empty();
                    }
                    brain.tenancy = Some(Box::new(tenancy));
                }
                Err(error) => brain.error = Some(error),
            }
        }
        brain
    }

    /// Whether everything may enter because nobody is asked.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.tenancy.is_none() && self.error.is_none()
    }

    /// Why it is closed.
    pub(crate) fn error(&self) -> Option<&SettingsError> {
        self.error.as_ref()
    }

    #[inline]
    pub(crate) fn tenancy(&self) -> Option<&Tenancy<Key>> {
        self.tenancy.as_deref()
    }

    #[inline]
    pub(crate) fn tenancy_mut(&mut self) -> Option<&mut Tenancy<Key>> {
        self.tenancy.as_deref_mut()
    }

    /// A tenant's brain and where to say what leaves staging.
    pub(crate) fn parts(&mut self) -> Option<(&mut Tenancy<Key>, &mut Left)> {
        Some((self.tenancy.as_deref_mut()?, &mut self.left))
    }

    /// A request has come. None if nobody keeps its tenant's books: then nothing of it may enter.
    #[inline]
    pub(crate) fn arrives(&mut self, request: &Request, counts: bool) -> Option<Arrival> {
        let tenancy = self.tenancy.as_deref_mut()?;
        tenancy.tenant_settings(request.tenant)?;
        if counts {
            return Some(tenancy.arrives(request));
        }
        Some(Arrival {
            vm: request.vm,
            tenant: request.tenant,
            write: request.write,
            region: region_of(request.disk, request.first.start()),
            run: Bytes::ZERO,
        })
    }

    /// What is remembered of a request, if it still means something: the brain may have been
    /// replaced while the request was under way.
    pub(crate) fn still(&self, arrival: Option<Arrival>) -> Option<Arrival> {
        let tenancy = self.tenancy.as_deref()?;
        arrival.filter(|arrival| tenancy.tenant_settings(arrival.tenant).is_some())
    }

    /// A read of the flash took so long.
    #[inline]
    pub(crate) fn flash_took(&mut self, time: Duration) {
        if self.tenancy.is_some() {
            self.saved.flash.add(time);
        }
    }

    /// A read of a tenant's origin took so long.
    pub(crate) fn origin_took(&mut self, tenant: TenantSlot, time: Duration) {
        if self.tenancy.is_none() {
            return;
        }
        let origins = &mut self.saved.origins;
        if origins.len() <= tenant.index() {
            origins.resize(tenant.index() + 1, Mean::default());
        }
        origins[tenant.index()].add(time);
    }

    /// Tells what a hit of each tenant saves, as measured in the window that ends.
    fn tell_saved(&mut self) {
        let Some(tenancy) = self.tenancy.as_deref_mut() else {
            return;
        };
        let flash = self.saved.flash.take().unwrap_or(0);
        let origins = self.saved.origins.iter_mut();
        for (origin, tenant) in origins.zip((0..).map(TenantSlot::new)) {
            if let Some(origin) = origin.take() {
                tenancy.saves(tenant, Duration::from_nanos(origin.saturating_sub(flash)));
            }
        }
    }

    /// Bytes went to flash, for a tenant or for nobody.
    pub(crate) fn charge(&mut self, tenant: Option<TenantSlot>, wrote: FlashWritten) {
        if let Some(tenancy) = self.tenancy.as_deref_mut() {
            tenancy.charge(tenant, wrote.into());
        }
    }

    /// Bytes of memory, staged ones included.
    pub(crate) fn memory(&self) -> Bytes {
        let tenancy = self.tenancy.as_deref();
        tenancy.map_or(Bytes::ZERO, Tenancy::memory)
    }
}

impl Cache {
    /// Lets windows end that are over, and asks to be looked at when the next one is.
    pub(crate) fn tick_brain(&mut self) {
        let now = self.ports.now;
        let Some(flash) = self.flash.as_ref() else {
            return;
        };
        let disks = &self.disks;
        let cached = |tenant: TenantSlot| {
            let own = slots().zip(disks);
            let own =
                own.filter(|(_, disk)| disk.as_ref().is_some_and(|disk| disk.tenant == tenant));
            own.map(|(slot, _)| flash.cached_blocks_of(slot)).sum()
        };
        let mut divided = false;
        if self
            .brain
            .tenancy()
            .is_some_and(|tenancy| tenancy.next_tick() <= now)
        {
            self.brain.tell_saved();
        }
        if let Some((tenancy, left)) = self.brain.parts() {
            while tenancy.tick(now, cached, left).is_some() {
                divided = true;
            }
        }
        if divided {
            self.divided();
        }
        self.wake_for_brain();
    }

    /// Asks to be looked at when the running window ends.
    pub(crate) fn wake_for_brain(&mut self) {
        if let Some(tenancy) = self.brain.tenancy() {
            self.ports.wake_at(tenancy.next_tick());
        }
    }

    /// Shares or settings have changed: tells the log, and lets go of what leaves staging.
    pub(crate) fn divided(&mut self) {
        self.let_go();
        let (Some(flash), Some(tenancy)) = (self.flash.as_mut(), self.brain.tenancy()) else {
            return;
        };
        flash.set_spare(tenancy.settings().spare);
        for share in &tenancy.shares().of {
            flash.set_share(share.tenant, share.segments);
        }
    }

    /// A tenant's first disk comes: the brain keeps its books from now on. If its settings contradict
    /// the others' nothing of it enters until they do not.
    pub(crate) fn begin_tenant(&mut self, tenant: TenantSlot) {
        let settings = self.tenant_settings(tenant);
        let Some((tenancy, left)) = self.brain.parts() else {
            return;
        };
        if tenancy.tenant_settings(tenant).is_some() {
            return;
        }
        let error = tenancy.attach(tenant, settings, left).err();
        self.tenants.set_error(tenant, error);
        self.divided();
    }

    /// A tenant's last disk has gone.
    pub(crate) fn end_tenant(&mut self, tenant: TenantSlot) {
        if let Some((tenancy, left)) = self.brain.parts() {
            tenancy.detach(tenant, left);
        }
        self.tenants.set_error(tenant, None);
        if let Some(flash) = self.flash.as_mut() {
            flash.set_share(tenant, 0);
        }
        self.begin_tenants();
        self.divided();
    }

    /// Tries again those tenants whose settings contradicted others.
    fn begin_tenants(&mut self) {
        let mut waiting: Vec<TenantSlot> = self
            .disks
            .iter()
            .flatten()
            .map(|disk| disk.tenant)
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        for tenant in waiting {
            self.begin_tenant(tenant);
        }
    }

    /// A tenant's settings, with what follows from its disks.
    fn tenant_settings(&self, tenant: TenantSlot) -> TenantSettings {
        let mut disks = self.disks.iter().flatten();
        let image = disks.any(|disk| disk.tenant == tenant && disk.views.is_some());
        TenantSettings {
            image,
            ..self.tenants.settings(tenant)
        }
    }

    /// Whose a disk's segments are from now on.
    pub(crate) fn own_disk(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        if let (Some(flash), false) = (self.flash.as_mut(), self.brain.is_off()) {
            flash.set_tenant(disk, tenant);
        }
    }

    /// Changes what holds for all tenants from now on; with none the brain is switched off, and
    /// everything is admitted. Ends at once, unlike a [`crate::Command`].
    ///
    /// # Errors
    /// If the settings contradict each other or those of a tenant; then nothing has changed.
    pub fn set_tenancy(
        &mut self,
        settings: Option<Settings>,
        now: Instant,
    ) -> Result<(), SettingsError> {
        self.ports.now = now;
        match (settings, self.brain.parts()) {
            (Some(settings), Some((tenancy, left))) => {
                tenancy.set(settings.clone(), left)?;
                self.config.tenancy = Some(settings);
            }
            (settings, _) => self.replace_brain(settings)?,
        }
        self.begin_tenants();
        self.divided();
        self.wake_for_brain();
        self.pump();
        Ok(())
    }

    fn replace_brain(&mut self, settings: Option<Settings>) -> Result<(), SettingsError> {
        self.staging.clear();
        let owners: Vec<_> = slots()
            .zip(&self.disks)
            .filter_map(|(slot, disk)| Some((slot, disk.as_ref()?.tenant)))
            .collect();
        if let Some(flash) = self.flash.as_mut() {
            let mut brain = Brain::new(settings.clone(), flash, self.ports.now);
            if let Some(error) = brain.error.take() {
                return Err(error);
            }
            let on = brain.tenancy.is_some();
            self.brain = brain;
            for (disk, tenant) in owners {
                flash.set_tenant(disk, on.then_some(tenant));
                flash.set_share(tenant, 0);
            }
            if !on {
                flash.set_spare(Spare::Lent);
            }
        }
        self.config.tenancy = settings;
        Ok(())
    }

    /// Changes what holds for the tenant with this name from now on, attached or not. Ends at once.
    ///
    /// # Errors
    /// If they contradict others; then nothing has changed. Of a tenant that is not attached it
    /// shows when it is: nothing of it enters the flash then, and its status says why.
    pub fn set_tenant(
        &mut self,
        name: &str,
        settings: TenantSettings,
        now: Instant,
    ) -> Result<(), SettingsError> {
        self.ports.now = now;
        let attached = self.tenants.slot_of(name);
        let image = attached.is_some_and(|slot| self.tenant_settings(slot).image);
        if let (Some(slot), Some((tenancy, left))) = (attached, self.brain.parts())
            && tenancy.tenant_settings(slot).is_some()
        {
            let settings = TenantSettings {
                image,
                ..settings.clone()
            };
            tenancy.set_tenant(slot, settings, left)?;
        }
        self.tenants.set(name, settings);
        self.begin_tenants();
        self.divided();
        self.pump();
        Ok(())
    }

    /// What holds for all tenants; none if the brain is off or closed.
    pub fn tenancy(&self) -> Option<&Settings> {
        Some(self.brain.tenancy()?.settings())
    }

    /// What the brain knows of a tenant; none if it is off or the tenant has no disk here.
    pub fn tenant_report(&self, tenant: TenantSlot) -> Option<tenancy::Report> {
        self.brain.tenancy()?.report(tenant)
    }

    /// What the brain knows of each tenant that has a disk here; nothing if it is off.
    pub fn tenant_reports(&self) -> Vec<tenancy::Report> {
        let slots = self.tenants.iter().map(|tenant| tenant.slot);
        slots.filter_map(|slot| self.tenant_report(slot)).collect()
    }

    /// What the brain knows of all tenants together; none if it is off.
    pub fn host_report(&self) -> Option<tenancy::HostReport> {
        Some(self.brain.tenancy()?.host_report())
    }

    /// How the flash is divided; none if the brain is off.
    pub fn shares(&self) -> Option<&tenancy::Shares> {
        Some(self.brain.tenancy()?.shares())
    }

    /// What a tenant was decided, counted; none if the brain is off or it has no disk here.
    pub fn tenant_counts(&self, tenant: TenantSlot) -> Option<&tenancy::Counts> {
        self.brain.tenancy()?.counts(tenant)
    }
}

impl Ports {
    /// Counts what goes to flash, for a disk or for nobody.
    pub(crate) fn count_written(
        &mut self,
        disk: Option<DiskSlot>,
        count: impl Fn(&mut FlashWritten),
    ) {
        let mut written = FlashWritten::default();
        count(&mut written);
        count(&mut self.stats.flash_written);
        self.written.push((disk, written));
    }
}
