//! What the operator asks, step by step: attach, detach, drop, stop. Each job looks whether it
//! can go on whenever something has happened.

mod newcomer;
mod step;

pub(crate) use newcomer::Newcomer;

use crate::api::{ControlError, ControlId};
use crate::guard::{Guard, holds};
use crate::ports::Ports;
use block_io::Token;
use block_store::Store;
use flash_format::SegmentIndex;
use step::Step;
use units::{Bytes, DiskId, DiskSlot, Duration, Instant};

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

/// A command that takes longer than a moment.
#[derive(Debug)]
pub(crate) struct Job {
    id: ControlId,
    kind: Kind,
    step: Step,
    /// When it began, at the time of [`Ports::attended`].
    since: Instant,
}

/// A job that is over.
pub(crate) struct Ended {
    pub(crate) id: ControlId,
    pub(crate) kind: Kind,
    /// Why it was refused, if it was.
    pub(crate) refused: Option<ControlError>,
}

impl From<Job> for Ended {
    fn from(job: Job) -> Self {
        let refused = match job.step {
            Step::Refused(error) => Some(error),
            _ => None,
        };
        Self {
            id: job.id,
            kind: job.kind,
            refused,
        }
    }
}

/// All jobs under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Vec<Job>);

impl Jobs {
    /// A job begins.
    ///
    /// # Errors
    /// If another one about the same disk is under way.
    pub(crate) fn begin(
        &mut self,
        id: ControlId,
        kind: Kind,
        attended: Instant,
    ) -> Result<(), ControlError> {
        if kind.disk().is_some_and(|disk| self.has_one_about(disk)) {
            return Err(ControlError::Busy);
        }
        self.push(id, kind, attended);
        Ok(())
    }

    /// A job begins, whatever else is under way.
    pub(crate) fn push(&mut self, id: ControlId, kind: Kind, attended: Instant) {
        self.0.push(Job {
            id,
            kind,
            step: Step::Start,
            since: attended,
        });
    }

    /// Whether one is about this disk.
    pub(crate) fn has_one_about(&self, disk: DiskSlot) -> bool {
        self.0.iter().any(|job| job.kind.disk() == Some(disk))
    }

    /// Whether this disk is being attached.
    pub(crate) fn attaches(&self, id: DiskId) -> bool {
        let mut newcomers = self.newcomers();
        newcomers.any(|newcomer| newcomer.id == id)
    }

    /// Whether a disk is being attached in this slot.
    pub(crate) fn attaches_at(&self, slot: DiskSlot) -> bool {
        let mut newcomers = self.newcomers();
        newcomers.any(|newcomer| newcomer.slot == slot)
    }

    fn newcomers(&self) -> impl Iterator<Item = &Newcomer> {
        self.0.iter().filter_map(|job| match &job.kind {
            Kind::Attach(newcomer) => Some(&**newcomer),
            _ => None,
        })
    }

    /// Whether somebody has waited for one for so long.
    pub(crate) fn any_has_waited(&self, attended: Instant, patience: Duration) -> bool {
        let mut jobs = self.0.iter();
        jobs.any(|job| job.has_waited(attended) >= patience)
    }

    /// Lets every job go as far as it can; a stop only if `may_stop` says so of how long it has waited.
    /// Returns whether one went on, so that the flash should look at what it asked for, and those that
    /// are over.
    pub(crate) fn step(
        &mut self,
        flash: &mut Store,
        ports: &mut Ports,
        may_stop: impl Fn(Duration) -> bool,
    ) -> (bool, Vec<Ended>) {
        let mut progress = false;
        let attended = ports.attended();
        for job in &mut self.0 {
            if job.stops() && !may_stop(job.has_waited(attended)) {
                continue;
            }
            while job.step(flash, ports) {
                progress = true;
            }
        }
        let is_over = |job: &mut Job| matches!(job.step, Step::Done | Step::Refused(_));
        let over = self.0.extract_if(.., is_over);
        (progress, over.map(Ended::from).collect())
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all of them out, to end them one after the other.
    pub(crate) fn take_all(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.0)
    }

