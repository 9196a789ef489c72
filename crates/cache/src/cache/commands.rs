//! What the operator asks: begun, and ended when its job is over.

use super::State;
use crate::api::{Command, ControlError, ControlId, ControlOutcome, Effect};
use crate::disks::Disk;
use crate::flash_use::patience;
use crate::guard::{Guard, holds};
use crate::jobs::{Ended, Kind};
use crate::ports::Wake;
use crate::tenants::Use;
use crate::views::Views;
use crate::write_back::OfDirty;
use block_io::IoError;
use units::DiskSlot;

/// Carries out what the operator asks.
pub(super) struct Commands<'a> {
    state: &'a mut State,
}

impl<'a> Commands<'a> {
    pub(super) fn new(state: &'a mut State) -> Self {
        Self { state }
    }

    pub(super) fn start(&mut self, id: ControlId, command: Command) {
        let ended = match command {
            Command::Attach {
                disk,
                name,
                size,
                policy,
                read_only,
                tenant,
                shared,
                fingerprint,
                owner,
                write_back,
                tenure,
            } => {
                let rules = Disk::new(size, policy, tenure);
                let rules = rules.with(read_only, shared, write_back);
                let judged = self.state.candidate(disk).judge(
                    disk,
                    name,
                    &tenant,
                    rules,
                    fingerprint,
                    owner,
                );
                let kind = judged.map(|newcomer| Kind::Attach(Box::new(newcomer)));
                return self.begin_job(id, kind);
            }
            Command::Detach {
                disk,
                fingerprint,
                dirty,
            } => return self.detach(id, disk, fingerprint, dirty),
            Command::Drop { disk } => return self.drop_blocks(id, disk),
            Command::Grow { disk, size } => {
                let attached = self.state.disks.attached(disk);
                let grows = attached.and_then(|disk| disk.may_grow(size));
                return self.begin_job(id, grows.map(|()| Kind::Grow { disk, size }));
            }
            Command::Stop => return self.begin_job(id, Ok(Kind::Stop)),
            Command::Scrub { rate, from } => Some(self.state.scrubber().begin(rate, from)),
            Command::StopScrub => {
                self.state.scrubber().stop();
                Some(Ok(()))
            }
            Command::SetPolicy { disk, policy } => {
                self.state.changes().set_policy(id, disk, policy)
            }
            Command::Destage { disk } => self.state.changes().demand_destage(id, disk),
            Command::HoldDestage { disk, number } => {
                self.state.changes().hold_destage(id, disk, number)
            }
            Command::ReleaseDestage { disk, number } => {
                self.state.changes().release_destage(disk, number);
                Some(Ok(()))
            }
            Command::Follow { disk, follower } => {
                self.state.follow(disk, follower);
                Some(Ok(()))
            }
            Command::SetWriteBack { disk, write_back } => {
                Some(self.state.changes().set_write_back(disk, write_back))
            }
            Command::Ship {
                disk,
                epoch,
                shipment,
            } => self.state.back_requests().keep(id, disk, epoch, shipment),
        };
        self.state.ports.command_ended(id, ended);
    }

    fn detach(&mut self, id: ControlId, disk: DiskSlot, fingerprint: Option<u128>, dirty: OfDirty) {
        self.state.host_record.retire_again(&mut self.state.ports);
        let result = self.state.disks.attached(disk).and_then(Disk::may_detach);
        if result.is_ok() && self.state.backs.has(disk) {
            let begun = self.state.changes().detach(id, disk, fingerprint, dirty);
            return self.state.ports.command_ended(id, begun.err().map(Err));
        }
        self.begin_job(id, result.map(|()| Kind::Detach { disk, fingerprint }));
    }

    fn drop_blocks(&mut self, id: ControlId, disk: DiskSlot) {
        self.drop_frames(disk);
        let attached = self.state.disks.attached(disk).map(|_| ());
        let clean = attached.and_then(|()| self.state.flash.check_clean(disk));
        self.begin_job(id, clean.map(|()| Kind::Drop { disk }));
    }

    /// Everything that memory has of a disk leaves.
    fn drop_frames(&mut self, disk: DiskSlot) {
        if let Some(tenant) = self.state.disks.tenant_of(disk) {
            self.state
                .admission
                .change_all(tenant, |key| key.disk() == disk);
        }
    }

