//! How the flash is divided among tenants: windows that end, shares, and what is set.
//!
//! ```text
//!   window over, settings changed, tenant came or went ─► admission ─► shares ─► segment log
//!                                                             └─► what leaves staging for flash
//! ```
//!
//! A guest never hears of settings that contradict each other: what is cached is served and kept right,
//! but nothing enters the flash, and the status says why.

use crate::admitter::{Admission, Admitter};
use crate::disks::Disks;
use crate::ports::Ports;
use crate::tenants::Tenants;
use admission::AdmissionControl;
use block_store::Store;
use policy::replacement::Fraction;
use segment_log::Spare;
use tenancy::{Capacity, Settings, SettingsError, TenantSettings, Wanted};
use units::{DiskSlot, Instant, TenantSlot};

/// That of a cache with this flash.
///
/// # Errors
/// If the settings contradict each other.
pub(crate) fn admission_of(
    settings: Option<Settings>,
    flash: &Store,
    now: Instant,
) -> Result<Admission, SettingsError> {
    let mut admission =
        AdmissionControl::new(settings, Capacity::of(flash.facts().geometry()), now)?;
    if !flash.facts().is_new() {
        admission.begin_empty();
    }
    Ok(admission)
}

/// The parts of a cache that divide its flash.
pub(crate) struct Division<'a> {
    tenants: &'a mut Tenants,
    admission: &'a mut Admission,
    flash: Option<&'a mut Store>,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

