//! What is set and asked about tenants from outside.

use super::guests::Guest;
use super::{Cache, State};
use crate::api::ControlError;
use crate::tenants::Use;
use policy::replacement::Fraction;
use tenancy::{Settings, SettingsError, TenantSettings, Wanted};
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
        self.state.ports.set_now(now);
        let is_replaced = settings.is_none() || self.state.admission.tenancy().is_none();
        self.state.division().set(settings.clone())?;
        if is_replaced {
            self.state.reads.foresight_mut().clear();
        }
        self.state.config.tenancy = settings;
        self.state.foresee_as_set();
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
        self.state.ports.set_now(now);
        self.state.division().set_tenant(name, settings)?;
        self.pump();
        Ok(())
    }

    /// From now on the reads of the tenant with this name, attached or not, weigh so much for `frequency` in memory: one unless
    /// told, and the mean of all should be one. Nothing else goes by it. Ends at once.
    pub fn set_weight(&mut self, name: &str, weight: Fraction) {
        self.state.division().set_weight(name, weight);
    }

    /// The tenant with this name has come from another host, where it wanted this: its share begins with that. Nothing, if
    /// it has no disk here.
    pub fn tenant_comes(&mut self, name: &str, wanted: Wanted, now: Instant) {
        self.state.ports.set_now(now);
        self.state.division().comes(name, wanted);
        self.pump();
    }

    /// For what the guest of a disk says.
    pub fn guest(&mut self, disk: DiskSlot) -> Guest<'_> {
        Guest::of(&mut self.state, disk)
    }

    /// Lets a VM read a shared disk, under the slot that is returned. It may join several times,
    /// once for each connection, and leaves as often.
    ///
    /// # Errors
    /// [`ControlError::NotAttached`], [`ControlError::NotShared`],
    /// [`ControlError::TooManyTenants`].
    pub fn join(&mut self, disk: DiskSlot, vm: &str) -> Result<TenantSlot, ControlError> {
        match self.state.disks.get(disk) {
            None => return Err(ControlError::NotAttached),
            Some(disk) if disk.views.is_none() => return Err(ControlError::NotShared),
            Some(_) => {}
        }
        let slot = self
            .state
            .disks
            .hold_tenant(&mut self.state.tenants, vm, Use::View)?;
        if let Some(views) = self.state.disks.views(disk) {
            views.join(slot);
        }
        Ok(slot)
    }

    /// A VM that has joined a shared disk leaves it; the blocks stay, for others and for the
    /// next time. The caller has seen all its requests answered. Does nothing if the disk was
    /// detached meanwhile.
    pub fn leave(&mut self, disk: DiskSlot, vm: TenantSlot) {
        if self
            .state
            .disks
            .views(disk)
            .is_some_and(|views| views.leave(vm))
        {
            self.state.tenants.release(vm, Use::View);
        }
    }
}

impl State {
    /// Lets those guess what guests read next whom the settings name.
    pub(super) fn foresee_as_set(&mut self) {
        let settings = self.config.tenancy.as_ref();
        let specs = settings.map(|settings| settings.prefetch.clone());
        let foresight = self.reads.foresight_mut();
        foresight.set(&specs.unwrap_or_default(), self.admission.frames_mut());
    }
}