    fn begin_job(&mut self, id: ControlId, kind: Result<Kind, ControlError>) {
        let attended = self.state.ports.attended();
        let begun = kind.and_then(|kind| self.state.jobs.begin(id, kind, attended));
        self.state.ports.command_ended(id, begun.err().map(Err));
        if !self.state.flash.is_in_use() {
            self.end_without_flash();
        }
    }

    /// A disk that was under write-back is detached now.
    pub(super) fn begin_detach(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        fingerprint: Option<u128>,
    ) {
        let attended = self.state.ports.attended();
        let kind = Kind::Detach { disk, fingerprint };
        self.state.jobs.push(id, kind, attended);
        if !self.state.flash.is_in_use() {
            self.state.ports.wake(Wake::Jobs);
        }
    }

    /// Lets every job go as far as it can. True if one went on or ended, so that the flash
    /// should look at what it asked for.
    pub(super) fn step(&mut self) -> bool {
        if self.state.jobs.is_empty() {
            return false;
        }
        let Some(flash) = self.state.flash.as_mut() else {
            return false;
        };
        // A cache that is stopped in doubt would open cold.
        let (is_in_doubt, patience) = (
            self.state.host_record.is_in_doubt(),
            patience(&self.state.config),
        );
        let may_stop = |waited| !is_in_doubt || waited >= patience;
        let (progress, over) = self.state.jobs.step(flash, &mut self.state.ports, may_stop);
        for job in over {
            self.end_job(job);
        }
        progress
    }

    /// Without a flash there is nothing to wait for.
    pub(super) fn end_without_flash(&mut self) {
        for job in self.state.jobs.take_all() {
            if let Some(over) = self
                .state
                .jobs
                .end_without_flash(job, &mut self.state.ports)
            {
                self.end_job(over);
            }
        }
    }

    fn end_job(&mut self, job: Ended) {
        if let Some(error) = job.refused {
            if let Kind::Attach(newcomer) = job.kind {
                self.state.tenants.release(newcomer.disk.tenant, Use::Disk);
            }
            let result = Err(error);
            let effect = Effect::ControlDone { id: job.id, result };
            self.state.ports.push(effect);
            return;
        }
        let outcome = match job.kind {
            Kind::Attach(newcomer) => self.state.end_attach(*newcomer),
            Kind::Detach { disk, .. }
                if self.state.host_record.is_awaited(&self.state.flash)
                    && holds(Guard::RecordBeforeDetach) =>
            {
                self.state.backs.stay(&mut self.state.ports, disk);
                let result = Err(ControlError::RetirementOpen);
                let effect = Effect::ControlDone { id: job.id, result };
                self.state.ports.push(effect);
                return;
            }
            Kind::Detach { disk, .. } => {
                self.forget_disk(disk);
                ControlOutcome::Done
            }
            Kind::Grow { disk, size } => {
                // A detach that had begun under write-back may have overtaken it.
                if let Some(disk) = self.state.disks.get_mut(disk) {
                    disk.size = size;
                }
                ControlOutcome::Done
            }
            Kind::Drop { disk } => {
                // What was read from flash since the command came may be in memory.
                self.drop_frames(disk);
                ControlOutcome::Done
            }
            Kind::Stop => ControlOutcome::Done,
        };
        let effect = Effect::ControlDone {
            id: job.id,
            result: Ok(outcome),
        };
        self.state.ports.push(effect);
        // Only now can the shell reach the origin of a disk that was attached.
        if let (ControlOutcome::Attached { disk, .. }, Some(flash)) =
            (outcome, self.state.flash.as_mut())
        {
            flash.origins_mut().flush(&mut self.state.ports.store, disk);
        }
    }

    fn forget_disk(&mut self, slot: DiskSlot) {
        self.state.back_requests().end(slot, IoError::ShuttingDown);
        self.state
            .back_requests()
            .end_arrivals(slot, ControlError::NotAttached);
        let disk = self.state.disks.detach(slot);
        self.state.reads.foresight_mut().forget_disk(slot);
        for vm in disk.views.iter().flat_map(Views::joins) {
            self.state.tenants.release(vm, Use::View);
        }
        if holds(Guard::DetachUnstages) {
            self.state
                .admission
                .change_all(disk.tenant, |key| key.disk() == slot);
        }
        if let Some(flash) = self.state.flash.as_mut() {
            flash.ciphers_mut().set(slot, None);
        }
        self.state.division().own_disk(slot, None);
        if self.state.tenants.release(disk.tenant, Use::Disk) {
            self.state.division().end(disk.tenant);
            self.state.reads.foresight_mut().forget_tenant(disk.tenant);
        }
    }
}
