//! Coming under write-back, leaving it, and what else waits until the origin has everything.
//!
//! ```text
//!  to back:    writes wait ─► those on their way through have ended ─► origin flushed
//!                          ─► epoch in the disk table ─► record open ─► writes are accepted
//!  from back:  writes are slowed ─► log empty, writes wait ─► record closed ─► they go through
//!  detach:     log empty (or durable, or void) ─► record closed (or left open) ─► as any detach
//! ```

use super::{Back, Phase};
use crate::api::{ControlError, ControlId, ControlOutcome, Effect, WritePolicy};
use crate::cache::Cache;
use crate::flash::Flash;
use crate::guard::{Guard, lacks};
use crate::limits::RETRY_PAUSE_MIN;
use crate::ownership::OwnerRecord;
use crate::ports::Purpose;
use crate::write_back::{OfDirty, WriteBack};
use block_io::{IoError, OriginVerb, Token};
use units::{DiskSlot, Instant};

/// What a disk under write-back is on its way to.
#[derive(Debug)]
pub(crate) struct Change {
    /// The command that waits for it; none if nobody does.
    id: Option<ControlId>,
    to: To,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// Its writes are accepted.
    Back,
    /// Its writes go to the origin.
    Origin(WritePolicy),
    /// It is detached.
    Detached {
        /// Batches that had been begun when the fingerprint was taken, if none was under way.
        batches: Option<u64>,
        fingerprint: Option<u128>,
        dirty: OfDirty,
    },
    /// The flash has failed: it goes on without.
    Bypass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It waits for what was under way.
    Begun,
    /// The origin is being flushed.
    Flushing,
    /// The origin could not be flushed; it is tried again then.
    FlushAt(Instant),
    Flushed,
    /// This checkpoint has the disk's epoch.
    Checkpoint(u64),
    /// It is being recorded who has the disk.
    Owning(Token),
    /// It could not be recorded; it is tried again then.
    OwnAt(Instant),
    Owned,
}

impl Change {
    pub(crate) fn attached() -> Self {
        Self {
            id: None,
            to: To::Back,
            step: Step::Begun,
        }
    }

    fn asked(id: ControlId, to: To) -> Self {
        Self {
            id: Some(id),
            to,
            step: Step::Begun,
        }
    }
}

impl Back {
    /// A disk that has just been attached: its record is open already.
    pub(crate) fn attached(settings: WriteBack, epoch: u64, now: Instant) -> Self {
        Self {
            change: Some(Change::attached()),
            ..Self::new(settings, epoch, now)
        }
    }

    /// Whether the log is to become empty for good.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving | Phase::Closing)
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
    /// What writes do from now on, if it takes longer than a moment. None if it is done, or wrong.
    pub(crate) fn set_policy(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        policy: WritePolicy,
    ) -> Option<Result<(), ControlError>> {
        let Some(served) = self.disks[disk.index()].as_mut() else {
            return Some(Err(ControlError::NotAttached));
        };
        let now = self.ports.now;
        match (self.backs.get_mut(disk), policy) {
            (Some(back), _) if back.change.as_ref().is_some_and(|c| c.id.is_some()) => {
                return Some(Err(ControlError::Busy));
            }
            (Some(back), policy) if policy != WritePolicy::Back => {
                back.change = Some(Change::asked(id, To::Origin(policy)));
                back.phase = Phase::Leaving;
                back.credit = 0;
            }
            (None, WritePolicy::Back) if self.flash.is_some() => {
                if let Some(error) = unfit(served) {
                    return Some(Err(error));
                }
                let mut back = Box::new(Back::new(served.write_back, served.epoch, now));
                back.change = Some(Change::asked(id, To::Back));
                self.backs.set(disk, back);
            }
            (None | Some(_), WritePolicy::Back) => {
                served.policy = policy;
                return Some(Ok(()));
            }
            (None | Some(_), policy) => {
                served.policy = policy;
                return Some(Ok(()));
            }
        }
        self.ports.stir(disk);
        None
    }

