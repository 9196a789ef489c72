//! Who has a share of the flash: VMs, and base images that VMs read.
//!
//! ```text
//!  attach ─► in use (disks, views) ─► last one gone ─► remembered ─► slot given to another name
//! ```
//!
//! A tenant has a slot for as long as it has a disk here or reads an image. Afterwards its slot
//! stays its own until it is needed for another name, the longest unused first, so that what
//! was counted or recorded under a slot keeps its meaning for as long as possible.

use crate::api::ControlError;
use policy::replacement::Fraction;
use std::collections::BTreeMap;
use tenancy::{SettingsError, TenantSettings};
use units::{Map, TenantSlot};

/// A VM or a base image at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantStatus {
    /// Its slot in requests and events.
    pub slot: TenantSlot,
    /// What people call it.
    pub name: String,
    /// Its disks that are attached.
    pub disks: u32,
    /// Shared disks that it reads, each as often as it joined.
    pub views: u32,
    /// Why nothing of it enters the flash, if its settings contradict others.
    pub error: Option<String>,
    /// What its reads weigh for `frequency` in memory; see [`crate::Cache::set_weight`].
    pub memory_weight: Fraction,
}

/// A VM or an image.
#[derive(Debug)]
struct Tenant {
    name: String,
    /// Its disks that are attached or about to be.
    disks: u32,
    /// Images that it reads, each as often as it joined.
    views: u32,
    /// When it was last in use, in releases of tenants.
    released: u64,
    /// Why nothing of it enters the flash, if nothing does.
    error: Option<SettingsError>,
}

/// All tenants of a cache, by slot.
#[derive(Default)]
pub(crate) struct Tenants {
    table: Vec<Tenant>,
    by_name: Map<String, TenantSlot>,
    /// What was set, by name: kept whether the tenant is here or not.
    settings: BTreeMap<String, TenantSettings>,
    /// What its reads weigh for the memory in front of the flash, by name, where it is not one.
    weights: BTreeMap<String, Fraction>,
    releases: u64,
    /// A slot that went from one name to another, until the cache has forgotten the first.
    taken_over: Option<TenantSlot>,
}

/// What uses a tenant's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A disk of its own.
    Disk,
    /// An image that it reads.
    View,
}

impl Tenants {
    /// The slot of the tenant with this name, which it may get now, held for one more use.
    ///
    /// # Errors
    /// [`ControlError::TooManyTenants`] if every slot is in use.
    pub(crate) fn hold(&mut self, name: &str, what: Use) -> Result<TenantSlot, ControlError> {
        let slot = match self.by_name.get(name) {
            Some(slot) => *slot,
            None => self.give_slot(name)?,
        };
        *self.uses(slot, what) += 1;
        Ok(slot)
    }

    /// A use has ended. True if it was the tenant's last disk.
    ///
    /// # Panics
    /// If it had not begun.
    pub(crate) fn release(&mut self, slot: TenantSlot, what: Use) -> bool {
        let uses = self.uses(slot, what);
        *uses = uses.checked_sub(1).expect("each use was counted");
        let last_disk = what == Use::Disk && *uses == 0;
        self.releases += 1;
        self.table[slot.index()].released = self.releases;
        last_disk
    }

    fn uses(&mut self, slot: TenantSlot, what: Use) -> &mut u32 {
        let tenant = &mut self.table[slot.index()];
        match what {
            Use::Disk => &mut tenant.disks,
            Use::View => &mut tenant.views,
        }
    }

    fn give_slot(&mut self, name: &str) -> Result<TenantSlot, ControlError> {
        let tenant = Tenant {
            name: name.to_owned(),
            disks: 0,
            views: 0,
            released: 0,
            error: None,
        };
        let index = if self.table.len() < TenantSlot::COUNT {
            self.table.push(tenant);
            self.table.len() - 1
        } else {
            let unused = self.table.iter().enumerate();
            let unused = unused.filter(|(_, old)| old.disks == 0 && old.views == 0);
            let longest = unused.min_by_key(|(_, old)| old.released);
            let (index, _) = longest.ok_or(ControlError::TooManyTenants)?;
            self.by_name.remove(&self.table[index].name);
            self.table[index] = tenant;
            self.taken_over = Some(slot_at(index));
            index
        };
        let slot = slot_at(index);
        self.by_name.insert(name.to_owned(), slot);
        Ok(slot)
    }

