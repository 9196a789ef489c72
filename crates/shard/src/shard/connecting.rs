//! Clients come and go, over whichever front end.
//!
//! Invariants:
//! - A disk that is written has clients over one front end at a time: neither knows of what the
//!   other one's guest caches. A shared disk is never written, so there it does not matter.
//! - Connections of one VM to a disk share a [`Reservation`](frontend::Reservation).

use super::Shard;
use crate::client::{Client, Place};
use crate::disk::Disk;
use crate::error::ShardError;
use crate::sources::Handler;
use frontend::{Context, NewClient};
use units::{DiskId, DiskSlot, TenantSlot};

impl Shard {
    /// A client has come for a disk.
    pub(super) fn connect(
        &mut self,
        disk: DiskId,
        client: Box<dyn NewClient>,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let slot = match self.disks.serving(disk) {
            Err(_) if self.standbys.has(disk) => return self.connect_standby(disk, client, vm),
            slot => slot?,
        };
        let front_end = client.front_end();
        if !self.disks.get(slot).is_some_and(Disk::is_shared) {
            self.clients.refuse_both(slot.into(), front_end)?;
        }
        let account = self.memory.open().ok_or(ShardError::NoMemory)?;
        let most = front_end.connections_max;
        let most = most.unwrap_or(self.config.connections_per_disk_max);
        let vm = self.admit_vm(slot, vm, most)?;
        let reservation = match self.standbys.reservation(disk) {
            Some(reservation) => reservation,
            None => self.clients.reservation_of(slot, Some(vm)),
        };
        let known = self.disks.get_mut(slot).expect("it is serving");
        let connection = client.open(Context {
            offer: known.offer(),
            ring: &self.ring,
            pool: &self.pool,
            limits: self.config.connection,
            account,
            reservation: reservation.clone(),
        });
        known.connected();
        let source = connection.id();
        let client = Client::new(connection, front_end, reservation, slot.into(), Some(vm));
        let client = self.clients.insert(client);
        self.sources.set(source, Handler::Client(client));
        self.standbys.client_came(disk, client);
        Ok(())
    }

    /// A client has come for a disk that another host has.
    fn connect_standby(
        &mut self,
        disk: DiskId,
        client: Box<dyn NewClient>,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let offer = self.standbys.offer(disk).ok_or(ShardError::NoSuchDisk)?;
        if vm.is_some() {
            return Err(ShardError::NotShared);
        }
        let offer = offer.clone();
        let front_end = client.front_end();
        let most = front_end.connections_max;
        let most = most.unwrap_or(self.config.connections_per_disk_max);
        let place = Place::Standby(disk);
        self.clients.refuse_both(place, front_end)?;
        if self.clients.of(place).count() >= most {
            return Err(ShardError::TooManyConnections(most));
        }
        let account = self.memory.open().ok_or(ShardError::NoMemory)?;
        let reservation = self.standbys.reservation(disk);
        let reservation = reservation.ok_or(ShardError::NoSuchDisk)?;
        let connection = client.open(Context {
            offer,
            ring: &self.ring,
            pool: &self.pool,
            limits: self.config.connection,
            account,
            reservation: reservation.clone(),
        });
        let source = connection.id();
        let client = Client::new(connection, front_end, reservation, place, None);
        let client = self.clients.insert(client);
        self.sources.set(source, Handler::Client(client));
        self.standbys.client_came(disk, client);
        Ok(())
    }

    /// The VM under whose name a client asks. Of a shared disk each VM may have as many clients
    /// as any other disk.
    fn admit_vm(
        &mut self,
        slot: DiskSlot,
        vm: Option<&str>,
        most: usize,
    ) -> Result<TenantSlot, ShardError> {
        let disk = self.disks.get(slot).expect("it is serving");
        match (disk.is_shared(), vm) {
            (false, Some(_)) => Err(ShardError::NotShared),
            (true, None) => Err(ShardError::WhichVm),
            (false, None) if disk.connections() >= most => {
                Err(ShardError::TooManyConnections(most))
            }
            (false, None) => Ok(self.cache.facts().tenant_of(slot).expect("it is serving")),
            (true, Some(vm)) => {
                let vm = self.cache.join(slot, vm)?;
                let theirs = self
                    .clients
                    .of(slot)
                    .filter(|client| client.vm() == Some(vm));
                if theirs.count() >= most {
                    self.cache.leave(slot, vm);
                    return Err(ShardError::TooManyConnections(most));
                }
                Ok(vm)
            }
        }
    }

    pub(super) fn forget_client(&mut self, client: usize) {
        let roaming = self.disks.roaming_at(self.clients.get(client).place());
        if let Some(disk) = roaming {
            self.standbys.client_gone(disk, client, self.now);
        }
        let client = self.clients.remove(client);
        let source = client.connection().id();
        self.sources.set(source, Handler::Nobody);
        let place = client.place();
        if let Place::Slot(slot) = place
            && let Some(disk) = self.disks.get_mut(slot)
        {
            let counters = client.connection().report().counters;
            disk.disconnected(client.front_end(), counters);
            if let (true, Some(vm)) = (disk.is_shared(), client.vm()) {
                self.cache.leave(slot, vm);
            }
        }
        // Dropped first, which releases its disk.
        drop(client);
        self.clients.touch_all_of(place);
    }
}