    pub(crate) fn set_write_back(
        &mut self,
        disk: DiskSlot,
        write_back: WriteBack,
    ) -> Result<(), ControlError> {
        let served = self.disks[disk.index()].as_mut();
        served.ok_or(ControlError::NotAttached)?.write_back = write_back;
        if let Some(back) = self.backs.get_mut(disk) {
            back.settings = write_back;
        }
        self.ports.stir(disk);
        Ok(())
    }

    /// Brings everything so far to the origin. None if that takes longer than a moment.
    pub(crate) fn demand_destage(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
    ) -> Option<Result<(), ControlError>> {
        if self.disks[disk.index()].is_none() {
            return Some(Err(ControlError::NotAttached));
        }
        let flash = self.dirty_flash();
        let dirty = flash.and_then(|flash| flash.dirty.get(disk));
        let end = dirty.map_or(0, |dirty| dirty.log.end());
        if dirty.is_none_or(|dirty| dirty.log.is_empty() && dirty.released() >= end) {
            return Some(Ok(()));
        }
        if let Some(reason) = dirty.and_then(|dirty| dirty.locked) {
            return Some(Err(ControlError::Locked(reason)));
        }
        let back = self.backs.get_mut(disk)?;
        back.destage.demand = back.destage.demand.max(end);
        // Whoever asks expects an attempt now.
        back.destage.failing = None;
        back.demands.push((end, id));
        self.ports.stir(disk);
        None
    }

    /// The origin refused: those who wait for it hear so.
    pub(crate) fn fail_demands(&mut self, _disk: DiskSlot, back: &mut Back, error: IoError) {
        back.destage.demand = 0;
        for (_, id) in std::mem::take(&mut back.demands) {
            self.ports.effects.push(Effect::ControlDone {
                id,
                result: Err(ControlError::Origin(error)),
            });
        }
    }

    /// Detaches a disk under write-back.
    ///
    /// # Errors
    /// [`ControlError`] if it is refused at once.
    pub(crate) fn detach_back(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        fingerprint: Option<u128>,
        dirty: OfDirty,
    ) -> Result<(), ControlError> {
        let bytes = self.dirty_bytes(disk);
        if dirty == OfDirty::Refuse && !bytes.is_zero() && !lacks(Guard::DetachRefusesDirty) {
            return Err(ControlError::Dirty { bytes });
        }
        let reason = self
            .dirty_flash()
            .and_then(|flash| flash.dirty.get(disk)?.locked);
        if let (Some(reason), OfDirty::Refuse | OfDirty::Flush) = (reason, dirty) {
            return Err(ControlError::Locked(reason));
        }
        let Some(back) = self.backs.get_mut(disk) else {
            return Err(ControlError::NotAttached);
        };
        if back
            .change
            .as_ref()
            .is_some_and(|change| change.id.is_some())
        {
            return Err(ControlError::Busy);
        }
        let destage = &back.destage;
        let batches = destage.is_idle().then(|| destage.batches());
        let to = To::Detached {
            fingerprint,
            batches,
            dirty,
        };
        back.change = Some(Change::asked(id, to));
        back.phase = Phase::Closing;
        if dirty == OfDirty::Keep
            && let Some(flash) = self.flash.as_mut()
        {
            flash.flush_log(&mut self.ports, disk);
        }
        self.ports.stir(disk);
        Ok(())
    }

