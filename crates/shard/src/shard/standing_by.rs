//! Disks that roam: their clients stand by while another host has them, and their caches may go ahead of them.
//!
//! Invariants:
//! - A disk is attached as the other host's only while its clients stand by.
//! - A flush of the origin that has failed since the other host began to copy, whoever asked for it, ends the copy: the
//!   origin may have lost what was copied.

use super::Shard;
use crate::client::Place;
use crate::control::{Ahead, Attached, Borrow, Roaming};
use crate::error::{Reply, ShardError};
use crate::limits::LATE_TIME_MAX;
use crate::own_requests::OwnRequests;
use crate::spec::DiskSpec;
use block_io::Payload;
use cache::OfDirty;
use frontend::Incoming;
use origin::Opened;
use units::{DiskId, DiskSlot};

/// Most runs of blocks that are told at a time.
const CHANGES_MAX: usize = 1024;

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
                match standbys.served(disk, &self.disks) {
                    Some(slot) => self.own_requests().read(slot, (offset, length), reply),
                    None => reply(Err(ShardError::Detaching)),
                }
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
            Roaming::Ahead(what) => {
                self.go_ahead(disk, what);
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
            Borrow::Manner(manner) => return loans.set_manner(manner),
            Borrow::List(runs) => return loans.list(&runs),
            Borrow::Pull { run, reply } => {
                let runs = loans.pull(run);
                return self.own_requests().prefetch(slot, &runs, reply);
            }
            Borrow::Prefetch { run, reply } => {
                return self.own_requests().prefetch(slot, &[run], reply);
            }
            Borrow::Answer { number, bytes } => loans.answer(number, bytes),
            Borrow::Linked(is_linked) => loans.set_linked(is_linked),
            Borrow::End => loans.end(),
        }
        self.poll_origin(slot);
    }

    pub(super) fn own_requests(&mut self) -> OwnRequests<'_> {
        let (disks, jobs) = (&self.disks, &mut self.jobs);
        OwnRequests::of(&mut self.cache, disks, jobs, self.now)
    }

    fn request_again(&mut self, requests: Vec<(usize, Incoming)>) {
        for (client, incoming) in requests {
            self.request(client, incoming);
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

    /// What is said about a cache that goes ahead of its disk.
    fn go_ahead(&mut self, disk: DiskId, what: Ahead) {
        match what {
            Ahead::Watch { what, reply } => {
                let served = self.standbys.served(disk, &self.disks);
                let failed = |slot| self.cache.facts().failed_flushes(slot);
                match served.zip(what) {
                    Some((slot, what)) => self.standbys.watch(disk, what, (slot, failed(slot))),
                    None => self.standbys.unwatch(disk),
                }
                let is_right = served.is_some() || what.is_none();
                reply(is_right.then_some(()).ok_or(ShardError::Detaching));
            }
            Ahead::TakeChanges(reply) => {
                let facts = self.cache.facts();
                let failed = |slot| facts.failed_flushes(slot);
                let changes = self.standbys.take_changes(disk, CHANGES_MAX, failed);
                reply(changes.ok_or(ShardError::NoSuchDisk));
            }
            Ahead::Stand {
                spec,
                origin,
                reply,
            } => self.stand(*spec, origin.map(|opened| *opened), reply),
            Ahead::StandDown(reply) => {
                let Some(slot) = self.disks.others(disk) else {
                    return reply(Ok(()));
                };
                if let Some(loans) = self.standbys.loans(disk) {
                    loans.end();
                }
                self.poll_origin(slot);
                self.detach(slot, OfDirty::Keep, reply);
            }
            Ahead::Stale { run, reply } => self.own_requests().stale(disk, run, reply),
        }
    }

    /// Attaches a disk as the other host's; its clients stand by.
    fn stand(&mut self, spec: DiskSpec, origin: Option<Opened>, reply: Reply<Attached>) {
        if self.disks.has(spec.id) {
            return reply(Err(ShardError::AlreadyAttached));
        }
        let cipher = match spec.cipher() {
            Ok(cipher) => cipher,
            Err(error) => return reply(Err(error)),
        };
        if let (Some(opened), Some(expected)) = (&origin, spec.size)
            && opened.geometry().size != expected
        {
            let found = opened.geometry().size;
            return reply(Err(ShardError::Size { expected, found }));
        }
        let origin = origin.map(|opened| opened.start(&self.ring, &self.pool));
        match self.standbys.others_origin(spec.id, origin) {
            Some(origin) => self.begin_attach(spec, cipher, origin, reply),
            None => reply(Err(ShardError::NoSuchDisk)),
        }
    }
}
