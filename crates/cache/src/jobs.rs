//! What the operator asks, step by step: attach, detach, drop, stop. Each job looks whether it
//! can go on whenever something has happened.

mod checks;
mod step;
mod tables;

use crate::api::{Command, ControlError, ControlId, ControlOutcome, Effect};
use crate::attach::Newcomer;
use crate::cache::Cache;
use crate::disks::Disk;
use crate::flash_use::patience;
use crate::guard::{Guard, holds};
use crate::ports::{Ports, Wake};
use crate::tenants::Use;
use crate::views::Views;
use block_io::{IoError, Token};
use block_store::Store;
use flash_format::SegmentIndex;
use step::Step;
use units::{Bytes, DiskId, DiskSlot, Instant, TenantSlot};

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Attach(Box<Newcomer>),
    Detach {
        disk: DiskSlot,
        fingerprint: Option<u128>,
    },
    Drop {
        disk: DiskSlot,
    },
    Grow {
        disk: DiskSlot,
        size: Bytes,
    },
    Stop,
}

impl Kind {
    /// The disk that the job is about; none for all.
    fn disk(&self) -> Option<DiskSlot> {
        match self {
            Self::Attach(newcomer) => Some(newcomer.slot),
            Self::Detach { disk, .. } | Self::Drop { disk } | Self::Grow { disk, .. } => {
                Some(*disk)
            }
            Self::Stop => None,
        }
    }

