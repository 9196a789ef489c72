//! Disks leave, and the shard stops.

use super::Shard;
use crate::error::{Reply, ShardError};
use crate::limits::{FAREWELL_TIME_MAX, LATE_TIME_MAX};
use crate::sources::Handler;
use cache::{Command, ControlError, ControlOutcome, OfDirty};
use events::EventKind;
use origin::Origin as _;
use units::{DiskId, DiskSlot};

impl Shard {
    /// Detaches a disk, unless it is known already that this will be refused: then its clients
    /// keep their connections.
    pub(super) fn detach_if_clean(&mut self, disk: DiskId, dirty: OfDirty, reply: Reply<()>) {
        let Some(slot) = self.disks.slot_of(disk) else {
            return reply(Err(ShardError::NoSuchDisk));
        };
        let lacking = self
            .cache
            .facts()
            .write_back_of(slot)
            .map(|status| status.distinct);
        match lacking {
            Some(bytes) if dirty == OfDirty::Refuse && !bytes.is_zero() => {
                reply(Err(ControlError::Dirty { bytes }.into()));
            }
            _ => self.detach(slot, dirty, reply),
        }
    }

    pub(super) fn detach(&mut self, slot: DiskSlot, dirty: OfDirty, reply: Reply<()>) {
        let late_until = self.now + LATE_TIME_MAX;
        let disk = self.disks.get_mut(slot);
        let disk = disk.expect("a slot that is known has a disk");
        if !disk.drain(reply, dirty, Some(late_until)) {
            return;
        }
        self.disks.wait_for(slot);
        self.clients.close(slot, self.now + FAREWELL_TIME_MAX);
        self.requests().pass_all(slot);
        self.cache.cut_prefetches(slot, self.now);
    }

    /// Lets draining disks go on. True if the cache was asked something.
    pub(super) fn go_on_draining(&mut self) -> bool {
        if !self.disks.are_draining() {
            return false;
        }
        for client in self.clients.silent(self.now) {
            self.forget_client(client);
        }
        let mut has_asked = false;
        for slot in self.disks.take_draining() {
            if self.commands().leave_if_drained(slot) {
                has_asked = true;
            } else {
                self.disks.wait_for(slot);
            }
        }
        has_asked
    }

    /// The cache no longer knows the disk; if it never did, so much the better. If it refused, the
    /// disk is served again; unless everything stops.
    pub(super) fn detached(
        &mut self,
        slot: DiskSlot,
        result: Result<ControlOutcome, ControlError>,
    ) {
        let disk = self.disks.get_mut(slot);
        let disk = disk.expect("a leaving disk is there");
        if let Err(error) = result {
            let error = self.records.explain(Some(disk.id()), error);
            tracing::error!(event = EventKind::DiskStays.word(),
                disk = disk.name(), %error, "the disk was not detached");
            if !self.jobs.is_stopping() {
                return disk.serve_again(&error);
            }
        }
        let disk = self.disks.remove(slot);
        let disk = disk.expect("a leaving disk is there");
        self.records.leave(disk.id());
        for source in disk.origin().sources() {
            self.sources.set(source, Handler::Nobody);
        }
        self.throttles.forget(slot);
        self.repeats.tell_last(slot, disk.name(), &self.config.name);
        disk.add_times(&mut self.detached_times);
        // The host that has it now may ask for what is cached here.
        if disk.roams()
            && let Ok(Some(cipher)) = disk.cipher()
        {
            self.cache.lend_with(disk.id(), cipher);
        }
        tracing::info!(
            event = EventKind::DiskDetached.word(),
            disk = disk.name(),
            "disk detached"
        );
        disk.end();
    }

    pub(super) fn stop(&mut self, reply: Reply<()>) {
        self.jobs.stop(reply);
        let farewell = self.now + FAREWELL_TIME_MAX;
        self.standbys.end(&mut self.clients, farewell);
        let attached: Vec<DiskSlot> = self.disks.all().map(|(slot, _)| slot).collect();
        for slot in attached {
            self.detach(slot, OfDirty::Keep, Box::new(|_| {}));
        }
        self.stop_if_empty();
    }

    pub(super) fn stop_if_empty(&mut self) {
        if self.disks.is_empty()
            && let Some(id) = self.jobs.ask_to_stop()
        {
            self.cache.control(id, Command::Stop, self.now);
        }
    }
}
