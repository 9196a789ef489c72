//! Clients come and go, over whichever front end.
//!
//! Invariants:
//! - A disk that is written has clients over one front end at a time: neither knows of what the
//!   other one's guest caches. A shared disk is never written, so there it does not matter.
//! - Connections of one VM to a disk share a [`Reservation`].

use crate::clients::Client;
use crate::control::ShardError;
use crate::run::{Owner, Shard};
use crate::status::FrontEndStatus;
use frontend::{Context, Counters, FrontEnd, NewClient, Offer, Reservation};
use units::{Bytes, DiskId, DiskSlot, TenantSlot};

impl Shard {
    /// A client has come for a disk.
    pub(crate) fn connect(
        &mut self,
        disk: DiskId,
        client: Box<dyn NewClient>,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        let front_end = client.front_end();
        self.refuse_both(slot, front_end)?;
        let account = self.memory.open().ok_or(ShardError::NoMemory)?;
        let most = front_end.connections_max;
        let vm = self.admit_vm(
            slot,
            vm,
            most.unwrap_or(self.config.connections_per_disk_max),
        )?;
        let reservation = self.reservation_of(slot, vm);
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        let connection = client.open(Context {
            offer: Offer {
                name: disk.spec.name.clone(),
                size: disk.geometry.size,
                read_only: disk.is_read_only(),
                can_discard: disk.geometry.can_discard,
            },
            ring: &self.ring,
            pool: &self.pool,
            limits: self.config.connection,
            account,
            reservation: reservation.clone(),
        });
        disk.connections += 1;
        let source = connection.id();
        let client = Client::new(connection, front_end, reservation, slot, vm);
        let client = self.clients.insert(client);
        self.own(Some(source), Owner::Client(client));
        self.touch(client);
        Ok(())
    }

    /// A disk has grown, by whole blocks.
    pub(crate) fn tell_of_size(&mut self, slot: DiskSlot, size: Bytes) {
        let theirs = self.clients.iter_mut();
        for (_, client) in theirs.filter(|(_, client)| client.disk == slot) {
            client.connection.resize(size);
        }
        self.touch_clients_of(slot);
    }

    fn refuse_both(&self, slot: DiskSlot, wanted: FrontEnd) -> Result<(), ShardError> {
        let disk = self.disks[slot.index()].as_ref().expect("it is serving");
        if disk.spec.shared {
            return Ok(());
        }
        let mut others = self.clients_of(slot).map(|(_, client)| client.front_end());
        match others.find(|other| *other != wanted) {
            Some(other) => Err(ShardError::OtherFrontEnd(other)),
            None => Ok(()),
        }
    }

    /// The reservation of a disk that a VM's connections share.
    fn reservation_of(&self, slot: DiskSlot, vm: TenantSlot) -> Reservation {
        let mut theirs = self.clients_of(slot).filter(|(_, client)| client.vm == vm);
        let shared = theirs
            .next()
            .map(|(_, client)| client.reservation().clone());
        shared.unwrap_or_default()
    }

    pub(crate) fn clients_of(&self, slot: DiskSlot) -> impl Iterator<Item = (usize, &Client)> {
        let all = self.clients.iter();
        all.filter(move |(_, client)| client.disk == slot)
    }

    /// Lists all clients of a disk to be polled: one may have waited for a reservation that was
    /// released.
    pub(crate) fn touch_clients_of(&mut self, slot: DiskSlot) {
        let clients: Vec<usize> = self.clients_of(slot).map(|(key, _)| key).collect();
        for client in clients {
            self.touch(client);
        }
    }

    pub(crate) fn forget_client(&mut self, client: usize) {
        let client = self.clients.remove(client);
        self.own(Some(client.connection.id()), Owner::Nobody);
        let (slot, vm) = (client.disk, client.vm);
        if let Some(disk) = &mut self.disks[slot.index()] {
            disk.connections -= 1;
            disk.keep_counters(client.front_end(), client.connection.report().counters);
            if disk.spec.shared {
                self.cache.leave(slot, vm);
            }
        }
        // Dropped first, which releases its disk.
        drop(client);
        self.touch_clients_of(slot);
    }

    /// What a disk's connections are like, by front end.
    pub(crate) fn front_ends_of(&self, slot: DiskSlot) -> Vec<FrontEndStatus> {
        let disk = self.disks[slot.index()].as_ref();
        let before = disk.map_or(&[][..], |disk| &disk.counted_before);
        let unused =
            |(front_end, counters): &(FrontEnd, _)| FrontEndStatus::unused(*front_end, *counters);
        let mut all: Vec<FrontEndStatus> = before.iter().map(unused).collect();
        for (_, client) in self.clients_of(slot) {
            let front_end = client.front_end();
            let known = all.iter().position(|one| one.front_end == front_end);
            let at = known.unwrap_or_else(|| {
                all.push(FrontEndStatus::unused(front_end, Counters::default()));
                all.len() - 1
            });
            all[at].add(client.connection.report(), client.connection.in_flight());
        }
        all
    }
}