impl<'a> Division<'a> {
    /// For one event.
    pub(crate) fn new(
        tenants: &'a mut Tenants,
        admission: &'a mut Admission,
        flash: Option<&'a mut Store>,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            tenants,
            admission,
            flash,
            disks,
            ports,
        }
    }

    /// Lets windows end that are over, and asks to be looked at when the next one is.
    pub(crate) fn tick(&mut self) {
        let (disks, now) = (&self.disks, self.ports.now());
        let Some(flash) = self.flash.as_deref() else {
            return;
        };
        let cached = |tenant: TenantSlot| {
            let own = disks.iter().filter(|(_, disk)| disk.tenant == tenant);
            own.map(|(slot, _)| flash.facts().cached_blocks_of(slot))
                .sum()
        };
        let mut has_ended = false;
        while self.admission.tick(now, cached) {
            has_ended = true;
        }
        if has_ended {
            self.divided();
        }
        self.wake_for_window();
    }

    /// Asks to be looked at when the running window ends.
    pub(crate) fn wake_for_window(&mut self) {
        if let Some(end) = self.admission.next_tick() {
            self.ports.wake_at(end);
        }
    }

    /// Shares or settings have changed: tells the log, and appends what left staging for flash.
    fn divided(&mut self) {
        let flash = self.flash.as_deref_mut();
        Admitter::new(self.admission, flash, self.disks, self.ports).let_in_unstaged();
        let tenancy = self.admission.tenancy();
        let (Some(flash), Some(tenancy)) = (self.flash.as_deref_mut(), tenancy) else {
            return;
        };
        flash.shares_mut().set_spare(tenancy.settings().spare);
        for share in &tenancy.shares().of {
            flash.shares_mut().set_share(share.tenant, share.segments);
        }
    }

    /// A tenant's first disk comes: its books are kept from now on. If its settings contradict the
    /// others' nothing of it enters until they do not.
    pub(crate) fn begin(&mut self, tenant: TenantSlot) {
        let admission = &self.admission;
        if admission.tenancy().is_none() || admission.has(tenant) {
            return;
        }
        let settings = self.settings_of(tenant);
        let error = self.admission.attach(tenant, settings).err();
        self.tenants.set_error(tenant, error);
        let weight = self.tenants.weight(tenant);
        self.admission.frames_mut().set_weight(tenant, weight);
        self.divided();
    }

    /// Changes what the reads of a tenant weigh for the memory in front of the flash, attached or not. The flash is divided as
    /// before.
    pub(crate) fn set_weight(&mut self, name: &str, weight: Fraction) {
        self.tenants.set_weight(name, weight);
        let attached = self.tenants.slot_of(name);
        if let Some(slot) = attached.filter(|slot| self.admission.has(*slot)) {
            self.admission.frames_mut().set_weight(slot, weight);
        }
    }

    /// A tenant's last disk has gone.
    pub(crate) fn end(&mut self, tenant: TenantSlot) {
        self.admission.detach(tenant);
        self.tenants.set_error(tenant, None);
        if let Some(flash) = self.flash.as_deref_mut() {
            flash.shares_mut().set_share(tenant, 0);
        }
        self.settings_changed();
    }

    /// Settings have changed, or a tenant's are no more: tries again those tenants whose settings
    /// contradicted others.
    fn settings_changed(&mut self) {
        let disks = self.disks.iter();
        let mut waiting: Vec<TenantSlot> = disks.map(|(_, disk)| disk.tenant).collect();
        waiting.sort_unstable();
        waiting.dedup();
        for tenant in waiting {
            self.begin(tenant);
        }
        self.divided();
    }

    /// A tenant's settings, with what follows from its disks.
    fn settings_of(&self, tenant: TenantSlot) -> TenantSettings {
        TenantSettings {
            image: self.is_image(tenant),
            ..self.tenants.settings(tenant)
        }
    }

    /// Whether a tenant is an image that others read.
    fn is_image(&self, tenant: TenantSlot) -> bool {
        let mut disks = self.disks.iter();
        disks.any(|(_, disk)| disk.tenant == tenant && disk.views.is_some())
    }

    /// Whose a disk's segments are from now on.
    pub(crate) fn own_disk(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        let is_open = self.admission.is_open();
        if let (Some(flash), false) = (self.flash.as_deref_mut(), is_open) {
            flash.shares_mut().set_tenant(disk, tenant);
        }
    }

    /// Changes what holds for all tenants.
    pub(crate) fn set(&mut self, settings: Option<Settings>) -> Result<(), SettingsError> {
        match (settings, self.admission.tenancy()) {
            (Some(settings), Some(_)) => self.admission.set(settings)?,
            (settings, _) => self.replace_admission(settings)?,
        }
        self.settings_changed();
        self.wake_for_window();
        Ok(())
    }

    fn replace_admission(&mut self, settings: Option<Settings>) -> Result<(), SettingsError> {
        let Some(flash) = self.flash.as_deref_mut() else {
            return Ok(());
        };
        *self.admission = admission_of(settings, flash, self.ports.now())?;
        let is_open = self.admission.is_open();
        for (slot, disk) in self.disks.iter() {
            let owner = (!is_open).then_some(disk.tenant);
            flash.shares_mut().set_tenant(slot, owner);
            flash.shares_mut().set_share(disk.tenant, 0);
        }
        if is_open {
            flash.shares_mut().set_spare(Spare::Lent);
        }
        Ok(())
    }

    /// A tenant that is attached comes from another host, where it wanted this.
    pub(crate) fn comes(&mut self, name: &str, wanted: Wanted) {
        let attached = self.tenants.slot_of(name);
        if let Some(slot) = attached.filter(|slot| self.admission.has(*slot)) {
            self.admission.comes(slot, wanted);
            self.settings_changed();
        }
    }

    /// Changes what holds for a tenant, attached or not.
    pub(crate) fn set_tenant(
        &mut self,
        name: &str,
        settings: TenantSettings,
    ) -> Result<(), SettingsError> {
        let attached = self.tenants.slot_of(name);
        if let Some(slot) = attached.filter(|slot| self.admission.has(*slot)) {
            let settings = TenantSettings {
                image: self.is_image(slot),
                ..settings.clone()
            };
            self.admission.set_tenant(slot, settings)?;
        }
        self.tenants.set(name, settings);
        self.settings_changed();
        Ok(())
    }
}
