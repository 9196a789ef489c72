//! Commands that the shard gives its cache about disks, and which job waits for the end of each.
//!
//! Invariant: a command has one job, which [`Jobs`] gives back when the cache has ended the command.

use crate::control::Message;
use crate::disks::Disks;
use crate::error::{Reply, ShardError};
use crate::guest_words;
use crate::jobs::{Job, Jobs};
use cache::{Cache, Command, OfDirty};
use origin::Origin as _;
use std::sync::Arc;
use units::{DiskId, DiskSlot, Instant};

/// The parts of a shard that a command needs.
pub(crate) struct Commands<'a> {
    cache: &'a mut Cache,
    disks: &'a mut Disks,
    jobs: &'a mut Jobs,
    now: Instant,
}

impl<'a> Commands<'a> {
    pub(crate) fn of(
        cache: &'a mut Cache,
        disks: &'a mut Disks,
        jobs: &'a mut Jobs,
        now: Instant,
    ) -> Self {
        Self {
            cache,
            disks,
            jobs,
            now,
        }
    }

    /// Begins to do what a message says that the cache does on its own.
    pub(crate) fn pass(&mut self, message: Message) {
        match message {
            Message::GiveUpFlush { disk, reply } => self.give_up_flush(disk, reply),
            Message::Drop { disk, reply } => {
                self.ask_about(disk, reply, |disk| Command::Drop { disk });
            }
            Message::SetPolicy {
                disk,
                policy,
                reply,
            } => self.ask_about(disk, reply, |disk| Command::SetPolicy { disk, policy }),
            Message::SetWriteBack {
                disk,
                write_back,
                reply,
            } => self.ask_about(disk, reply, |disk| Command::SetWriteBack {
                disk,
                write_back,
            }),
            Message::Destage { disk, reply } => {
                self.ask_about(disk, reply, |disk| Command::Destage { disk });
            }
            Message::Scrub { pass, reply } => {
                let command = match pass {
                    Some((rate, from)) => Command::Scrub { rate, from },
                    None => Command::StopScrub,
                };
                self.ask(Job::Told(reply), command);
            }
            Message::SetWeights { weights, reply } => {
                for (vm, weight) in weights {
                    self.cache.set_weight(&vm, weight);
                }
                reply(Ok(()));
            }
            Message::SetTenancy { settings, reply } => {
                let settings = settings.map(|boxed| *boxed);
                let set = self.cache.set_tenancy(settings, self.now);
                reply(set.map_err(|error| Arc::new(error).into()));
            }
            Message::SetTenant {
                tenant,
                settings,
                reply,
            } => {
                let set = self.cache.set_tenant(&tenant, *settings, self.now);
                reply(set.map_err(|error| Arc::new(error).into()));
            }
            Message::Guest { disk, what } => {
                guest_words::tell(what, self.cache, self.disks, disk);
            }
            other => other.refuse(ShardError::NoSuchDisk),
        }
    }

    fn ask_about(
        &mut self,
        disk: DiskId,
        reply: Reply<()>,
        command: impl FnOnce(DiskSlot) -> Command,
    ) {
        match self.disks.serving(disk) {
            Ok(disk) => self.ask(Job::Word { disk, reply }, command(disk)),
            Err(error) => reply(Err(error)),
        }
    }

    /// A disk that is waited for leaves, unless something of it is under way.
    pub(crate) fn leave_if_drained(&mut self, slot: DiskSlot) -> bool {
        let disk = self.disks.get(slot);
        let is_drained = disk.is_some_and(|disk| disk.is_idle(self.now, self.jobs.is_stopping()))
            && self.cache.facts().in_flight(slot) == 0
            && !self.jobs.concern(slot);
        if is_drained {
            self.leave(slot);
        }
        is_drained
    }

    /// A drained disk leaves: what is dirty goes to its origin first, if that was asked for.
    fn leave(&mut self, slot: DiskSlot) {
        let disk = self.disks.get_mut(slot);
        let disk = disk.expect("a draining disk is there");
        disk.leave();
        if disk.of_dirty() == OfDirty::Flush {
            return self.ask(Job::FlushFirst(slot), Command::Destage { disk: slot });
        }
        self.leave_now(slot);
    }

    /// A disk that is being detached leaves without what it was to bring to its origin first.
    fn give_up_flush(&mut self, disk: DiskId, reply: Reply<()>) {
        let is_flushing = |slot: &DiskSlot| {
            let disk = self.disks.get(*slot);
            disk.is_some_and(|disk| disk.of_dirty() == OfDirty::Flush && !disk.is_serving())
        };
        let slot = self.disks.slot_of(disk).filter(is_flushing);
        let Some(slot) = slot else {
            return reply(Err(ShardError::NoSuchDisk));
        };
        let has_begun = self.jobs.give_up_flush(slot);
        if !has_begun && self.jobs.concern(slot) {
            // The origin has everything, or something else is done with the disk first.
            return reply(Err(ShardError::NoSuchDisk));
        }
        let disk = self.disks.get_mut(slot);
        disk.expect("a slot that is known has a disk")
            .give_up_flush(reply);
        if has_begun {
            self.leave_now(slot);
        }
    }

    /// Nobody writes the origin any more, so its fingerprint will hold.
    pub(crate) fn leave_now(&mut self, slot: DiskSlot) {
        let disk = self.disks.get(slot);
        let disk = disk.expect("a leaving disk is there");
        let command = Command::Detach {
            disk: slot,
            fingerprint: disk.origin().fingerprint(),
            dirty: disk.of_dirty(),
        };
        self.ask(Job::Detach(slot), command);
    }

    fn ask(&mut self, job: Job, command: Command) {
        let id = self.jobs.ask(job);
        self.cache.control(id, command, self.now);
    }
}