    /// The slot that the latest [`Tenants::hold`] has taken from another name, if it has.
    pub(crate) fn take_over(&mut self) -> Option<TenantSlot> {
        self.taken_over.take()
    }

    /// The slot of a tenant with this name, in use or remembered.
    pub(crate) fn slot_of(&self, name: &str) -> Option<TenantSlot> {
        self.by_name.get(name).copied()
    }

    /// What was set for a tenant, or the defaults.
    pub(crate) fn settings(&self, slot: TenantSlot) -> TenantSettings {
        let name = &self.table[slot.index()].name;
        self.settings.get(name).cloned().unwrap_or_default()
    }

    /// Sets it.
    pub(crate) fn set(&mut self, name: &str, settings: TenantSettings) {
        self.settings.insert(name.to_owned(), settings);
    }

    /// What a tenant's reads weigh for the memory in front of the flash, the others' mean being one.
    pub(crate) fn weight(&self, slot: TenantSlot) -> Fraction {
        let weight = self.weights.get(&self.table[slot.index()].name);
        weight.copied().unwrap_or(Fraction::ONE)
    }

    /// Sets it.
    pub(crate) fn set_weight(&mut self, name: &str, weight: Fraction) {
        if weight == Fraction::ONE {
            self.weights.remove(name);
        } else {
            self.weights.insert(name.to_owned(), weight);
        }
    }

    /// Why nothing of a tenant enters the flash, or that it may again.
    pub(crate) fn set_error(&mut self, slot: TenantSlot, error: Option<SettingsError>) {
        self.table[slot.index()].error = error;
    }

    /// Every tenant, in use or remembered, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TenantStatus> {
        let slots = (0..).map(TenantSlot::new);
        self.table
            .iter()
            .zip(slots)
            .map(|(tenant, slot)| TenantStatus {
                slot,
                name: tenant.name.clone(),
                disks: tenant.disks,
                views: tenant.views,
                error: tenant.error.as_ref().map(ToString::to_string),
                memory_weight: self.weight(slot),
            })
    }
}

fn slot_at(index: usize) -> TenantSlot {
    TenantSlot::new(u16::try_from(index).expect("slots are few"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_slot_after_its_last_use() {
        let mut tenants = Tenants::default();
        let web = tenants.hold("web", Use::Disk).unwrap();
        let db = tenants.hold("db", Use::Disk).unwrap();
        assert_ne!(web, db);
        assert_eq!(tenants.hold("web", Use::View).unwrap(), web);
        assert!(tenants.release(web, Use::Disk), "its last disk");
        assert!(!tenants.release(web, Use::View));
        assert_eq!(tenants.hold("web", Use::Disk).unwrap(), web);
    }

    #[test]
    fn the_longest_unused_slot_goes_to_a_new_name() {
        let mut tenants = Tenants::default();
        for number in 0..TenantSlot::COUNT {
            tenants.hold(&number.to_string(), Use::Disk).unwrap();
        }
        let error = tenants.hold("late", Use::Disk).unwrap_err();
        assert_eq!(error, ControlError::TooManyTenants);
        let [seven, nine] = ["7", "9"].map(|name| tenants.slot_of(name).unwrap());
        tenants.release(nine, Use::Disk);
        tenants.release(seven, Use::Disk);
        assert_eq!(tenants.take_over(), None);
        assert_eq!(tenants.hold("late", Use::Disk).unwrap(), nine);
        assert_eq!(tenants.take_over(), Some(nine));
        assert_eq!(tenants.slot_of("9"), None);
    }
}
