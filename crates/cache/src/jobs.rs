//! What the operator asks, step by step: attach, detach, drop, stop. Each job looks whether it
//! can go on whenever something has happened.

use crate::api::{Command, ControlError, ControlId, ControlOutcome, Effect};
use crate::attach::Newcomer;
use crate::cache::{Cache, Disk};
use crate::flash::Flash;
use crate::guard::{Guard, lacks};
use crate::journal::Ticket;
use crate::ports::{Ports, Wake};
use crate::tenants::Use;
use crate::views::Views;
use block_io::{IoError, Token};
use flash_format::{DiskEntry, Position, SegmentIndex};
use segment_log::Phase;
use units::{DiskSlot, TenantSlot};

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Attach(Newcomer),
    Detach {
        disk: DiskSlot,
        fingerprint: Option<u128>,
    },
    Drop {
        disk: DiskSlot,
    },
    Stop,
}

impl Kind {
    /// The disk that the job is about; none for all.
    fn disk(&self) -> Option<DiskSlot> {
        match self {
            Self::Attach(newcomer) => Some(newcomer.slot),
            Self::Detach { disk, .. } | Self::Drop { disk } => Some(*disk),
            Self::Stop => None,
        }
    }

    /// Whether it matters afterwards who had the disk before.
    fn changes_owner(&self) -> bool {
        match self {
            Self::Attach(newcomer) => newcomer.takes_over,
            Self::Detach { .. } => !lacks(Guard::OwnerInBothSuperblocks),
            Self::Drop { .. } | Self::Stop => false,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    /// Streams are closed; their chunks and footers are on their way.
    Written,
    /// The entries of this ticket are on their way.
    Committed(Ticket, Vec<SegmentIndex>),
    /// This checkpoint is on its way.
    Checkpoint(u64),
    /// And one more, with the other superblock.
    SecondCheckpoint(u64),
    /// It is being recorded with the origin who has the disk.
    Owning(Token),
    Done,
    Refused(ControlError),
}

#[derive(Debug)]
pub(crate) struct Job {
    id: ControlId,
    kind: Kind,
    step: Step,
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
                };
                self.prepare_attach(disk, name, &tenant, rules, fingerprint, owner)
                    .map(Kind::Attach)
            }
            Command::Detach {
                disk,
                fingerprint,
                dirty,
            } => {
                self.retire_again();
                let result = self.idle_disk(disk);
                if result.is_ok() && self.writes_back(disk) {
                    let begun = self.detach_back(id, disk, fingerprint, dirty);
                    self.answer_if_ended(id, begun.err().map(Err));
                    return;
                }
                result.map(|()| Kind::Detach { disk, fingerprint })
            }
            Command::Drop { disk } => {
                if let Some(tenant) = self.tenant_of(disk) {
                    self.unstage_disk(disk, tenant);
                }
                let bytes = self.dirty_bytes(disk);
                self.attached(disk).and_then(|_| {
                    if bytes.is_zero() {
                        Ok(Kind::Drop { disk })
                    } else {
                        Err(ControlError::Dirty { bytes })
                    }
                })
            }
            Command::SetPolicy { disk, policy } => {
                let ended = self.set_policy(id, disk, policy);
                self.answer_if_ended(id, ended);
                return;
            }
            Command::Destage { disk } => {
                let ended = self.demand_destage(id, disk);
                self.answer_if_ended(id, ended);
                return;
            }
            Command::SetWriteBack { disk, write_back } => {
                let ended = self.set_write_back(disk, write_back);
                self.answer_if_ended(id, Some(ended));
                return;
            }
            Command::Stop => Ok(Kind::Stop),
        };
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
            }),
            Err(error) => self.ports.effects.push(Effect::ControlDone {
                id,
                result: Err(error),
            }),
        }
        if self.flash.is_none() {
            self.end_jobs_without_flash();
        }
    }

    fn answer_if_ended(&mut self, id: ControlId, ended: Option<Result<(), ControlError>>) {
        if let Some(result) = ended {
            let result = result.map(|()| ControlOutcome::Done);
            self.ports.effects.push(Effect::ControlDone { id, result });
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
        });
        if self.flash.is_none() {
            self.ports.wakes.push(Wake::Jobs);
        }
    }

    fn attached(&self, disk: DiskSlot) -> Result<&Disk, ControlError> {
        self.disks[disk.index()]
            .as_ref()
            .ok_or(ControlError::NotAttached)
    }

    fn idle_disk(&self, disk: DiskSlot) -> Result<(), ControlError> {
        if self.attached(disk)?.in_flight > 0 {
            Err(ControlError::Busy)
        } else {
            Ok(())
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
        self.disks[slot.index()].is_some() || self.jobs.iter().any(coming)
    }

    /// Lets every job go as far as it can. True if one went on or ended, so that the flash
    /// should look at what it asked for.
    pub(crate) fn step_jobs(&mut self) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let Some(mut flash) = self.flash.take() else {
            return false;
        };
        let mut progress = false;
        for job in &mut self.jobs {
            while job.step(&mut flash, &mut self.ports) {
                progress = true;
            }
        }
        self.flash = Some(flash);
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
            if let (Kind::Attach(newcomer), Step::Start) = (&job.kind, &job.step)
                && newcomer.record.is_some()
            {
                job.step = newcomer.after_tables(&mut self.ports);
            }
            match job.step {
                Step::Owning(_) => self.jobs.push(job),
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
        job.step = if recorded {
            Step::Done
        } else {
            Step::Refused(ControlError::NotRecorded)
        };
        if self.flash.is_none() {
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
            self.ports.effects.push(effect);
            return;
        }
        let outcome = match job.kind {
            Kind::Attach(newcomer) => self.end_attach(newcomer),
            Kind::Detach { disk, .. }
                if self.retirement.blocks_writes() && !lacks(Guard::RecordBeforeDetach) =>
            {
                self.stay(disk);
                let result = Err(ControlError::RetirementOpen);
                let effect = Effect::ControlDone { id: job.id, result };
                self.ports.effects.push(effect);
                return;
            }
            Kind::Detach { disk, .. } => {
                self.forget_disk(disk);
                ControlOutcome::Done
            }
            Kind::Drop { .. } | Kind::Stop => ControlOutcome::Done,
        };
        let effect = Effect::ControlDone {
            id: job.id,
            result: Ok(outcome),
        };
        self.ports.effects.push(effect);
        // Only now can the shell reach the origin of a disk that was attached.
        if let (ControlOutcome::Attached { disk, .. }, Some(flash)) = (outcome, self.flash.as_mut())
        {
            flash.flush_origin(&mut self.ports, disk);
        }
    }

    fn forget_disk(&mut self, slot: DiskSlot) {
        self.end_back(slot, IoError::ShuttingDown);
        let disk = self.disks[slot.index()].take();
        self.bypassed_ids.remove(&slot);
        let disk = disk.expect("a disk that is detached was attached");
        for vm in disk.views.iter().flat_map(Views::joins) {
            self.tenants.release(vm, Use::View);
        }
        if !lacks(Guard::DetachUnstages) {
            self.unstage_disk(slot, disk.tenant);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash.ciphers.set(slot, None);
        }
        self.own_disk(slot, None);
        if self.tenants.release(disk.tenant, Use::Disk) {
            self.end_tenant(disk.tenant);
        }
    }
}

