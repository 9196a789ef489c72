//! Commands about a disk that is served.

use super::Job;
use crate::clients::Asker;
use crate::control::{Message, Reply, ShardError};
use crate::run::Shard;
use crate::tap::Tap;
use cache::{Command, ControlError, ControlOutcome, Request, Verb};
use origin::Origin as _;
use units::{Bytes, DiskId, DiskSlot};

impl Shard {
    /// Begins to do what a message says that the cache does on its own.
    pub(super) fn obey_about_disk(&mut self, message: Message) {
        match message {
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
            other => other.refuse(ShardError::NoSuchDisk),
        }
    }

    fn ask_about(
        &mut self,
        disk: DiskId,
        reply: Reply<()>,
        command: impl FnOnce(DiskSlot) -> Command,
    ) {
        match self.serving(disk) {
            Ok(disk) => {
                let id = self.jobs.ask(Job::Word { disk, reply });
                self.cache.control(id, command(disk), self.now);
            }
            Err(error) => reply(Err(error)),
        }
    }

    /// Says how such a command has ended.
    pub(super) fn answer(
        &mut self,
        disk: DiskSlot,
        reply: Reply<()>,
        result: Result<ControlOutcome, ControlError>,
    ) {
        let id = self.disks[disk.index()].as_ref().map(|disk| disk.spec.id);
        reply(result.map(drop).map_err(|error| self.explain(id, error)));
    }

    pub(super) fn grow(&mut self, disk: DiskId, size: Bytes, reply: Reply<()>) {
        let slot = match self.serving(disk) {
            Ok(slot) => slot,
            Err(error) => return reply(Err(error)),
        };
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        if let Err(error) = disk.origin.grow(size) {
            return reply(Err(error.into()));
        }
        self.poll_origin(slot);
        let id = self.jobs.ask(Job::Grow {
            disk: slot,
            size,
            reply,
        });
        let command = Command::Grow { disk: slot, size };
        self.cache.control(id, command, self.now);
    }

    /// The cache takes requests up to a disk's new end.
    pub(super) fn has_grown(&mut self, slot: DiskSlot, size: Bytes) {
        let disk = self.disks[slot.index()].as_mut();
        let Some(disk) = disk.filter(|disk| disk.geometry.size != size) else {
            return;
        };
        tracing::info!(disk = disk.spec.name, from = %disk.geometry.size, to = %size, "disk grown");
        disk.geometry.size = size;
        self.tell_of_size(slot, size);
    }

    pub(super) fn flush(&mut self, disk: DiskSlot, reply: Reply<()>) {
        if self.disks[disk.index()]
            .as_ref()
            .is_some_and(|disk| disk.spec.shared)
        {
            // It is never written.
            return reply(Ok(()));
        }
        let vm = self.cache.tenant_of(disk).expect("it is serving");
        let flush = self.jobs.flushes.insert(reply);
        let request = Request {
            id: Asker::Command(flush).id(),
            disk,
            vm,
            verb: Verb::Flush,
        };
        self.cache.request(request, self.now);
    }

    pub(super) fn tap(&mut self, disk: DiskId, tap: Option<Tap>) -> Result<(), ShardError> {
        let slot = self.serving(disk)?;
        let disk = self.disks[slot.index()].as_mut().expect("it is serving");
        disk.tap = tap;
        Ok(())
    }
}