    /// Whether it matters afterwards who had the disk before.
    fn changes_owner(&self) -> bool {
        match self {
            Self::Attach(newcomer) => newcomer.takes_over,
            Self::Detach { .. } => holds(Guard::OwnerInBothSuperblocks),
            Self::Drop { .. } | Self::Grow { .. } | Self::Stop => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Job {
    id: ControlId,
    kind: Kind,
    step: Step,
    /// When it began, at the time of [`Ports::attended`].
    since: Instant,
}

impl Job {
    /// Whether it attaches this disk.
    pub(crate) fn attaches(&self, id: DiskId) -> bool {
        matches!(&self.kind, Kind::Attach(newcomer) if newcomer.id == id)
    }
}

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
            } => {
                let rules = Disk {
                    size,
                    policy,
                    read_only: read_only || shared,
                    tenant: TenantSlot::new(0),
                    views: shared.then(|| Views::new(size)),
                    in_flight: 0,
                    write_back,
                    epoch: 0,
                    failed_flush_untold: false,
                };
                self.prepare_attach(disk, name, &tenant, rules, fingerprint, owner)
                    .map(|newcomer| Kind::Attach(Box::new(newcomer)))
            }
            Command::Detach {
                disk,
                fingerprint,
                dirty,
            } => {
                self.host_record.retire_again(&mut self.ports);
                let result = self.idle_disk(disk);
                if result.is_ok() && self.backs.has(disk) {
                    let begun = self.changes().detach(id, disk, fingerprint, dirty);
                    self.answer_if_ended(id, begun.err().map(Err));
                    return;
                }
                result.map(|()| Kind::Detach { disk, fingerprint })
            }
            Command::Drop { disk } => {
                if let Some(tenant) = self.disks.tenant_of(disk) {
                    self.admission.unstage_all(tenant, |key| key.disk() == disk);
                }
                self.clean_disk(disk).map(|()| Kind::Drop { disk })
            }
            Command::Grow { disk, size } => self
                .may_grow(disk, size)
                .map(|()| Kind::Grow { disk, size }),
            Command::SetPolicy { disk, policy } => {
                return self.end_now(id, |cache| cache.changes().set_policy(id, disk, policy));
            }
            Command::Destage { disk } => {
                return self.end_now(id, |cache| cache.changes().demand_destage(id, disk));
            }
            Command::SetWriteBack { disk, write_back } => {
                return self.end_now(id, |cache| {
                    Some(cache.changes().set_write_back(disk, write_back))
                });
            }
            Command::Stop => Ok(Kind::Stop),
        };
        self.begin_job(id, kind);
    }

    fn begin_job(&mut self, id: ControlId, kind: Result<Kind, ControlError>) {
        let kind = kind.and_then(|kind| {
            if self.has_job_for(&kind) {
                Err(ControlError::Busy)
            } else {
                Ok(kind)
            }
        });
        match kind {
            Ok(kind) => self.jobs.push(Job {
                id,
                kind,
                step: Step::Start,
                since: self.ports.attended(),
            }),
            Err(error) => self.ports.push(Effect::ControlDone {
                id,
                result: Err(error),
            }),
        }
        if !self.flash.is_in_use() {
            self.end_jobs_without_flash();
        }
    }

    /// Answers a command that is done, or wrong; others answer it later.
    fn end_now(
        &mut self,
        id: ControlId,
        run: impl FnOnce(&mut Self) -> Option<Result<(), ControlError>>,
    ) {
        let ended = run(self);
        self.answer_if_ended(id, ended);
    }

    fn answer_if_ended(&mut self, id: ControlId, ended: Option<Result<(), ControlError>>) {
        if let Some(result) = ended {
            let result = result.map(|()| ControlOutcome::Done);
            self.ports.push(Effect::ControlDone { id, result });
        }
    }

    /// A disk that was under write-back is detached now.
    pub(crate) fn begin_detach(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        fingerprint: Option<u128>,
    ) {
        self.jobs.push(Job {
            id,
            kind: Kind::Detach { disk, fingerprint },
            step: Step::Start,
            since: self.ports.attended(),
        });
        if !self.flash.is_in_use() {
            self.ports.wake(Wake::Jobs);
        }
    }

    /// Whether another job about the same disk is under way.
    fn has_job_for(&self, kind: &Kind) -> bool {
        kind.disk().is_some_and(|disk| self.has_job_about(disk))
    }

    pub(crate) fn has_job_about(&self, disk: DiskSlot) -> bool {
        self.jobs.iter().any(|job| job.kind.disk() == Some(disk))
    }

    /// Whether a slot is attached or about to be.
    pub(crate) fn taken(&self, slot: DiskSlot) -> bool {
        let coming =
            |job: &Job| matches!(&job.kind, Kind::Attach(newcomer) if newcomer.slot == slot);
        self.disks.get(slot).is_some() || self.jobs.iter().any(coming)
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
        let mut progress = false;
        let is_in_doubt = self.host_record.is_in_doubt();
        let attended = self.ports.attended();
        for job in &mut self.jobs {
            // A cache that is stopped in doubt would open cold.
            if is_in_doubt && job.stops() && job.has_waited(attended) < patience(&self.config) {
                continue;
            }
            while job.step(flash, &mut self.ports) {
                progress = true;
            }
        }
        let jobs = std::mem::take(&mut self.jobs);
        let (done, waiting): (Vec<Job>, Vec<Job>) = jobs
            .into_iter()
            .partition(|job| matches!(job.step, Step::Done | Step::Refused(_)));
        self.jobs = waiting;
        for job in done {
            self.end_job(job);
        }
        progress
    }

    /// Without a flash there is nothing to wait for.
    pub(crate) fn end_jobs_without_flash(&mut self) {
        for mut job in std::mem::take(&mut self.jobs) {
            if let Kind::Attach(newcomer) = &job.kind
                && let Some(record) = newcomer.record
                && job.step.comes_before_record(record.open)
            {
                job.step = newcomer.after_tables(&mut self.ports);
            }
            match job.step {
                Step::Owning(_) => self.jobs.push(job),
                Step::Returning(_) | Step::Returned(_) => {
                    job.step = Step::Refused(ControlError::NotRecorded);
                    self.end_job(job);
                }
                _ => self.end_job(job),
            }
        }
    }

    /// The answer to a question of who has a disk that is about to be attached.
    pub(crate) fn job_owned(&mut self, token: Token, recorded: bool) {
        let asked = |job: &&mut Job| matches!(job.step, Step::Owning(asked) if asked == token);
        let Some(job) = self.jobs.iter_mut().find(asked) else {
            return;
        };
        job.step = match (&job.kind, self.flash.as_mut()) {
            _ if recorded => Step::Done,
            (Kind::Attach(newcomer), Some(flash)) => Step::Returning(flash.tables_mut().give_back(
                newcomer.slot,
                newcomer.id,
                newcomer.fingerprint,
            )),
            _ => Step::Refused(ControlError::NotRecorded),
        };
        if !self.flash.is_in_use() {
            self.end_jobs_without_flash();
        }
    }

    fn end_job(&mut self, job: Job) {
        if let Step::Refused(error) = job.step {
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
        let disk = self.disks.detach(slot);
        for vm in disk.views.iter().flat_map(Views::joins) {
            self.tenants.release(vm, Use::View);
        }
        if holds(Guard::DetachUnstages) {
            self.admission
                .unstage_all(disk.tenant, |key| key.disk() == slot);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash.set_cipher(slot, None);
        }
        self.division().own_disk(slot, None);
        if self.tenants.release(disk.tenant, Use::Disk) {
            self.division().end(disk.tenant);
        }
    }
}

