//! What is set and asked about tenants from outside.

use crate::api::ControlError;
use crate::cache::Cache;
use crate::tenants::{TenantStatus, Use};
use crate::views::ViewStats;
use tenancy::{Settings, SettingsError, TenantSettings};
use units::{DiskSlot, Instant, TenantSlot};

impl Cache {
    /// Changes what holds for all tenants from now on; with none nobody is asked, and everything is
    /// admitted. Ends at once, unlike a [`crate::Command`].
    ///
    /// # Errors
    /// If the settings contradict each other or those of a tenant; then nothing has changed.
    pub fn set_tenancy(
        &mut self,
        settings: Option<Settings>,
        now: Instant,
    ) -> Result<(), SettingsError> {
        self.ports.set_now(now);
        self.division().set(settings.clone())?;
        self.config.tenancy = settings;
        self.pump();
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
        self.ports.set_now(now);
        self.division().set_tenant(name, settings)?;
        self.pump();
        Ok(())
    }

    /// What holds for all tenants; none if everything is admitted or nothing is.
    pub fn tenancy(&self) -> Option<&Settings> {
        Some(self.admission.tenancy()?.settings())
    }

    /// What is known of a tenant; none without tenants, or if it has no disk here.
    pub fn tenant_report(&self, tenant: TenantSlot) -> Option<tenancy::Report> {
        self.admission.tenancy()?.report(tenant)
    }

    /// What is known of each tenant that has a disk here; nothing without tenants.
    pub fn tenant_reports(&self) -> Vec<tenancy::Report> {
        let slots = self.tenants.iter().map(|tenant| tenant.slot);
        slots.filter_map(|slot| self.tenant_report(slot)).collect()
    }

    /// What is known of all tenants together; none without tenants.
    pub fn host_report(&self) -> Option<tenancy::HostReport> {
        Some(self.admission.tenancy()?.host_report())
    }

    /// How the flash is divided; none without tenants.
    pub fn shares(&self) -> Option<&tenancy::Shares> {
        Some(self.admission.tenancy()?.shares())
    }

    /// What was decided for a tenant, counted; none without tenants, or if it has no disk here.
    pub fn tenant_counts(&self, tenant: TenantSlot) -> Option<&tenancy::Counts> {
        self.admission.tenancy()?.counts(tenant)
    }

    /// Lets a VM read a shared disk, under the slot that is returned. It may join several times,
    /// once for each connection, and leaves as often.
    ///
    /// # Errors
    /// [`ControlError::NotAttached`], [`ControlError::NotShared`],
    /// [`ControlError::TooManyTenants`].
    pub fn join(&mut self, disk: DiskSlot, vm: &str) -> Result<TenantSlot, ControlError> {
        match self.disks.get(disk) {
            None => return Err(ControlError::NotAttached),
            Some(disk) if disk.views.is_none() => return Err(ControlError::NotShared),
            Some(_) => {}
        }
        let slot = self.disks.hold_tenant(&mut self.tenants, vm, Use::View)?;
        if let Some(views) = self.disks.views(disk) {
            views.join(slot);
        }
        Ok(slot)
    }

    /// A VM that has joined a shared disk leaves it; the blocks stay, for others and for the
    /// next time. The caller has seen all its requests answered. Does nothing if the disk was
    /// detached meanwhile.
    pub fn leave(&mut self, disk: DiskSlot, vm: TenantSlot) {
        if self.disks.views(disk).is_some_and(|views| views.leave(vm)) {
            self.tenants.release(vm, Use::View);
        }
    }

    /// What each VM asked of a shared disk since it was attached, those that have left included;
    /// nothing if it is not shared.
    pub fn views_of(&self, disk: DiskSlot) -> Vec<(TenantSlot, ViewStats)> {
        let views = self.disks.get(disk);
        let views = views.and_then(|disk| disk.views.as_ref());
        views.map_or_else(Vec::new, |views| views.stats().collect())
    }

    /// The tenant of an attached disk.
    pub fn tenant_of(&self, disk: DiskSlot) -> Option<TenantSlot> {
        self.disks.tenant_of(disk)
    }

    /// Every tenant, those included that have nothing here any more but whose slot has not been
    /// given to another.
    pub fn tenants(&self) -> Vec<TenantStatus> {
        self.tenants.iter().collect()
    }
}
