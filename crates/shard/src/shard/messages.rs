//! What other threads ask of the shard, and how the cache has ended what it was asked for them.
//!
//! ```text
//!  attach ─► cache ─► Attached ─► served ─► answer
//!  detach ─► clients close, requests end ─► cache ─► gone ─► answer
//!  stop   ─► detach of every disk ─► cache stops ─► the thread ends ─► answer
//! ```

use super::Shard;
use crate::commands::Commands;
use crate::control::Message;
use crate::error::ShardError;
use crate::jobs::Job;
use cache::{ControlError, ControlId, ControlOutcome};

impl Shard {
    /// Begins to do what a message says.
    pub(super) fn handle(&mut self, message: Message) {
        let always = matches!(
            message,
            Message::Status { .. }
                | Message::Recorded { .. }
                | Message::ProgressStored
                | Message::Owned { .. }
                | Message::Stop { .. }
        );
        if self.jobs.is_stopping() && !always {
            return message.refuse(ShardError::Stopping);
        }
        match message {
            Message::Attach {
                spec,
                opened,
                reply,
            } => self.attach(*spec, opened, reply),
            Message::Detach { disk, dirty, reply } => self.detach_if_clean(disk, dirty, reply),
            Message::GiveUpFlush { .. }
            | Message::Drop { .. }
            | Message::SetPolicy { .. }
            | Message::SetWriteBack { .. }
            | Message::Destage { .. }
            | Message::Guest { .. }
            | Message::SetTenancy { .. }
            | Message::SetTenant { .. }
            | Message::SetWeights { .. }
            | Message::Scrub { .. } => self.commands().pass(message),
            Message::Grow { disk, size, reply } => self.grow(disk, size, reply),
            Message::Flush { disk, reply } => match self.disks.serving(disk) {
                Ok(disk) => self.own_requests().flush(disk, reply),
                Err(error) => reply(Err(error)),
            },
            Message::SetLimits {
                disk,
                limits,
                reply,
            } => {
                let slot = self.disks.serving(disk);
                reply(slot.map(|slot| self.throttles.set(slot, limits)));
            }
            Message::Tap { disk, tap, reply } => reply(self.disks.tap(disk, tap)),
            Message::Status { reply } => reply(Ok(self.status())),
            Message::ScrubStatus { reply } => reply(Ok(self.cache.facts().scrub())),
            Message::Connect {
                disk,
                client,
                vm,
                reply,
            } => reply(self.connect(disk, client, vm.as_deref())),
            Message::Stop { reply } => self.stop(reply),
            Message::Roaming { disk, what } => self.about_roaming(disk, what),
            Message::Recorded { token, recorded } => {
                let cache = &mut self.cache;
                self.records
                    .cache_recorded(token, recorded, cache, self.now);
            }
            Message::ProgressStored => self.records.progress_stored(),
            Message::Owned {
                token,
                disk,
                outcome,
            } => {
                let cache = &mut self.cache;
                self.records
                    .owner_recorded(token, disk, outcome, cache, self.now);
            }
        }
    }

    /// The cache has ended a command.
    pub(super) fn control_done(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
    ) {
        match self.jobs.ended(id) {
            Job::Attach { disk, reply } => self.attached(disk, reply, result),
            Job::FlushFirst(slot) if result.is_ok() => self.commands().leave_now(slot),
            Job::FlushFirst(slot) | Job::Detach(slot) => self.detached(slot, result),
            Job::Grow { disk, size, reply } => {
                if result.is_ok() {
                    self.has_grown(disk, size);
                }
                self.records.answer(self.disks.id_of(disk), reply, result);
            }
            Job::Word { disk, reply } => {
                self.records.answer(self.disks.id_of(disk), reply, result);
            }
            Job::Told(reply) => self.records.answer(None, reply, result),
            Job::Stop => self.jobs.set_stopped(),
        }
        self.stop_if_empty();
    }

    pub(super) fn commands(&mut self) -> Commands<'_> {
        let (disks, jobs) = (&mut self.disks, &mut self.jobs);
        Commands::of(&mut self.cache, disks, jobs, self.now)
    }
}
