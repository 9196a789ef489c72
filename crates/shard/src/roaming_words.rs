//! What is said to a shard about disks that roam: their clients stand by while another host has them, and their
//! caches may go ahead of them.
//!
//! Invariants:
//! - A disk is given when no write that this host has sent to its origin can land any more, however long that takes.
//! - A flush of the origin that has failed since the other host began to copy, whoever asked for it, ends the copy: the
//!   origin may have lost what was copied.

use crate::client::Place;
use crate::clients::Clients;
use crate::control::{Ahead, Attached, AttachedImage, Borrow, OfImage, Roaming};
use crate::disks::Disks;
use crate::error::{Reply, ShardError};
use crate::jobs::{Job, Jobs};
use crate::own_requests::OwnRequests;
use crate::spec::DiskSpec;
use crate::standbys::{StandbyNeeds, Standbys};
use block_io::{BufPool, Payload};
use cache::{Cache, Command, Follower, OfDirty, Shipment};
use frontend::Incoming;
use origin::{Opened, Origin as _};
use std::sync::Arc;
use units::{DiskId, DiskSlot, Instant};

/// Most runs of blocks that are told at a time.
const CHANGES_MAX: usize = 1024;

/// What a word leaves to the shard.
pub(crate) enum Next {
    Nothing,
    /// These requests are made once more.
    Again(Vec<(usize, Incoming)>),
    /// The origin of this disk has something to take in.
    Poll(DiskSlot),
    /// A disk is attached as the other host's.
    Stand {
        spec: Box<DiskSpec>,
        origin: Option<Box<Opened>>,
        reply: Reply<Attached>,
    },
    /// A disk that is attached so borrows nothing more, and is detached.
    StandDown(DiskSlot, Reply<()>),
}

/// The parts of a shard that a word about a roaming disk needs.
pub(crate) struct RoamingWords<'a> {
    cache: &'a mut Cache,
    standbys: &'a mut Standbys,
    clients: &'a mut Clients,
    disks: &'a mut Disks,
    jobs: &'a mut Jobs,
    pool: &'a BufPool,
    now: Instant,
}

impl<'a> RoamingWords<'a> {
    pub(crate) fn of(
        cache: &'a mut Cache,
        standbys: &'a mut Standbys,
        clients: &'a mut Clients,
        disks: &'a mut Disks,
        jobs: &'a mut Jobs,
        pool: &'a BufPool,
        now: Instant,
    ) -> Self {
        Self {
            cache,
            standbys,
            clients,
            disks,
            jobs,
            pool,
            now,
        }
    }