    /// Ends a job that was taken out: without a flash there is nothing to wait for but the owner's record.
    /// None if the job waits for that.
    pub(crate) fn end_without_flash(&mut self, mut job: Job, ports: &mut Ports) -> Option<Ended> {
        if let Kind::Attach(newcomer) = &job.kind
            && let Some(record) = newcomer.record
            && job.step.comes_before_record(record.open)
        {
            job.step = newcomer.after_tables(ports);
        }
        match job.step {
            Step::Owning(_) => {
                self.0.push(job);
                return None;
            }
            Step::Returning(_) | Step::Returned(_) => {
                job.step = Step::Refused(ControlError::NotRecorded);
            }
            _ => {}
        }
        Some(job.into())
    }

    /// The answer to a question of who has a disk that is about to be attached. False if no job asked it.
    pub(crate) fn owned(
        &mut self,
        token: Token,
        recorded: bool,
        flash: Option<&mut Store>,
    ) -> bool {
        let asked = |job: &&mut Job| matches!(job.step, Step::Owning(asked) if asked == token);
        let Some(job) = self.0.iter_mut().find(asked) else {
            return false;
        };
        job.step = match (&job.kind, flash) {
            _ if recorded => Step::Done,
            (Kind::Attach(newcomer), Some(flash)) => Step::Returning(flash.tables_mut().give_back(
                newcomer.slot,
                newcomer.id,
                newcomer.fingerprint,
            )),
            _ => Step::Refused(ControlError::NotRecorded),
        };
        true
    }
}

impl Job {
    /// Goes one step on, if it can. False if it has to wait or is done.
    fn step(&mut self, flash: &mut Store, ports: &mut Ports) -> bool {
        let next = match &self.step {
            Step::Start => self.start(flash, ports),
            Step::Written if flash.facts().is_busy_with(self.disk()) => return false,
            // Segments of a dirty log are freed with the others when they are ordinary ones.
            Step::Written
                if self.frees()
                    && !self.keeps_log(flash)
                    && flash.facts().has_log_segments(self.disk()) =>
            {
                return false;
            }
            Step::Written => self.commit(flash, ports),
            Step::Committed(ticket, _) if !flash.journal().is_durable(*ticket) => return false,
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

    /// Whether the disk comes with a log that counts.
    fn keeps_log(&self, flash: &Store) -> bool {
        let Kind::Attach(newcomer) = &self.kind else {
            return false;
        };
        !newcomer.void && !newcomer.takes_over && flash.dirty_logs().has(newcomer.slot)
    }

    fn start(&self, flash: &mut Store, ports: &mut Ports) -> Step {
        if let Kind::Attach(newcomer) = &self.kind
            && newcomer.void
        {
            flash.write_back().void_log(&mut ports.store, newcomer.slot);
        }
        if self.frees() {
            flash.journal_mut().hurry();
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
                segments = flash.freeing().begin(self.disk(), ports.now());
            }
            Kind::Detach { disk, .. } => {
                flash.trust_resting(&mut ports.store, Some(*disk));
                flash.origins_mut().leave(*disk);
            }
            Kind::Grow { .. } => unreachable!("a disk that grows writes its tables only"),
            Kind::Stop => flash.trust_resting(&mut ports.store, None),
        }
        flash.journal_mut().hurry();
        Step::Committed(flash.journal().last(), segments)
    }

    /// What the job changed is durable.
    fn committed(&self, flash: &mut Store, segments: &[SegmentIndex]) -> Step {
        if let Some(disk) = self.disk() {
            flash.intake_mut().open_to(disk);
        }
        match &self.kind {
            Kind::Attach(newcomer) => {
                flash.freeing().release(newcomer.slot, segments);
                Step::Checkpoint(flash.tables_mut().enter(newcomer.slot, newcomer.served()))
            }
            Kind::Drop { disk } => {
                flash.freeing().release(*disk, segments);
                Step::Done
            }
            Kind::Detach { disk, fingerprint } => {
                Step::Checkpoint(flash.tables_mut().leave(*disk, *fingerprint))
            }
            Kind::Grow { .. } => unreachable!("a disk that grows writes its tables only"),
            Kind::Stop if flash.journal().is_idle() => {
                Step::Checkpoint(flash.tables_mut().want_clean_checkpoint())
            }
            // Something was queued meanwhile: once more.
            Kind::Stop => {
                flash.journal_mut().hurry();
                Step::Committed(flash.journal().last(), Vec::new())
            }
        }
    }
}
