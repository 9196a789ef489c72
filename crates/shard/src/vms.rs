//! The VMs of a shard: under whose name a client asks, and what holds for each.

use crate::clients::Client;
use crate::control::ShardError;
use crate::run::{Owner, Shard};
use frontend::nbd::{Connection, Negotiated};
use std::sync::Arc;
use tenancy::{Settings, TenantSettings};
use units::{DiskId, DiskSlot, TenantSlot};

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

    /// A client has negotiated a disk.
    pub(crate) fn connect(
        &mut self,
        disk: DiskId,
        client: Negotiated,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        let vm = self.admit_vm(slot, vm)?;
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        disk.connections += 1;
        let limits = self.config.connection;
        let connection = Connection::new(client, &self.ring, &self.pool, limits);
        let source = connection.id();
        let client = self.clients.insert(Client::new(connection, slot, vm));
        self.own(Some(source), Owner::Client(client));
        self.touch(client);
        Ok(())
    }

    /// The VM under whose name a client asks. Of a shared disk each VM may have as many clients
    /// as any other disk.
    fn admit_vm(&mut self, slot: DiskSlot, vm: Option<&str>) -> Result<TenantSlot, ShardError> {
        let most = self.config.connections_per_disk_max;
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