    /// Does what is to be done about a disk; what comes back is left to the shard.
    pub(crate) fn handle(mut self, disk: DiskId, what: Roaming) -> Next {
        let (standbys, clients) = (&mut *self.standbys, &mut *self.clients);
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
            Roaming::Hold { why, reply } => {
                let held = self.disks.serving(disk).and_then(|slot| {
                    let known = self.disks.get(slot);
                    if known.is_some_and(|disk| !disk.may_land().is_zero()) {
                        return Err(ShardError::LateWrites);
                    }
                    let may = standbys.hold(disk, why, self.now);
                    may.then_some(()).ok_or(ShardError::InUse)
                });
                reply(held);
                Vec::new()
            }
            Roaming::Give { dirty, reply } => self.give(disk, dirty, reply),
            Roaming::HoldDestage { number, reply } => {
                self.hold_destage(disk, number, reply);
                Vec::new()
            }
            Roaming::Follow(follower) => return self.follow(disk, follower),
            Roaming::Comes { vm, wanted } => {
                self.cache.tenant_comes(&vm, wanted, self.now);
                Vec::new()
            }
            Roaming::Serve => standbys.release(disk),
            Roaming::Fail => standbys.fail(disk, clients),
            Roaming::EndOld => standbys.end_old(disk, clients),
            Roaming::Read {
                offset,
                length,
                reply,
            } => {
                match standbys.served(disk, self.disks) {
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
            Roaming::Borrow(what) => return self.borrow(disk, what),
            Roaming::Ahead(what) => return self.go_ahead(disk, what),
            Roaming::Image(what) => {
                self.of_image(disk, what);
                Vec::new()
            }
        };
        Next::Again(again)
    }

    /// Does what is to be done about what an attached disk borrows.
    fn borrow(&mut self, disk: DiskId, what: Borrow) -> Next {
        let (Some(slot), Some(loans)) = (self.disks.slot_of(disk), self.standbys.loans(disk))
        else {
            if let Borrow::Pull { reply, .. } | Borrow::Prefetch { reply, .. } = what {
                reply(Err(ShardError::NoSuchDisk));
            }
            return Next::Nothing;
        };
        match what {
            Borrow::Manner(manner) => {
                loans.set_manner(manner);
                return Next::Nothing;
            }
            Borrow::List(runs) => {
                loans.list(&runs);
                return Next::Nothing;
            }
            Borrow::Pull { run, reply } => {
                let runs = loans.pull(run);
                self.own_requests().prefetch(slot, &runs, reply);
                return Next::Nothing;
            }
            Borrow::Prefetch { run, reply } => {
                self.own_requests().prefetch(slot, &[run], reply);
                return Next::Nothing;
            }
            Borrow::Answer { number, bytes } => loans.answer(number, bytes),
            Borrow::Linked(is_linked) => loans.set_linked(is_linked),
            Borrow::End => loans.end(),
        }
        Next::Poll(slot)
    }

    fn give(&mut self, disk: DiskId, dirty: OfDirty, reply: Reply<()>) -> Vec<(usize, Incoming)> {
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
        let known = self.disks.get_mut(slot);
        let known = known.expect("a slot that is known has a disk");
        known.disconnected_all();
        // A write that was given up may still land: over those of the next owner, were the disk given before.
        if known.drain(reply, dirty, None) {
            self.disks.wait_for(slot);
            self.cache.cut_prefetches(slot, self.now);
        }
        waiting
    }

    /// Holds what goes to a disk's origin, or, without a reply, lets it go on.
    fn hold_destage(&mut self, disk: DiskId, number: u64, reply: Option<Reply<()>>) {
        match (self.disks.serving(disk), reply) {
            (Ok(disk), Some(reply)) => {
                self.command(Job::Told(reply), Command::HoldDestage { disk, number });
            }
            (Ok(disk), None) => {
                let reply = Box::new(|_| {});
                self.command(Job::Told(reply), Command::ReleaseDestage { disk, number });
            }
            (Err(error), Some(reply)) => reply(Err(error)),
            (Err(_), None) => {}
        }
    }

    /// Somebody follows what is written to a disk.
    fn follow(&mut self, disk: DiskId, follower: Follower) -> Next {
        if let Ok(disk) = self.disks.serving(disk) {
            let nobody = Job::Told(Box::new(|_| {}));
            self.command(nobody, Command::Follow { disk, follower });
        }
        Next::Nothing
    }

    /// Keeps records of the host that has a disk.
    fn keep(&mut self, disk: DiskId, epoch: u64, shipment: Shipment<Vec<u8>>, reply: Reply<()>) {
        let Some(disk) = self.disks.others(disk) else {
            return reply(Err(ShardError::NoSuchDisk));
        };
        let pool = self.pool;
        let shipment = shipment.map(|bytes| Payload::from_iter([pool.copy_of(&bytes)]));
        let ship = Command::Ship {
            disk,
            epoch,
            shipment,
        };
        self.command(Job::Told(reply), ship);
    }

    fn command(&mut self, job: Job, command: Command) {
        let id = self.jobs.ask(job);
        self.cache.control(id, command, self.now);
    }

    /// What is said about a cache that goes ahead of its disk.
    fn go_ahead(&mut self, disk: DiskId, what: Ahead) -> Next {
        match what {
            Ahead::Watch { what, reply } => {
                let served = self.standbys.served(disk, self.disks);
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
            } => {
                return Next::Stand {
                    spec,
                    origin,
                    reply,
                };
            }
            Ahead::StandDown(reply) => {
                let Some(slot) = self.disks.others(disk) else {
                    reply(Ok(()));
                    return Next::Nothing;
                };
                if let Some(loans) = self.standbys.loans(disk) {
                    loans.end();
                }
                return Next::StandDown(slot, reply);
            }
            Ahead::Stale { run, reply } => self.own_requests().stale(disk, run, reply),
            Ahead::Keep {
                period,
                shipment,
                reply,
            } => self.keep(disk, period, *shipment, reply),
        }
        Next::Nothing
    }

    /// What is said about a base image whose cache follows its VMs.
    fn of_image(&mut self, disk: DiskId, what: OfImage) {
        let images = self.standbys.images();
        let (last, slot) = (images.attachment(disk), self.disks.serving(disk).ok());
        let attached = last.zip(slot);
        let is_last = |attachment: u64| attached.filter(|(last, _)| *last == attachment);
        match what {
            OfImage::Follow(tell) => {
                images.follow(disk, Arc::new(move |ask| tell(StandbyNeeds::Loan(ask))));
            }
            OfImage::Describe(reply) => {
                let found = attached.and_then(|(attachment, slot)| {
                    let origin = self.disks.get(slot)?.origin();
                    Some(AttachedImage {
                        attachment,
                        size: origin.geometry().size,
                        fingerprint: origin.fingerprint(),
                    })
                });
                reply(found.ok_or(ShardError::NoSuchDisk));
            }
            OfImage::Read {
                attachment,
                at,
                reply,
            } => match is_last(attachment) {
                Some((_, slot)) => self.own_requests().read(slot, at, reply),
                None => reply(Err(ShardError::NoSuchDisk)),
            },
            OfImage::Lend {
                attachment,
                request,
                reply,
            } => match is_last(attachment) {
                Some(_) => {
                    let loan = self.jobs.wait_for_loan(reply);
                    self.cache.lend(loan, request, self.now);
                }
                None => reply(Err(ShardError::NoSuchDisk)),
            },
            OfImage::Begin(manner) => {
                if let Some(loans) = images.loans(disk) {
                    loans.begin();
                    loans.set_manner(manner);
                }
            }
        }
    }

    fn own_requests(&mut self) -> OwnRequests<'_> {
        OwnRequests::of(self.cache, self.disks, self.jobs, self.now)
    }
}
