//! Disks that roam: their clients stand by while another host has them.

use super::Shard;
use crate::asker::Asker;
use crate::client::{Place, Standing};
use crate::control::Roaming;
use crate::disk::Disk;
use crate::error::{Reply, ShardError};
use crate::limits::{FAREWELL_TIME_MAX, LATE_TIME_MAX};
use crate::standbys::Parked;
use block_io::{IoError, Payload};
use cache::{OfDirty, Request, Verb};
use frontend::Incoming;
use units::{Bytes, DiskId, DiskSlot, Offset};

impl Shard {
    pub(super) fn about_roaming(&mut self, disk: DiskId, what: Roaming) {
        match what {
            Roaming::Enter { offer, tell } => self.standbys.enter(disk, *offer, tell),
            Roaming::Incoming(seen) => self.standbys.incoming(disk, seen, self.now),
            Roaming::Look(reply) => {
                let look = self.standbys.look(disk, self.now);
                reply(look.ok_or(ShardError::NoSuchDisk));
            }
            Roaming::Hold { is_return, reply } => {
                let serving = self.disks.serving(disk);
                let held = serving.and_then(|_| {
                    let may = self.standbys.hold(disk, is_return, self.now);
                    may.then_some(()).ok_or(ShardError::InUse)
                });
                reply(held);
            }
            Roaming::Give(reply) => self.give(disk, reply),
            Roaming::Serve => self.release(disk),
            Roaming::Fail => self.fail_parked(disk, |_| true),
            Roaming::EndOld => {
                self.clients.end_old(Place::Standby(disk));
                let clients = &self.clients;
                let is_ended =
                    |parked: &Parked| clients.get(parked.client).standing() == Standing::Ended;
                let ended = self.standbys.take_parked(disk, is_ended);
                self.fail(ended);
            }
            Roaming::Read {
                offset,
                length,
                reply,
            } => self.read_for_peer(disk, (offset, length), reply),
            Roaming::AnswerRead { ticket, result } => {
                if let Some(Parked {
                    client, incoming, ..
                }) = self.standbys.take_read(disk, ticket)
                {
                    let payload = |bytes: Vec<u8>| Payload::from_iter([self.pool.copy_of(&bytes)]);
                    self.answer_client(client, incoming, result.map(payload));
                }
            }
        }
    }

    /// A request of a disk that is not here.
    pub(super) fn stand_by(&mut self, client: usize, incoming: Incoming) {
        let asker = self.clients.get(client);
        let (place, standing) = (asker.place(), asker.standing());
        let Place::Standby(disk) = place else {
            unreachable!("a disk that is here has a slot");
        };
        match (standing, &incoming.verb) {
            (Standing::Ended, _) => self.answer_client(client, incoming, Err(IoError::Failed)),
            // What was written before is at the origin, or was not written here.
            (_, Verb::Flush | Verb::Prefetch { .. }) => {
                self.answer_client(client, incoming, Ok(Payload::new()));
            }
            _ => {
                let is_old = standing == Standing::Old;
                self.standbys.park(disk, client, incoming, is_old);
            }
        }
    }

    /// A request of a roaming disk that is here: it comes back if the cache may have it.
    pub(super) fn pass_roaming(
        &mut self,
        slot: DiskSlot,
        client: usize,
        incoming: Incoming,
    ) -> Option<Incoming> {
        if self.clients.get(client).standing() == Standing::Ended {
            self.answer_client(client, incoming, Err(IoError::Failed));
            return None;
        }
        let disk = self.disks.get(slot).map(Disk::id)?;
        self.standbys.pass(disk, client, incoming, self.now)
    }

    /// A roaming disk has come: its clients are served, and what waits.
    pub(super) fn seat_clients(&mut self, disk: DiskId, slot: DiskSlot) {
        if !self.standbys.has(disk) {
            return;
        }
        let place = Place::Standby(disk);
        let vm = self.cache.facts().tenant_of(slot);
        let count = self.clients.of(place).count();
        self.clients.move_all(place, slot.into(), vm);
        let known = self.disks.get_mut(slot).expect("it is attached");
        known.connected_all(count);
        self.standbys.taken(disk);
        self.release(disk);
    }

    fn release(&mut self, disk: DiskId) {
        self.standbys.release(disk);
        for Parked {
            client, incoming, ..
        } in self.standbys.take_parked(disk, |_| true)
        {
            self.request(client, incoming);
        }
    }

    fn give(&mut self, disk: DiskId, reply: Reply<()>) {
        let Some(slot) = self.disks.slot_of(disk) else {
            // It went with an earlier word.
            return reply(Ok(()));
        };
        if !self.standbys.is_held(disk) {
            return reply(Err(ShardError::InUse));
        }
        let place = Place::Standby(disk);
        self.clients.move_all(slot.into(), place, None);
        let late_until = self.now + LATE_TIME_MAX;
        let known = self.disks.get_mut(slot);
        let known = known.expect("a slot that is known has a disk");
        known.disconnected_all();
        if known.drain(reply, OfDirty::Flush, late_until) {
            self.disks.wait_for(slot);
            self.cache.cut_prefetches(slot, self.now);
        }
        // What came while it was held waits for it to come back, but flushes.
        let is_flush = |parked: &Parked| matches!(parked.incoming.verb, Verb::Flush);
        for Parked {
            client, incoming, ..
        } in self.standbys.take_parked(disk, is_flush)
        {
            self.stand_by(client, incoming);
        }
    }

    fn read_for_peer(&mut self, disk: DiskId, at: (Offset, Bytes), reply: Reply<Vec<u8>>) {
        let (offset, length) = at;
        let slot = match self.disks.serving(disk) {
            Ok(slot) if !self.standbys.is_held(disk) => slot,
            _ => return reply(Err(ShardError::Detaching)),
        };
        let known = self.disks.get(slot).expect("it is serving");
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end.from_start() > known.geometry().size) {
            return reply(Err(ShardError::Io(IoError::Invalid)));
        }
        let vm = self.cache.facts().tenant_of(slot).expect("it is serving");
        let read = self.jobs.wait_for_read(reply);
        let request = Request {
            id: Asker::Command(read).id(),
            disk: slot,
            vm,
            verb: Verb::Read { offset, length },
        };
        self.cache.request(request, self.now);
    }

    fn fail_parked(&mut self, disk: DiskId, is_chosen: impl FnMut(&Parked) -> bool) {
        let parked = self.standbys.take_parked(disk, is_chosen);
        self.fail(parked);
    }

    fn fail(&mut self, parked: Vec<Parked>) {
        for Parked {
            client, incoming, ..
        } in parked
        {
            self.answer_client(client, incoming, Err(IoError::Failed));
        }
    }

    fn answer_client(
        &mut self,
        client: usize,
        incoming: Incoming,
        result: Result<Payload, IoError>,
    ) {
        let asker = self.clients.get_mut(client);
        let more = asker.connection_mut().reply(incoming.key, result);
        self.clients.touch(client);
        if let Some(incoming) = more {
            self.request(client, incoming);
        }
    }

    /// The shard stops: the clients of disks that are elsewhere go.
    pub(super) fn end_standbys(&mut self) {
        for disk in self.standbys.all() {
            self.clients
                .close(Place::Standby(disk), self.now + FAREWELL_TIME_MAX);
            self.fail_parked(disk, |_| true);
        }
    }
}
