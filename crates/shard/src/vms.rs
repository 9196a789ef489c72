//! The VMs of a shard: under whose name a client asks, and what holds for each.

use crate::clients::Client;
use crate::control::ShardError;
use crate::run::Shard;
use std::sync::Arc;
use tenancy::{Settings, TenantSettings};
use units::{DiskSlot, TenantSlot};

impl Shard {
    /// Changes what holds for all.
    pub(crate) fn set_tenancy(&mut self, settings: Option<Settings>) -> Result<(), ShardError> {
        let result = self.cache.set_tenancy(settings, self.now);
        result.map_err(|error| Arc::new(error).into())
    }

    /// Changes what holds for one.
    pub(crate) fn set_tenant(
        &mut self,
        tenant: &str,
        settings: TenantSettings,
    ) -> Result<(), ShardError> {
        let result = self.cache.set_tenant(tenant, settings, self.now);
        result.map_err(|error| Arc::new(error).into())
    }

    /// The VM under whose name a client asks. Of a shared disk each VM may have as many clients
    /// as any other disk.
    pub(crate) fn admit_vm(
        &mut self,
        slot: DiskSlot,
        vm: Option<&str>,
        most: usize,
    ) -> Result<TenantSlot, ShardError> {
        let disk = self.disks[slot.index()].as_ref().expect("it is serving");
        match (disk.spec.shared, vm) {
            (false, Some(_)) => Err(ShardError::NotShared),
            (true, None) => Err(ShardError::WhichVm),
            (false, None) if disk.connections >= most => Err(ShardError::TooManyConnections(most)),
            (false, None) => Ok(self.cache.tenant_of(slot).expect("it is serving")),
            (true, Some(vm)) => {
                let vm = self.cache.join(slot, vm)?;
                let of_vm = |client: &Client| client.disk == slot && client.vm == vm;
                if self
                    .clients
                    .iter()
                    .filter(|(_, client)| of_vm(client))
                    .count()
                    >= most
                {
                    self.cache.leave(slot, vm);
                    return Err(ShardError::TooManyConnections(most));
                }
                Ok(vm)
            }
        }
    }
}