impl Job {
    /// Goes one step on, if it can. False if it has to wait or is done.
    fn step(&mut self, flash: &mut Flash, ports: &mut Ports) -> bool {
        let next = match &self.step {
            Step::Start => self.start(flash, ports),
            Step::Written if flash.is_busy_with(self.disk()) => return false,
            // Segments of a dirty log are freed with the others when they are ordinary ones.
            Step::Written if self.frees() && flash.has_log_segments(self.disk()) => return false,
            Step::Written => self.commit(flash, ports),
            Step::Committed(ticket, _) if flash.journal.durable() < *ticket => return false,
            Step::Committed(_, segments) => self.committed(flash, segments),
            Step::Checkpoint(number) if flash.checkpoint.complete() < *number => return false,
            // A superblock that cannot be read later must not bring back a table in which the
            // disk was attached, or the slot another disk's: both slots have to say the same.
            Step::Checkpoint(_) if self.kind.changes_owner() => {
                Step::SecondCheckpoint(flash.checkpoint.want())
            }
            Step::SecondCheckpoint(number) if flash.checkpoint.complete() < *number => {
                return false;
            }
            Step::Checkpoint(_) | Step::SecondCheckpoint(_) => match &self.kind {
                Kind::Attach(newcomer) => newcomer.after_tables(ports),
                Kind::Detach { .. } | Kind::Drop { .. } | Kind::Stop => Step::Done,
            },
            Step::Owning(_) | Step::Done | Step::Refused(_) => return false,
        };
        self.step = next;
        true
    }

    /// The disk that the job is about; none for all.
    fn disk(&self) -> Option<DiskSlot> {
        self.kind.disk()
    }

    /// Whether all of the disk's segments are freed.
    fn frees(&self) -> bool {
        matches!(self.kind, Kind::Attach(_) | Kind::Drop { .. })
    }

    fn start(&self, flash: &mut Flash, ports: &mut Ports) -> Step {
        if let Kind::Attach(newcomer) = &self.kind
            && newcomer.void
        {
            flash.void_log(ports, newcomer.slot);
        }
        if self.frees() {
            flash.journal.hurry();
        }
        match &self.kind {
            Kind::Attach(newcomer) if newcomer.dropped.is_none() => flash.enter(newcomer),
            Kind::Attach(_) | Kind::Detach { .. } | Kind::Drop { .. } => {
                flash.close_streams(ports, self.disk());
                if let Some(disk) = self.disk() {
                    flash.closed_to.insert(disk);
                    if matches!(self.kind, Kind::Detach { .. }) {
                        flash.flush_origin(ports, disk);
                    }
                }
                Step::Written
            }
            Kind::Stop => {
                flash.close_streams(ports, None);
                flash.stopping = true;
                Step::Written
            }
        }
    }

