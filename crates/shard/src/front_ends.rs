//! Clients come and go, over NBD and over vhost-user.
//!
//! Invariants:
//! - A disk that is written has clients over one front end at a time: neither knows of what the
//!   other one's guest caches. A shared disk is never written, so there it does not matter.
//! - Connections of one VM over vhost-user share a turn at the disk: see [`vhost_user::Turn`].

use crate::clients::Client;
use crate::connection::Connection;
use crate::control::{ShardError, VhostClient};
use crate::limits::VHOST_CONNECTIONS_MAX;
use crate::run::{Owner, Shard};
use crate::status::{FrontEnd, VhostStatus};
use frontend::nbd::{self, Negotiated};
use units::{Bytes, DiskId, DiskSlot, TenantSlot};
use vhost_user::Turn;

impl Shard {
    /// An NBD client has negotiated a disk.
    pub(crate) fn connect(
        &mut self,
        disk: DiskId,
        client: Negotiated,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        self.refuse_both(slot, FrontEnd::Nbd)?;
        let account = self.memory.open().ok_or(ShardError::NoMemory)?;
        let vm = self.admit_vm(slot, vm, self.config.connections_per_disk_max)?;
        let limits = self.config.connection;
        let connection = nbd::Connection::new(client, &self.ring, &self.pool, limits);
        let connection = connection.charging(account);
        self.add_client(Connection::Nbd(Box::new(connection)), slot, vm);
        Ok(())
    }

    /// A VM has connected to a disk's socket.
    pub(crate) fn connect_vhost(
        &mut self,
        disk: DiskId,
        client: VhostClient,
        vm: Option<&str>,
    ) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        self.refuse_both(slot, FrontEnd::VhostUser)?;
        let account = self.memory.open().ok_or(ShardError::NoMemory)?;
        let vm = self.admit_vm(slot, vm, VHOST_CONNECTIONS_MAX)?;
        let disk = self.disks[slot.index()].as_ref().expect("it is serving");
        let sector = u64::from(client.sector);
        let offered = vhost_user::Disk {
            name: disk.spec.name.clone(),
            serial: client.serial,
            // What is beyond the last whole sector cannot be asked for.
            size: Bytes::new(disk.geometry.size.get() / sector * sector),
            sector: client.sector,
            read_only: disk.is_read_only(),
            can_discard: disk.geometry.can_discard,
        };
        let limits = self.config.connection;
        let turn = self.turn_of(slot, vm);
        let connection =
            vhost_user::Connection::new(client.socket, &offered, &self.ring, &self.pool, limits);
        let connection = connection.taking_turns(&turn).watched().charging(account);
        let connection = connection.mapping_within(&self.config.guest_memory);
        let connection = Connection::Vhost(Box::new(connection));
        self.add_client(connection, slot, vm);
        Ok(())
    }

    /// A disk has grown, by whole blocks.
    pub(crate) fn tell_of_size(&mut self, slot: DiskSlot, size: Bytes) {
        let clients: Vec<usize> = self.clients_of(slot).map(|(key, _)| key).collect();
        for key in clients {
            self.clients[key].connection.resize(size);
            self.touch(key);
        }
    }

    fn add_client(&mut self, connection: Connection, slot: DiskSlot, vm: TenantSlot) {
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        disk.connections += 1;
        let source = connection.id();
        let client = self.clients.insert(Client::new(connection, slot, vm));
        self.own(Some(source), Owner::Client(client));
        self.touch(client);
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

    /// The turn at a disk that a VM's connections share.
    fn turn_of(&self, slot: DiskSlot, vm: TenantSlot) -> Turn {
        let mut theirs = self.clients_of(slot).filter(|(_, client)| client.vm == vm);
        let shared = theirs.find_map(|(_, client)| client.connection.turn().cloned());
        shared.unwrap_or_default()
    }

    pub(crate) fn clients_of(&self, slot: DiskSlot) -> impl Iterator<Item = (usize, &Client)> {
        let all = self.clients.iter();
        all.filter(move |(_, client)| client.disk == slot)
    }

    /// A turn was given back: who waits for it is polled.
    pub(crate) fn pass_turn(&mut self, slot: DiskSlot) {
        let waits = |client: &Client| {
            let vhost = client.connection.vhost();
            vhost.is_some_and(vhost_user::Connection::waits_for_turn)
        };
        let waiting = self.clients_of(slot).filter(|(_, client)| waits(client));
        let waiting: Vec<usize> = waiting.map(|(key, _)| key).collect();
        for client in waiting {
            self.touch(client);
        }
    }

    pub(crate) fn forget_client(&mut self, client: usize) {
        let client = self.clients.remove(client);
        self.own(Some(client.connection.id()), Owner::Nobody);
        let (slot, vm) = (client.disk, client.vm);
        if let Some(disk) = &mut self.disks[slot.index()] {
            disk.connections -= 1;
            if let Some(vhost) = client.connection.vhost() {
                disk.vhost_before += vhost.counters();
            }
            if disk.spec.shared {
                self.cache.leave(slot, vm);
            }
        }
        // Dropped first, which gives its turn back.
        drop(client);
        self.pass_turn(slot);
    }

    /// What a disk's connections over vhost-user are like.
    pub(crate) fn vhost_status(&self, slot: DiskSlot) -> VhostStatus {
        let before = self.disks[slot.index()].as_ref();
        let mut status = VhostStatus {
            counters: before.map_or_else(Default::default, |disk| disk.vhost_before),
            ..VhostStatus::default()
        };
        for (_, client) in self.clients_of(slot) {
            if let Some(vhost) = client.connection.vhost() {
                status.connections += 1;
                status.waiting += usize::from(vhost.waits_for_turn());
                status.queues += vhost.queues();
                status.in_flight += vhost.in_flight();
                status.counters += vhost.counters();
            }
        }
        status
    }
}
