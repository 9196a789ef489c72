//! Coming under write-back, leaving it, and what else waits until the origin has everything.
//!
//! ```text
//!  to back:    writes wait ─► those on their way through have ended ─► origin flushed
//!                          ─► epoch in the disk table ─► record open ─► writes are accepted
//!  from back:  writes are slowed ─► log empty, writes wait ─► journal durable ─► record closed
//!                                ─► they go through
//!  detach:     log empty (or durable, or void) ─► journal durable ─► record closed (or left open)
//!                                ─► as any detach
//! ```

use super::{Back, Entry, Phase};
use crate::api::{ControlError, ControlId, ControlOutcome, Effect, WritePolicy};
use crate::cache::Cache;
use crate::guard::{Guard, holds};
use crate::limits::RETRY_PAUSE_MIN;
use crate::purpose::FlushMark;
use crate::write_back::{OfDirty, WriteBack};
use block_io::{IoError, Token};
use block_store::{DirtyDisk, Ticket};
use destage::BatchId;
use units::{DiskSlot, Duration, Instant};

/// What a disk under write-back is on its way to.
#[derive(Debug)]
pub(crate) struct Change {
    /// The command that waits for it; none if nobody does.
    pub(super) id: Option<ControlId>,
    pub(super) to: To,
    pub(super) step: Step,
    pub(super) since: Instant,
    /// The origin may have what late flash does not have durably.
    pub(super) has_left_flash: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Its writes are accepted.
    Back,
    /// Its writes go to the origin.
    Origin(WritePolicy),
    /// It is detached.
    Detached {
        /// The latest batch when the fingerprint was taken, if none was under way.
        latest_batch: Option<BatchId>,
        fingerprint: Option<u128>,
        dirty: OfDirty,
    },
    /// It goes on without the flash, which has failed or is late with writes.
    Bypass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for what was under way.
    Begun,
    /// As `Begun`, and what late flash does not have durably goes to the origin, too: the disk leaves
    /// whatever the flash does now.
    Leaves,
    /// The origin is being flushed, by the flush with this number.
    Flushing(u64),
    /// The origin could not be flushed; it is tried again then.
    FlushAt(Instant),
    Flushed,
    /// The journal is being written up to here.
    Journaling(Ticket),
    /// It is being recorded who has the disk.
    Owning(Token),
    /// It could not be recorded; it is tried again then.
    OwnAt(Instant),
    Owned,
}

impl Change {
    /// It begins at this time of [`Ports::attended`](crate::ports::Ports::attended).
    pub(super) fn new(id: Option<ControlId>, to: To, since: Instant) -> Self {
        Self {
            id,
            to,
            step: Step::Begun,
            since,
            has_left_flash: false,
        }
    }
}

impl Back {
    /// A disk that has just been attached: its record is open already.
    pub(crate) fn attached(settings: WriteBack, epoch: u64, number: u64, now: Instant) -> Self {
        Self::new(settings, epoch, number, now, Entry::Attached).on_its_way(None, now)
    }

    /// A disk that was written through until now: its record is to be opened.
    pub(super) fn entering(settings: WriteBack, epoch: u64, number: u64, now: Instant) -> Self {
        Self::new(settings, epoch, number, now, Entry::Switched)
    }

    /// It begins to come under write-back, for this command if there is one.
    pub(super) fn on_its_way(mut self, id: Option<ControlId>, since: Instant) -> Self {
        self.change = Some(Change::new(id, To::Back, since));
        self
    }

    /// It goes on where it was before a change that is not made.
    pub(super) fn go_on(&mut self, since: Instant) {
        if self.entry.is_some() {
            self.phase = Phase::Entering;
            self.change = Some(Change::new(None, To::Back, since));
        } else {
            self.phase = Phase::Open;
        }
    }

