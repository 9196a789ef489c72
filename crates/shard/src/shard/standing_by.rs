//! Disks that roam: their clients stand by while another host has them.

use super::Shard;
use crate::asker::Asker;
use crate::client::Place;
use crate::control::{Borrow, Roaming};
use crate::error::{Reply, ShardError};
use crate::limits::LATE_TIME_MAX;
use block_io::{IoError, Payload};
use borrowing::Run;
use cache::{OfDirty, Request, Verb};
use frontend::Incoming;
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Offset};

impl Shard {
    pub(super) fn about_roaming(&mut self, disk: DiskId, what: Roaming) {
        let (standbys, clients) = (&mut self.standbys, &mut self.clients);
        let again = match what {
            Roaming::Enter { offer, tell } => {
                standbys.enter(disk, *offer, tell, self.now);
                Vec::new()
            }
            Roaming::Incoming(seen) => {
                standbys.incoming(disk, seen, self.now);
                Vec::new()
            }
            Roaming::Look(reply) => {
                let look = standbys.look(disk, self.now);
                reply(look.ok_or(ShardError::NoSuchDisk));
                Vec::new()
            }
            Roaming::Hold { is_return, reply } => {
                let held = self.disks.serving(disk).and_then(|_| {
                    let may = standbys.hold(disk, is_return, self.now);
                    may.then_some(()).ok_or(ShardError::InUse)
                });
                reply(held);
                Vec::new()
            }
            Roaming::Give(reply) => self.give(disk, reply),
            Roaming::Serve => standbys.release(disk),
            Roaming::Fail => standbys.fail(disk, clients),
            Roaming::EndOld => standbys.end_old(disk, clients),
            Roaming::Read {
                offset,
                length,
                reply,
            } => {
                self.read_for_peer(disk, (offset, length), reply);
                Vec::new()
            }
            Roaming::AnswerRead { ticket, result } => {
                let payload = |bytes: Vec<u8>| Payload::from_iter([self.pool.copy_of(&bytes)]);
                standbys.answer_read(disk, ticket, result.map(payload), clients)
            }
            Roaming::Lend { request, reply } => {
                let loan = self.jobs.wait_for_loan(reply);
                self.cache.lend(loan, request, self.now);
                Vec::new()
            }
            Roaming::Borrow(what) => {
                self.borrow(disk, what);
                Vec::new()
            }
        };
        self.request_again(again);
    }

    /// Does what is to be done about what an attached disk borrows.
    fn borrow(&mut self, disk: DiskId, what: Borrow) {
        let (Some(slot), Some(loans)) = (self.disks.slot_of(disk), self.standbys.loans(disk))
        else {
            if let Borrow::Pull { reply, .. } | Borrow::Prefetch { reply, .. } = what {
                reply(Err(ShardError::NoSuchDisk));
            }
            return;
        };
        match what {
            Borrow::List(runs) => return loans.list(&runs),
            Borrow::Pull { run, reply } => {
                let runs = loans.borrowable(run);
                return self.prefetch(slot, &runs, reply);
            }
            Borrow::Prefetch { run, reply } => return self.prefetch(slot, &[run], reply),
            Borrow::Answer { number, bytes } => loans.answer(number, bytes),
            Borrow::Linked(is_linked) => loans.set_linked(is_linked),
            Borrow::End => loans.end(),
        }
        self.poll_origin(slot);
    }

    /// Prefetches runs; the last one's end is that of all.
    fn prefetch(&mut self, slot: DiskSlot, runs: &[Run], reply: Reply<()>) {
        let vm = self.cache.facts().tenant_of(slot);
        let (Some(vm), Some((last, others))) = (vm, runs.split_last()) else {
            return reply(Ok(()));
        };
        let others = others.iter().map(|run| (run, None));
        for (run, reply) in others.chain([(last, Some(reply))]) {
            let reply = reply.unwrap_or_else(|| Box::new(|_| {}));
            let prefetch = self.jobs.wait_for_end(reply);
            let verb = Verb::Prefetch {
                offset: run.first.start(),
                length: Bytes::new(u64::from(run.count) * BLOCK_BYTES),
            };
            let (id, disk) = (Asker::Command(prefetch).id(), slot);
            let request = Request { id, disk, vm, verb };
            self.cache.request(request, self.now);
        }
    }

    fn request_again(&mut self, requests: Vec<(usize, Incoming)>) {
        for (client, incoming) in requests {
            self.request(client, incoming);
        }
    }

    /// The disk of clients at this place, if it roams.
    pub(super) fn roaming_at(&self, place: Place) -> Option<DiskId> {
        match place {
            Place::Standby(disk) => Some(disk),
            Place::Slot(slot) => {
                let disk = self.disks.get(slot)?;
                disk.roams().then(|| disk.id())
            }
        }
    }

    /// A disk is attached: if it roams, its clients are served, and what waits.
    pub(super) fn seat_clients(&mut self, disk: DiskId, slot: DiskSlot) {
        let Some(waiting) = self.standbys.taken(disk) else {
            return;
        };
        let place = Place::Standby(disk);
        let vm = self.cache.facts().tenant_of(slot);
        let count = self.clients.of(place).count();
        self.clients.move_all(place, slot.into(), vm);
        let known = self.disks.get_mut(slot).expect("it is attached");
        known.connected_all(count);
        // Rings that waited start.
        self.clients.touch_all_of(slot);
        self.request_again(waiting);
    }

    fn give(&mut self, disk: DiskId, reply: Reply<()>) -> Vec<(usize, Incoming)> {
        let Some(slot) = self.disks.slot_of(disk) else {
            // It went with an earlier word.
            reply(Ok(()));
            return Vec::new();
        };
        let Some(waiting) = self.standbys.given(disk) else {
            reply(Err(ShardError::InUse));
            return Vec::new();
        };
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
        waiting
    }

    fn read_for_peer(&mut self, disk: DiskId, at: (Offset, Bytes), reply: Reply<Vec<u8>>) {
        let (offset, length) = at;
        let slot = match self.disks.serving(disk) {
            Ok(slot) if self.standbys.is_serving(disk) => slot,
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
}