impl Job {
    /// Goes one step on, if it can. False if it has to wait or is done.
    fn step(&mut self, flash: &mut Store, ports: &mut Ports) -> bool {
        let next = match &self.step {
            Step::Start => self.start(flash, ports),
            Step::Written if flash.facts().is_busy_with(self.disk()) => return false,
            // Segments of a dirty log are freed with the others when they are ordinary ones.
            Step::Written if self.frees() && flash.facts().has_log_segments(self.disk()) => {
                return false;
            }
            Step::Written => self.commit(flash, ports),
            Step::Committed(ticket, _) if !flash.is_durable(*ticket) => return false,
            Step::Committed(_, segments) => self.committed(flash, segments),
            Step::Checkpoint(number)
            | Step::SecondCheckpoint(number)
            | Step::Returning(number)
            | Step::Returned(number)
                if !flash.facts().has_checkpoint(*number) && !self.goes_ahead_of_tables() =>
            {
                return false;
            }
            // A superblock that cannot be read later must not bring back a table in which the
            // disk was attached, or the slot another disk's: both slots have to say the same.
            Step::Checkpoint(_) if self.kind.changes_owner() => {
                Step::SecondCheckpoint(flash.tables_mut().want_checkpoint())
            }
            Step::Checkpoint(_) | Step::SecondCheckpoint(_) => match &self.kind {
                // An open record makes count what a recovery finds of a log, void or not.
                Kind::Attach(newcomer)
                    if newcomer.void
                        && !flash.write_back().knows_end_of_log(newcomer.slot)
                        && holds(Guard::VoidBeforeOpen) =>
                {
                    return false;
                }
                Kind::Attach(newcomer) => newcomer.after_tables(ports),
                Kind::Detach { .. } | Kind::Drop { .. } | Kind::Grow { .. } | Kind::Stop => {
                    Step::Done
                }
            },
            Step::Returning(_) => Step::Returned(flash.tables_mut().want_checkpoint()),
            Step::Returned(_) => Step::Refused(ControlError::NotRecorded),
            Step::Owning(_) | Step::Done | Step::Refused(_) => return false,
        };
        self.step = next;
        true
    }

    /// The disk that the job is about; none for all.
    fn disk(&self) -> Option<DiskSlot> {
        self.kind.disk()
    }

    /// Whether the owner's record is asked for although the tables may not have its epoch.
    fn goes_ahead_of_tables(&self) -> bool {
        matches!(self.kind, Kind::Attach(_)) && !holds(Guard::EpochBeforeRecord)
    }

    /// Whether all of the disk's segments are freed.
    fn frees(&self) -> bool {
        matches!(self.kind, Kind::Attach(_) | Kind::Drop { .. })
    }

    fn start(&self, flash: &mut Store, ports: &mut Ports) -> Step {
        if let Kind::Attach(newcomer) = &self.kind
            && newcomer.void
        {
            flash.write_back().void_log(&mut ports.store, newcomer.slot);
        }
        if self.frees() {
            flash.hurry();
        }
        match &self.kind {
            Kind::Attach(newcomer) if newcomer.dropped.is_none() => {
                Step::Checkpoint(flash.tables_mut().enter(newcomer.slot, newcomer.served()))
            }
            Kind::Grow { disk, size } => Step::Checkpoint(flash.tables_mut().grow(*disk, *size)),
            Kind::Attach(_) | Kind::Detach { .. } | Kind::Drop { .. } => {
                flash.close_streams(&mut ports.store, self.disk());
                if let Some(disk) = self.disk() {
                    flash.intake_mut().close_to(disk);
                    if matches!(self.kind, Kind::Detach { .. }) {
                        flash.origins_mut().flush(&mut ports.store, disk);
                    }
                }
                Step::Written
            }
            Kind::Stop => {
                flash.close_streams(&mut ports.store, None);
                flash.intake_mut().stop();
                Step::Written
            }
        }
    }

    /// Everything is on flash: queues what the job changes.
    fn commit(&self, flash: &mut Store, ports: &mut Ports) -> Step {
        let mut segments = Vec::new();
        match &self.kind {
            Kind::Attach(_) | Kind::Drop { .. } => {
                segments = flash.free_segments_of(&mut ports.store, self.disk());
            }
            Kind::Detach { disk, .. } => {
                flash.trust_resting(&mut ports.store, Some(*disk));
                flash.origins_mut().leave(*disk);
            }
            Kind::Grow { .. } => unreachable!("a disk that grows writes its tables only"),
            Kind::Stop => flash.trust_resting(&mut ports.store, None),
        }
        flash.hurry();
        Step::Committed(flash.last_ticket(), segments)
    }

    /// What the job changed is durable.
    fn committed(&self, flash: &mut Store, segments: &[SegmentIndex]) -> Step {
        if let Some(disk) = self.disk() {
            flash.intake_mut().open_to(disk);
        }
        match &self.kind {
            Kind::Attach(newcomer) => {
                flash.release_segments(newcomer.slot, segments);
                Step::Checkpoint(flash.tables_mut().enter(newcomer.slot, newcomer.served()))
            }
            Kind::Drop { disk } => {
                flash.release_segments(*disk, segments);
                Step::Done
            }
            Kind::Detach { disk, fingerprint } => {
                Step::Checkpoint(flash.tables_mut().leave(*disk, *fingerprint))
            }
            Kind::Grow { .. } => unreachable!("a disk that grows writes its tables only"),
            Kind::Stop if flash.has_all_durable() => {
                Step::Checkpoint(flash.tables_mut().want_clean_checkpoint())
            }
            // Something was queued meanwhile: once more.
            Kind::Stop => {
                flash.hurry();
                Step::Committed(flash.last_ticket(), Vec::new())
            }
        }
    }
}
