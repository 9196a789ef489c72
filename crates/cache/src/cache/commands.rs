//! What the operator asks: begun, and ended when its job is over.

use super::Cache;
use crate::api::{Command, ControlError, ControlId, ControlOutcome, Effect};
use crate::disks::Disk;
use crate::flash_use::patience;
use crate::guard::{Guard, holds};
use crate::jobs::{Ended, Kind};
use crate::ports::Wake;
use crate::tenants::Use;
use crate::views::Views;
use block_io::IoError;
use units::DiskSlot;

impl Cache {
    pub(crate) fn start_command(&mut self, id: ControlId, command: Command) {
        let kind = match command {
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
                self.candidate(disk)
                    .judge(disk, name, &tenant, rules, fingerprint, owner)
                    .map(|newcomer| Kind::Attach(Box::new(newcomer)))
            }
            Command::Detach {
                disk,
                fingerprint,
                dirty,
            } => {
                self.host_record.retire_again(&mut self.ports);
                let result = self.disks.attached(disk).and_then(Disk::may_detach);
                if result.is_ok() && self.backs.has(disk) {
                    let begun = self.changes().detach(id, disk, fingerprint, dirty);
                    return self.ports.command_ended(id, begun.err().map(Err));
                }
                result.map(|()| Kind::Detach { disk, fingerprint })
            }
            Command::Drop { disk } => {
                if let Some(tenant) = self.disks.tenant_of(disk) {
                    self.admission.unstage_all(tenant, |key| key.disk() == disk);
                }
                let attached = self.disks.attached(disk).map(|_| ());
                attached
                    .and_then(|()| self.flash.check_clean(disk))
                    .map(|()| Kind::Drop { disk })
            }
            Command::Grow { disk, size } => self
                .disks
                .attached(disk)
                .and_then(|disk| disk.may_grow(size))
                .map(|()| Kind::Grow { disk, size }),
            Command::SetPolicy { disk, policy } => {
                let ended = self.changes().set_policy(id, disk, policy);
                return self.ports.command_ended(id, ended);
            }
            Command::Destage { disk } => {
                let ended = self.changes().demand_destage(id, disk);
                return self.ports.command_ended(id, ended);
            }
            Command::SetWriteBack { disk, write_back } => {
                let ended = self.changes().set_write_back(disk, write_back);
                return self.ports.command_ended(id, Some(ended));
            }
            Command::Ship {
                disk,
                epoch,
                shipment,
            } => {
                let ended = self.back_requests().keep(id, disk, epoch, shipment);
                return self.ports.command_ended(id, ended);
            }
            Command::Stop => Ok(Kind::Stop),
        };
        self.begin_job(id, kind);
    }

    fn begin_job(&mut self, id: ControlId, kind: Result<Kind, ControlError>) {
        let attended = self.ports.attended();
        let begun = kind.and_then(|kind| self.jobs.begin(id, kind, attended));
        self.ports.command_ended(id, begun.err().map(Err));
        if !self.flash.is_in_use() {
            self.end_jobs_without_flash();
        }
    }

    /// A disk that was under write-back is detached now.
    pub(crate) fn begin_detach(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        fingerprint: Option<u128>,
    ) {
        let attended = self.ports.attended();
        let kind = Kind::Detach { disk, fingerprint };
        self.jobs.push(id, kind, attended);
        if !self.flash.is_in_use() {
            self.ports.wake(Wake::Jobs);
        }
    }

    /// Lets every job go as far as it can. True if one went on or ended, so that the flash
    /// should look at what it asked for.
    pub(crate) fn step_jobs(&mut self) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let Some(flash) = self.flash.as_mut() else {
            return false;
        };
        // A cache that is stopped in doubt would open cold.
        let (is_in_doubt, patience) = (self.host_record.is_in_doubt(), patience(&self.config));
        let may_stop = |waited| !is_in_doubt || waited >= patience;
        let (progress, over) = self.jobs.step(flash, &mut self.ports, may_stop);
        for job in over {
            self.end_job(job);
        }
        progress
    }

    /// Without a flash there is nothing to wait for.
    pub(crate) fn end_jobs_without_flash(&mut self) {
        for job in self.jobs.take_all() {
            if let Some(over) = self.jobs.end_without_flash(job, &mut self.ports) {
                self.end_job(over);
            }
        }
    }

    fn end_job(&mut self, job: Ended) {
        if let Some(error) = job.refused {
            if let Kind::Attach(newcomer) = job.kind {
                self.tenants.release(newcomer.disk.tenant, Use::Disk);
            }
            let result = Err(error);
            let effect = Effect::ControlDone { id: job.id, result };
            self.ports.push(effect);
            return;
        }
        let outcome = match job.kind {
            Kind::Attach(newcomer) => self.end_attach(*newcomer),
            Kind::Detach { disk, .. }
                if self.host_record.is_awaited(&self.flash) && holds(Guard::RecordBeforeDetach) =>
            {
                self.backs.stay(&mut self.ports, disk);
                let result = Err(ControlError::RetirementOpen);
                let effect = Effect::ControlDone { id: job.id, result };
                self.ports.push(effect);
                return;
            }
            Kind::Detach { disk, .. } => {
                self.forget_disk(disk);
                ControlOutcome::Done
            }
            Kind::Grow { disk, size } => {
                // A detach that had begun under write-back may have overtaken it.
                if let Some(disk) = self.disks.get_mut(disk) {
                    disk.size = size;
                }
                ControlOutcome::Done
            }
            Kind::Drop { .. } | Kind::Stop => ControlOutcome::Done,
        };
        let effect = Effect::ControlDone {
            id: job.id,
            result: Ok(outcome),
        };
        self.ports.push(effect);
        // Only now can the shell reach the origin of a disk that was attached.
        if let (ControlOutcome::Attached { disk, .. }, Some(flash)) = (outcome, self.flash.as_mut())
        {
            flash.origins_mut().flush(&mut self.ports.store, disk);
        }
    }

    fn forget_disk(&mut self, slot: DiskSlot) {
        self.back_requests().end(slot, IoError::ShuttingDown);
        self.back_requests()
            .end_arrivals(slot, ControlError::NotAttached);
        let disk = self.disks.detach(slot);
        for vm in disk.views.iter().flat_map(Views::joins) {
            self.tenants.release(vm, Use::View);
        }
        if holds(Guard::DetachUnstages) {
            self.admission
                .unstage_all(disk.tenant, |key| key.disk() == slot);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash.ciphers_mut().set(slot, None);
        }
        self.division().own_disk(slot, None);
        if self.tenants.release(disk.tenant, Use::Disk) {
            self.division().end(disk.tenant);
        }
    }
}