    /// Whether the log is to become empty for good.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving | Phase::Closing)
    }

    /// Whether nothing else may be asked of it now: somebody waits for a change, or one that it makes
    /// by itself has asked for a record. If another took its place then and failed, writes would be
    /// accepted although the record is closed.
    pub(super) fn is_changing(&self) -> bool {
        let holds = |change: &Change| {
            let asks = match change.step {
                Step::Owning(_) | Step::Owned => true,
                Step::OwnAt(_) => change.to == To::Bypass,
                _ => false,
            };
            change.id.is_some() || asks
        };
        self.change.as_ref().is_some_and(holds)
    }

    /// So many bytes have left the log.
    pub(crate) fn credit_for(&mut self, bytes: u64) {
        self.credit += bytes / 2;
    }

    /// Whether nothing may be brought to the origin: what is left stays, or is given up.
    pub(crate) fn holds_still(&self) -> bool {
        let to = self.change.as_ref().map(|change| change.to);
        self.parted
            || matches!(
                to,
                Some(To::Detached {
                    dirty: OfDirty::Keep | OfDirty::Drop,
                    ..
                })
            )
    }
}

impl Cache {
    /// Goes as far as can be gone to where the disk is on its way.
    pub(super) fn advance_change(&mut self, disk: DiskSlot) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        self.end_demands(disk, &mut back);
        self.fall_out(disk, &mut back);
        while let Some(change) = &back.change {
            let (to, step) = (change.to, change.step);
            let next = match to {
                To::Back => self.enter_step(disk, &mut back, step),
                To::Origin(_) | To::Bypass => self.leave_step(disk, &mut back, step),
                To::Detached { dirty, .. } => self.part_step(disk, &mut back, step, dirty),
            };
            match next {
                Next::Wait => break,
                Next::Step(step) => {
                    if let Some(change) = &mut back.change {
                        change.has_left_flash |= step == Step::Leaves;
                        change.step = step;
                    }
                }
                Next::Done => {
                    if !self.end_change(disk, &mut back) {
                        return;
                    }
                }
                Next::Failed(error) => {
                    if !self.fail_change(disk, &mut back, error) {
                        return;
                    }
                }
            }
        }
        self.backs.set(disk, back);
    }

    /// Without flash a disk is on its way to do without.
    fn fall_out(&mut self, disk: DiskSlot, back: &mut Back) {
        let detaches = matches!(
            back.change,
            Some(Change {
                to: To::Bypass | To::Detached { .. },
                ..
            })
        );
        if self.flash.is_in_use() || detaches || back.phase == Phase::Locked {
            return;
        }
        let dirty = self.flash.log_of(disk);
        if let Some(reason) = dirty.and_then(DirtyDisk::locked) {
            back.phase = Phase::Locked;
            let id = back.change.take().and_then(|change| change.id);
            self.done(id, Err(ControlError::Locked(reason)));
            self.ports.schedule(disk);
            return;
        }
        back.parted = false;
        let id = back.bypass(self.ports.attended());
        self.done(id, Err(ControlError::NoWriteBack));
    }

    /// The change has come to its end. False if the disk is not under write-back any more.
    fn end_change(&mut self, disk: DiskSlot, back: &mut Back) -> bool {
        let Some(Change { id, to, .. }) = back.change.take() else {
            return true;
        };
        match to {
            To::Back => {
                back.phase = Phase::Open;
                let entry = back.entry.take();
                let is_to_stay = entry == Some(Entry::Switched);
                self.give_log(disk);
                let policy = self.disks.policy(disk);
                if !is_to_stay && policy != WritePolicy::Back {
                    // It was attached for another policy, with a log of its last life.
                    back.phase = Phase::Leaving;
                    let since = self.ports.attended();
                    back.change = Some(Change::new(None, To::Origin(policy), since));
                } else {
                    self.disks.set_policy(disk, WritePolicy::Back);
                }
                self.done(id, Ok(ControlOutcome::Done));
                self.ports.schedule(disk);
                true
            }
            To::Origin(policy) => {
                self.disks.set_policy(disk, policy);
                self.done(id, Ok(ControlOutcome::Done));
                self.let_writes_through(disk, back);
                self.flash.release_failed();
                false
            }
            To::Bypass => {
                self.let_writes_through(disk, back);
                self.flash.release_failed();
                if self.flash.is_in_use() && self.disks.policy(disk) == WritePolicy::Back {
                    self.disks.set_policy(disk, WritePolicy::Through);
                    self.backs
                        .return_after(&mut self.ports, disk, Duration::ZERO);
                }
                false
            }
            To::Detached {
                fingerprint,
                latest_batch,
                ..
            } => {
                back.parted = true;
                let is_early = latest_batch != Some(back.destage.latest_batch());
                // If it was taken before all was written, the record keeps others away as long as
                // something stays here; else what is cached must not pass for what the origin has.
                let fingerprint = match (is_early, self.dirty_bytes(disk).is_zero()) {
                    (false, _) => fingerprint,
                    (true, false) => None,
                    (true, true) => fingerprint.map(|before| !before),
                };
                self.refuse_demands(back);
                if self.dirty_bytes(disk).is_zero() {
                    for answer in std::mem::take(&mut back.answers) {
                        self.reply(disk, answer.request, Ok(block_io::Payload::new()));
                    }
                }
                if let Some(id) = id {
                    self.begin_detach(id, disk, fingerprint);
                }
                true
            }
        }
    }

    /// The change cannot be made. False if the disk is not under write-back any more.
    fn fail_change(&mut self, disk: DiskSlot, back: &mut Back, error: ControlError) -> bool {
        let Some(Change { id, to, .. }) = back.change.take() else {
            return true;
        };
        self.done(id, Err(error));
        if to == To::Back {
            self.let_writes_through(disk, back);
            if id.is_none() {
                self.backs
                    .return_after(&mut self.ports, disk, RETRY_PAUSE_MIN);
            }
            return false;
        }
        if error == ControlError::NotRecorded && holds(Guard::OpenAfterDoubt) {
            // The record may be closed all the same.
            back.entry = Some(Entry::Stays);
        }
        if back.phase != Phase::Locked {
            back.go_on(self.ports.attended());
        }
        self.ports.schedule(disk);
        true
    }

    /// The disk is under write-back no longer: what waits goes to the origin.
    fn let_writes_through(&mut self, disk: DiskSlot, back: &mut Back) {
        for (span, change) in Self::take_waiting(disk, back) {
            self.write(span, change);
        }
        // The origin has everything: that is why the disk leaves. What went past the log is durable
        // there when it is flushed.
        for answer in std::mem::take(&mut back.answers) {
            self.flush_through(answer.request, disk, answer.asked);
        }
        for (_, id) in std::mem::take(&mut back.demands) {
            self.done(Some(id), Ok(ControlOutcome::Done));
        }
    }

    /// Those who wait for the origin to get something hear that the disk is on its way out.
    pub(super) fn refuse_demands(&mut self, back: &mut Back) {
        back.destage.drop_demand();
        for (_, demand) in std::mem::take(&mut back.demands) {
            self.done(Some(demand), Err(ControlError::Busy));
        }
    }

    pub(crate) fn done(
        &mut self,
        id: Option<ControlId>,
        result: Result<ControlOutcome, ControlError>,
    ) {
        if let Some(id) = id {
            self.ports.push(Effect::ControlDone { id, result });
        }
    }

    /// The origin of a disk that comes under write-back has been flushed, or could not be.
    pub(crate) fn enter_flush_done(
        &mut self,
        disk: DiskSlot,
        number: u64,
        since: FlushMark,
        result: Result<(), IoError>,
    ) {
        let now = self.ports.now;
        let result = self.origin_flushed(disk, since, result, false);
        if let Some(change) = self
            .backs
            .get_mut(disk)
            .and_then(|back| back.change.as_mut())
            && change.step == Step::Flushing(number)
        {
            change.step = match result {
                Ok(()) => Step::Flushed,
                Err(_) => Step::FlushAt(now + RETRY_PAUSE_MIN),
            };
        }
        self.ports.schedule(disk);
    }

    /// The answer to a question of who has a disk.
    pub(crate) fn back_owned(&mut self, token: Token, recorded: bool) {
        let now = self.ports.now;
        for disk in self.backs.slots() {
            if let Some(change) = self
                .backs
                .get_mut(disk)
                .and_then(|back| back.change.as_mut())
                && change.step == Step::Owning(token)
            {
                change.step = if recorded {
                    Step::Owned
                } else {
                    Step::OwnAt(now + RETRY_PAUSE_MIN)
                };
                self.ports.schedule(disk);
            }
        }
    }
}

pub(super) enum Next {
    Wait,
    Step(Step),
    Done,
    Failed(ControlError),
}

/// Why a disk cannot be under write-back, if so.
pub(crate) fn unfit(disk: &crate::disks::Disk) -> Option<ControlError> {
    if !disk.size.is_multiple_of(units::BLOCK_BYTES) {
        Some(ControlError::UnalignedSize)
    } else if disk.read_only || disk.views.is_some() {
        Some(ControlError::NoWriteBack)
    } else {
        None
    }
}