    /// Everything is on flash: queues what the job changes.
    fn commit(&self, flash: &mut Flash, ports: &mut Ports) -> Step {
        let mut segments = Vec::new();
        match &self.kind {
            Kind::Attach(_) | Kind::Drop { .. } => {
                segments = flash.free_segments_of(ports, self.disk());
            }
            Kind::Detach { disk, .. } => {
                flash.trust_resting(ports, Some(*disk));
                flash.durability[*disk].leave();
            }
            Kind::Stop => flash.trust_resting(ports, None),
        }
        flash.journal.hurry();
        Step::Committed(flash.journal.last(), segments)
    }

    /// What the job changed is durable.
    fn committed(&self, flash: &mut Flash, segments: &[SegmentIndex]) -> Step {
        if let Some(disk) = self.disk() {
            flash.closed_to.remove(&disk);
        }
        match &self.kind {
            Kind::Attach(newcomer) => {
                flash.release_segments(newcomer.slot, segments);
                flash.enter(newcomer)
            }
            Kind::Drop { disk } => {
                flash.release_segments(*disk, segments);
                Step::Done
            }
            Kind::Detach { disk, fingerprint } => {
                if let Some(entry) = flash.disks.get_mut(*disk) {
                    entry.fingerprint = *fingerprint;
                }
                Step::Checkpoint(flash.checkpoint.want())
            }
            Kind::Stop if flash.journal.is_idle() => {
                Step::Checkpoint(flash.checkpoint.want_clean())
            }
            // Something was queued meanwhile: once more.
            Kind::Stop => {
                flash.journal.hurry();
                Step::Committed(flash.journal.last(), Vec::new())
            }
        }
    }
}

impl Newcomer {
    /// The tables have the disk: what is left is to record who has it.
    fn after_tables(&self, ports: &mut Ports) -> Step {
        match self.record {
            None => Step::Done,
            Some(record) => {
                let token = ports.own(self.slot, self.id, record);
                if lacks(Guard::RecordOpenBeforeWrite) {
                    Step::Done
                } else {
                    Step::Owning(token)
                }
            }
        }
    }
}

impl Flash {
    /// Enters a disk into the table; it is served when that is durable.
    fn enter(&mut self, newcomer: &Newcomer) -> Step {
        let before = self.disks.get(newcomer.slot);
        let before = before.filter(|entry| entry.id == newcomer.id);
        let entry = DiskEntry {
            id: newcomer.id,
            name: newcomer.name.clone(),
            size: newcomer.disk.size,
            fingerprint: None,
            epoch: match newcomer.disk.epoch {
                // It has none of its own, or only reads.
                0 => before.map_or(0, |entry| entry.epoch),
                epoch => epoch,
            },
            destaged: before.map_or(Position::START, |entry| entry.destaged),
            in_doubt: before.is_some_and(|entry| entry.in_doubt) && !newcomer.void,
            key: newcomer.key,
        };
        if newcomer.takes_over {
            self.dirty.set(newcomer.slot, None);
        }
        self.disks.set(newcomer.slot, entry);
        Step::Checkpoint(self.checkpoint.want())
    }

    fn close_streams(&mut self, ports: &mut Ports, disk: Option<DiskSlot>) {
        for key in self.log.stream_keys() {
            if disk.is_none_or(|disk| disk == key.disk) {
                self.close_stream(ports, key);
            }
        }
    }

    fn writes_of(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.log
            .segments()
            .any(|(_, segment)| of(segment.disk) && segment.writes > 0)
    }

    /// Whether writes to flash, a flush of the origin or a reclaim are under way for a disk.
    fn is_busy_with(&self, disk: Option<DiskSlot>) -> bool {
        let flushing = disk.is_some_and(|disk| self.durability[disk].is_flushing());
        flushing || self.writes_of(disk) || self.reclaims(disk)
    }

    fn has_log_segments(&self, disk: Option<DiskSlot>) -> bool {
        let mut segments = self.log.segments();
        segments.any(|(_, segment)| disk == Some(segment.disk) && segment.phase == Phase::Dirty)
    }

    fn reclaims(&self, disk: Option<DiskSlot>) -> bool {
        let of = |slot| disk.is_none_or(|disk| disk == slot);
        self.reclaiming
            .as_ref()
            .is_some_and(|reclaiming| of(reclaiming.disk()))
    }

    /// Queues the entries that free every segment of a disk.
    fn free_segments_of(&mut self, ports: &mut Ports, disk: Option<DiskSlot>) -> Vec<SegmentIndex> {
        let of = |slot| disk == Some(slot);
        let closed = self
            .log
            .segments()
            .filter(|(_, segment)| of(segment.disk) && segment.phase == Phase::Closed);
        let segments: Vec<SegmentIndex> = closed.map(|(index, _)| index).collect();
        for segment in &segments {
            self.log.begin_free(*segment);
            self.push_free(ports, *segment);
        }
        segments
    }

    fn release_segments(&mut self, disk: DiskSlot, segments: &[SegmentIndex]) {
        self.log.forget_disk(disk);
        for segment in segments {
            self.release(*segment);
        }
    }
}