    /// Goes as far as can be gone to where the disk is on its way.
    pub(super) fn turn_change(&mut self, disk: DiskSlot) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        self.end_demands(disk, &mut back);
        self.fall_out(disk, &mut back);
        loop {
            let Some(change) = &back.change else {
                break;
            };
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
        if self.flash.is_some() || detaches || back.phase == Phase::Locked {
            return;
        }
        let dirty = self.dirty_flash().and_then(|flash| flash.dirty.get(disk));
        if let Some(reason) = dirty.and_then(|dirty| dirty.locked) {
            back.phase = Phase::Locked;
            let id = back.change.take().and_then(|change| change.id);
            self.done(id, Err(ControlError::Locked(reason)));
            self.ports.stir(disk);
            return;
        }
        back.parted = false;
        if let Some(Change {
            id: Some(id), to, ..
        }) = back.change.take()
        {
            let result = match to {
                // So it is: everything goes to the origin.
                To::Origin(policy) => {
                    if let Some(served) = self.disks[disk.index()].as_mut() {
                        served.policy = policy;
                    }
                    Ok(ControlOutcome::Done)
                }
                _ => Err(ControlError::NoWriteBack),
            };
            self.ports.effects.push(Effect::ControlDone { id, result });
        }
        back.phase = Phase::Closing;
        back.change = Some(Change {
            id: None,
            to: To::Bypass,
            step: Step::Begun,
        });
    }

    fn end_demands(&mut self, disk: DiskSlot, back: &mut Back) {
        if back.demands.is_empty() {
            return;
        }
        let flash = self.dirty_flash();
        let dirty = flash.and_then(|flash| flash.dirty.get(disk));
        // Known durably, or a crash could bring back what was there before.
        let base = match &self.flash {
            Some(_) => dirty.map_or(u64::MAX, |dirty| dirty.released()),
            None => dirty.map_or(u64::MAX, |dirty| dirty.log.base()),
        };
        let locked = dirty.and_then(|dirty| dirty.locked);
        let effects = &mut self.ports.effects;
        back.demands.retain(|(number, id)| {
            let result = match locked {
                _ if *number <= base => Ok(ControlOutcome::Done),
                Some(reason) => Err(ControlError::Locked(reason)),
                None => return true,
            };
            effects.push(Effect::ControlDone { id: *id, result });
            false
        });
        if let Some(flash) = self.flash.as_mut()
            && !back.demands.is_empty()
        {
            flash.journal.hurry();
        }
    }

    fn enter_step(&mut self, disk: DiskSlot, back: &mut Back, step: Step) -> Next {
        let now = self.ports.now;
        let waits = !lacks(Guard::SwitchWaits);
        match step {
            Step::Begun if self.writes.any_of(disk) && waits => Next::Wait,
            Step::FlushAt(at) if now < at => {
                self.ports.wake_at(at);
                Next::Wait
            }
            Step::Begun | Step::FlushAt(_) if waits => {
                self.ports
                    .origin(Purpose::EnterFlush(disk), disk, OriginVerb::Flush);
                Next::Step(Step::Flushing)
            }
            Step::Begun | Step::FlushAt(_) => Next::Step(Step::Flushed),
            // The record is open since before the disk was attached.
            Step::Flushed if back.change.as_ref().is_some_and(|c| c.id.is_none()) => Next::Done,
            Step::Flushed => self.begin_epoch(disk, back),
            Step::Checkpoint(number) => {
                let complete = self.flash.as_ref().map(|flash| flash.checkpoint.complete());
                if complete.is_none_or(|complete| complete < number) {
                    return Next::Wait;
                }
                self.own(disk, back, true)
            }
            Step::Owned => Next::Done,
            Step::Flushing => Next::Wait,
            Step::Owning(_) if lacks(Guard::RecordOpenBeforeWrite) => Next::Done,
            Step::Owning(_) => Next::Wait,
            Step::OwnAt(_) => Next::Failed(ControlError::NotRecorded),
        }
    }

    /// The disk table has an epoch before the owner's record does.
    fn begin_epoch(&mut self, disk: DiskSlot, back: &mut Back) -> Next {
        if back.epoch > 0 {
            return self.own(disk, back, true);
        }
        let Some(flash) = self.flash.as_mut() else {
            return Next::Wait;
        };
        let Some(entry) = flash.disks.get_mut(disk) else {
            return Next::Wait;
        };
        entry.epoch += 1;
        back.epoch = entry.epoch;
        if let Some(served) = self.disks[disk.index()].as_mut() {
            served.epoch = back.epoch;
        }
        Next::Step(Step::Checkpoint(flash.checkpoint.want()))
    }

