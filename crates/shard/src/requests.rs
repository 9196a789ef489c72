//! The way of clients' requests to the cache.
//!
//! ```text
//!  client ─► gate, if the disk roams ─► limits ─► cache
//!                                         ├─ the disk leaves or is handed over ─► cache, at once
//!                                         ├─ the client stops its queue ────────► cache, at once
//!                                         └─ the client has gone ───────────────► fails
//! ```

use crate::asker::Asker;
use crate::clients::Clients;
use crate::disk::RequestKind;
use crate::disks::Disks;
use crate::limits::LANDING_BYTES_MIN;
use crate::standbys::{Answered, Standbys};
use crate::throttles::{Asked, Throttles};
use block_io::IoError;
use cache::{Cache, Request, Verb};
use frontend::Incoming;
use units::{DiskSlot, Instant, TenantSlot};

/// The parts of a shard that a request goes through.
pub(crate) struct Requests<'a> {
    cache: &'a mut Cache,
    clients: &'a mut Clients,
    disks: &'a mut Disks,
    standbys: &'a mut Standbys,
    throttles: &'a mut Throttles,
    has_flash: bool,
    now: Instant,
}

impl<'a> Requests<'a> {
    /// With `has_flash` reads may find their bytes on flash.
    pub(crate) fn of(
        (cache, has_flash): (&'a mut Cache, bool),
        clients: &'a mut Clients,
        disks: &'a mut Disks,
        standbys: &'a mut Standbys,
        throttles: &'a mut Throttles,
        now: Instant,
    ) -> Self {
        Self {
            cache,
            clients,
            disks,
            standbys,
            throttles,
            has_flash,
            now,
        }
    }

    /// A client asks.
    pub(crate) fn request(&mut self, client: usize, incoming: Incoming) {
        let asker = self.clients.get_mut(client);
        let kind = RequestKind::of(&incoming.verb);
        asker.begin(incoming.key, kind, self.now);
        let place = asker.place();
        let incoming = match self.disks.roaming_at(place) {
            None => incoming,
            Some(disk) => {
                let clients = &mut *self.clients;
                let passage = self
                    .standbys
                    .request(disk, client, incoming, clients, self.now);
                let Some(incoming) = passage else { return };
                incoming
            }
        };
        let (disk, vm) = self.disk_and_vm_of(client);
        if let Some(known) = self.disks.get_mut(disk) {
            known.tell_tap(&incoming.verb, vm, self.now);
        }
        let passed = self.throttles.request(disk, client, incoming, self.now);
        if let Some(incoming) = passed {
            self.pass(client, incoming);
        }
    }

    /// Requests that have waited for limits, and need no more, go to the cache.
    pub(crate) fn pass_due(&mut self) {
        while let Some(asked) = self.throttles.take_due(self.now) {
            self.pass_late(asked);
        }
    }

    /// All that waits for the limits of a disk goes to the cache: somebody waits for the last of it.
    pub(crate) fn pass_all(&mut self, disk: DiskSlot) {
        for asked in self.throttles.take_out(disk, None, self.now) {
            self.pass_late(asked);
        }
    }

    /// The same of a client that waits until nothing of it is at the disk.
    pub(crate) fn pass_if_stopping(&mut self, client: usize) {
        let asker = self.clients.get(client);
        let Some(disk) = asker.disk() else { return };
        if asker.connection().is_stopping() {
            for asked in self.throttles.take_out(disk, Some(client), self.now) {
                self.pass_late(asked);
            }
        }
    }

    /// What waits of a client that has gone fails, and nobody hears of that.
    pub(crate) fn fail_waiting(&mut self, client: usize) {
        let asker = self.clients.get(client);
        let (place, Some(disk)) = (asker.place(), asker.disk()) else {
            return;
        };
        for (client, incoming) in self.throttles.take_out(disk, Some(client), self.now) {
            if let Some(roaming) = self.disks.roaming_at(place) {
                let answered = Answered {
                    request: (client, incoming.key),
                    failed: true,
                };
                self.standbys.answered(roaming, &answered, self.now);
            }
            let failed = Err(IoError::Failed);
            if let Some(more) = self.clients.answer(client, incoming.key, failed) {
                self.request(client, more);
            }
        }
    }

    /// The time that a request waited for a limit is no time that the disk took.
    fn pass_late(&mut self, (client, incoming): Asked) {
        let kind = RequestKind::of(&incoming.verb);
        let asker = self.clients.get_mut(client);
        asker.begin(incoming.key, kind, self.now);
        self.pass(client, incoming);
    }

    fn disk_and_vm_of(&self, client: usize) -> (DiskSlot, TenantSlot) {
        let asker = self.clients.get(client);
        let (Some(disk), Some(vm)) = (asker.disk(), asker.vm()) else {
            unreachable!("a disk that is elsewhere serves nobody");
        };
        (disk, vm)
    }

    /// A request goes to the cache.
    fn pass(&mut self, client: usize, incoming: Incoming) {
        let (disk, vm) = self.disk_and_vm_of(client);
        let key = incoming.key;
        let request = Request {
            id: Asker::Client { client, key }.id(),
            disk,
            vm,
            verb: incoming.verb,
        };
        let into = match request.verb {
            Verb::Read { length, .. } if length >= LANDING_BYTES_MIN && self.has_flash => {
                self.clients.get(client).connection().read_buffer(key)
            }
            _ => None,
        };
        match into {
            Some(into) => self.cache.request_into(request, into, self.now),
            None => self.cache.request(request, self.now),
        }
    }
}