    /// Asks for the owner's record to be written.
    fn own(&mut self, disk: DiskSlot, back: &Back, open: bool) -> Next {
        let Some(id) = self.bypassed_ids.get(&disk).copied() else {
            return Next::Wait;
        };
        let cache = self.dirty_flash().map_or(0, |flash| flash.uuid);
        let record = OwnerRecord {
            epoch: back.epoch,
            cache,
            open,
        };
        let token = self.ports.own(disk, id, record);
        Next::Step(Step::Owning(token))
    }

    /// A disk leaves write-back.
    fn leave_step(&mut self, disk: DiskSlot, back: &mut Back, step: Step) -> Next {
        let now = self.ports.now;
        match step {
            Step::Begun => {
                let flash = self.dirty_flash();
                let dirty = flash.and_then(|flash| flash.dirty.get(disk));
                if let Some(reason) = dirty.and_then(|dirty| dirty.locked) {
                    return Next::Failed(ControlError::Locked(reason));
                }
                let empty = dirty.is_none_or(|dirty| dirty.log.is_empty());
                if !empty || !back.destage.is_idle() {
                    return Next::Wait;
                }
                back.phase = Phase::Closing;
                if lacks(Guard::RecordClosedBeforeBypass) {
                    return Next::Done;
                }
                self.own(disk, back, false)
            }
            Step::OwnAt(at) if back.change.as_ref().is_some_and(|c| c.to == To::Bypass) => {
                if now < at {
                    self.ports.wake_at(at);
                    return Next::Wait;
                }
                self.own(disk, back, false)
            }
            Step::OwnAt(_) => Next::Failed(ControlError::NotRecorded),
            Step::Owned => Next::Done,
            _ => Next::Wait,
        }
    }

    /// A disk is about to be detached.
    fn part_step(&mut self, disk: DiskSlot, back: &mut Back, step: Step, of: OfDirty) -> Next {
        match step {
            Step::Begun => {
                if !back.destage.is_idle() {
                    return Next::Wait;
                }
                let flash = self.dirty_flash();
                let dirty = flash.and_then(|flash| flash.dirty.get(disk));
                let empty = dirty.is_none_or(|dirty| dirty.log.is_empty());
                let durable = dirty.is_none_or(|dirty| !dirty.wants_durability());
                let locked = dirty.and_then(|dirty| dirty.locked);
                if let (false, OfDirty::Refuse | OfDirty::Flush, Some(reason)) = (empty, of, locked)
                {
                    return Next::Failed(ControlError::Locked(reason));
                }
                match of {
                    OfDirty::Keep if !durable && self.flash.is_some() => return Next::Wait,
                    // The record stays open: they are its reason.
                    OfDirty::Keep if !empty => return Next::Done,
                    OfDirty::Drop => {
                        if let Some(flash) = self.flash.as_mut() {
                            flash.void_log(&mut self.ports, disk);
                            flash.journal.hurry();
                        } else if let Some(wreck) = self.wreck.as_mut() {
                            wreck.dirty.set(disk, None);
                        }
                    }
                    OfDirty::Keep => {}
                    OfDirty::Refuse if lacks(Guard::DetachRefusesDirty) => {}
                    OfDirty::Refuse | OfDirty::Flush if !empty => return Next::Wait,
                    OfDirty::Refuse | OfDirty::Flush => {}
                }
                self.own(disk, back, false)
            }
            Step::OwnAt(_) => Next::Failed(ControlError::NotRecorded),
            Step::Owned => Next::Done,
            _ => Next::Wait,
        }
    }

    /// The change has come to its end. False if the disk is not under write-back any more.
    fn end_change(&mut self, disk: DiskSlot, back: &mut Back) -> bool {
        let Some(Change { id, to, .. }) = back.change.take() else {
            return true;
        };
        match to {
            To::Back => {
                back.phase = Phase::Open;
                self.give_log(disk);
                let policy = self.policy(disk);
                if id.is_none() && policy != WritePolicy::Back {
                    // It was attached for another policy, with a log of its last life.
                    back.phase = Phase::Leaving;
                    back.change = Some(Change {
                        id: None,
                        to: To::Origin(policy),
                        step: Step::Begun,
                    });
                } else {
                    self.set_policy_of(disk, WritePolicy::Back);
                }
                self.done(id, Ok(ControlOutcome::Done));
                self.ports.stir(disk);
                true
            }
            To::Origin(policy) => {
                self.set_policy_of(disk, policy);
                self.done(id, Ok(ControlOutcome::Done));
                self.let_writes_through(disk, back);
                false
            }
            To::Bypass => {
                self.let_writes_through(disk, back);
                let full = |wreck: &Flash| wreck.dirty.iter().any(|(_, d)| !d.log.is_empty());
                // Nobody needs it any more.
                if !self.wreck.as_deref().is_some_and(full) {
                    self.wreck = None;
                }
                false
            }
            To::Detached {
                fingerprint,
                batches,
                ..
            } => {
                back.parted = true;
                let is_early = batches != Some(back.destage.batches());
                // If it was taken before all was written, the record keeps others away as long as
                // something stays here; else what is cached must not pass for what the origin has.
                let fingerprint = match (is_early, self.dirty_bytes(disk).is_zero()) {
                    (false, _) => fingerprint,
                    (true, false) => None,
                    (true, true) => fingerprint.map(|before| !before),
                };
                for (_, demand) in std::mem::take(&mut back.demands) {
                    self.done(Some(demand), Err(ControlError::Busy));
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
            return false;
        }
        if back.phase != Phase::Locked {
            back.phase = Phase::Open;
        }
        self.ports.stir(disk);
        true
    }

    /// The disk is under write-back no longer: what waits goes to the origin.
    fn let_writes_through(&mut self, disk: DiskSlot, back: &mut Back) {
        let vm = self.tenant_of(disk);
        for (request, offset, length, change) in Self::take_waiting(back) {
            if let Some(vm) = vm {
                self.write(request, disk, vm, offset, length, change);
            }
        }
        for (_, request) in std::mem::take(&mut back.answers) {
            self.reply(disk, request, Ok(block_io::Payload::new()));
        }
        // The origin has everything: that is why the disk leaves.
        for (_, id) in std::mem::take(&mut back.demands) {
            self.done(Some(id), Ok(ControlOutcome::Done));
        }
    }

    fn set_policy_of(&mut self, disk: DiskSlot, policy: WritePolicy) {
        if let Some(served) = self.disks[disk.index()].as_mut() {
            served.policy = policy;
        }
    }

    fn done(&mut self, id: Option<ControlId>, result: Result<ControlOutcome, ControlError>) {
        if let Some(id) = id {
            self.ports.effects.push(Effect::ControlDone { id, result });
        }
    }

    /// The origin of a disk that comes under write-back has been flushed, or could not be.
    pub(crate) fn enter_flush_done(&mut self, disk: DiskSlot, result: Result<(), IoError>) {
        let now = self.ports.now;
        self.disk_stats(disk).origin_errors += u64::from(result.is_err());
        if let Some(change) = self
            .backs
            .get_mut(disk)
            .and_then(|back| back.change.as_mut())
            && change.step == Step::Flushing
        {
            change.step = match result {
                Ok(()) => Step::Flushed,
                Err(_) => Step::FlushAt(now + RETRY_PAUSE_MIN),
            };
        }
        self.ports.stir(disk);
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
                self.ports.stir(disk);
            }
        }
    }
}

enum Next {
    Wait,
    Step(Step),
    Done,
    Failed(ControlError),
}

/// Why a disk cannot be under write-back, if so.
pub(crate) fn unfit(disk: &crate::cache::Disk) -> Option<ControlError> {
    if !disk.size.is_multiple_of(units::BLOCK_BYTES) {
        Some(ControlError::UnalignedSize)
    } else if disk.read_only || disk.views.is_some() {
        Some(ControlError::NoWriteBack)
    } else {
        None
    }
}
