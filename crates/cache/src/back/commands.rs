//! What the operator asks about write-back.

use super::credit::Credit;
use super::switch::{Change, Changes, To};
use super::{Back, Phase};
use crate::api::{ControlError, ControlId, ControlOutcome, Effect, WritePolicy};
use crate::guard::{Guard, holds};
use crate::purpose::FlushPurpose;
use crate::write_back::{OfDirty, WriteBack};
use block_store::DirtyDisk;
use dirty_log::RecordNumber;
use units::DiskSlot;

impl Changes<'_> {
    /// What writes do from now on, if it takes longer than a moment. None if it is done, or wrong.
    pub(crate) fn set_policy(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        policy: WritePolicy,
    ) -> Option<Result<(), ControlError>> {
        let Some(served) = self.disks.get_mut(disk) else {
            return Some(Err(ControlError::NotAttached));
        };
        let (now, since) = (self.ports.now(), self.ports.attended());
        let returns = self.backs.returns(disk);
        let is_in_use = self.flash.is_in_use();
        match (self.backs.get_mut(disk), policy) {
            (Some(back), _)
                if back.is_changing() || back.is_held() || (is_in_use && back.is_bypassed()) =>
            {
                return Some(Err(ControlError::Busy));
            }
            (Some(back), WritePolicy::Back) if back.is_leaving() => {
                // It leaves by itself, and would only change the policy afterwards.
                return Some(Err(ControlError::Busy));
            }
            (Some(back), policy) if policy != WritePolicy::Back => {
                back.change = Some(Change::new(Some(id), To::Origin(policy), since));
                back.phase = Phase::Leaving;
                back.credit = Credit::default();
            }
            // It comes back by itself.
            (None, WritePolicy::Back) if returns => return Some(Ok(())),
            (None, WritePolicy::Back) if is_in_use => {
                if let Some(error) = served.why_not_back() {
                    return Some(Err(error));
                }
                if self.host_record.is_in_doubt() && holds(Guard::OpenRecordInTime) {
                    return Some(Err(ControlError::FlashLate));
                }
                let (settings, epoch) = (served.write_back, served.epoch);
                let number = self.backs.number();
                let back = Back::entering(settings, epoch, number, now);
                self.backs
                    .set(disk, Box::new(back.on_its_way(Some(id), since)));
            }
            (None | Some(_), WritePolicy::Back) => {
                served.policy = policy;
                return Some(Ok(()));
            }
            (None | Some(_), policy) => {
                served.policy = policy;
                self.backs.stay_through(disk);
                return Some(Ok(()));
            }
        }
        self.ports.schedule(disk);
        None
    }

    pub(crate) fn set_write_back(
        &mut self,
        disk: DiskSlot,
        write_back: WriteBack,
    ) -> Result<(), ControlError> {
        let served = self.disks.get_mut(disk);
        served.ok_or(ControlError::NotAttached)?.write_back = write_back;
        if let Some(back) = self.backs.get_mut(disk) {
            back.settings = write_back;
        }
        self.ports.schedule(disk);
        Ok(())
    }

    /// Brings everything so far to the origin. None if that takes longer than a moment.
    pub(crate) fn demand_destage(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
    ) -> Option<Result<(), ControlError>> {
        if self.disks.get(disk).is_none() {
            return Some(Err(ControlError::NotAttached));
        }
        let goes_through =
            |back: &Back| back.entry.is_some() && self.flash.dirty_bytes(disk).is_zero();
        let dirty = self.flash.log_of(disk);
        let end = dirty.map_or(RecordNumber::FIRST, |dirty| dirty.log().end());
        let has_all = dirty.is_none_or(|dirty| dirty.log().is_empty() && dirty.released() >= end);
        if self.backs.get(disk).is_none_or(goes_through) || has_all {
            // What went past the log is written to the origin, but durable there only when a guest
            // flushes.
            let since = self.flash.flush_mark(self.ports, disk);
            self.ports
                .flush_origin(disk, since, FlushPurpose::Demand { id });
            return None;
        }
        if let Some(reason) = dirty.and_then(DirtyDisk::locked) {
            return Some(Err(ControlError::Locked(reason)));
        }
        let back = self.backs.get_mut(disk)?;
        if back.is_held() {
            return Some(Err(ControlError::Busy));
        }
        back.destage.demand_to(end);
        back.demands.push((end, id));
        self.ports.schedule(disk);
        None
    }

    /// Detaches a disk under write-back.
    ///
    /// # Errors
    /// [`ControlError`] if it is refused at once.
    pub(crate) fn detach(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        fingerprint: Option<u128>,
        dirty: OfDirty,
    ) -> Result<(), ControlError> {
        let bytes = self.flash.dirty_bytes(disk);
        if dirty == OfDirty::Refuse && !bytes.is_zero() && holds(Guard::DetachRefusesDirty) {
            return Err(ControlError::Dirty { bytes });
        }
        let reason = self
            .flash
            .with_logs()
            .and_then(|flash| flash.dirty_logs().get(disk)?.locked());
        if let (Some(reason), OfDirty::Refuse | OfDirty::Flush) = (reason, dirty) {
            return Err(ControlError::Locked(reason));
        }
        let Some(back) = self.backs.get_mut(disk) else {
            return Err(ControlError::NotAttached);
        };
        if back.is_changing() {
            return Err(ControlError::Busy);
        }
        let destage = &back.destage;
        let latest_batch = destage.is_idle().then(|| destage.latest_batch());
        let to = To::Detached {
            fingerprint,
            latest_batch,
            dirty,
        };
        back.change = Some(Change::new(Some(id), to, self.ports.attended()));
        back.phase = Phase::Closing;
        if dirty == OfDirty::Keep {
            // Another host may have the origin next: no batch is begun any more for who waits for all of it.
            back.fail_demands(self.ports, ControlError::Busy);
            if let Some(flash) = self.flash.as_mut() {
                flash.write_back().flush_log(&mut self.ports.store, disk);
            }
        }
        self.ports.schedule(disk);
        Ok(())
    }

    pub(super) fn end_demands(&mut self, disk: DiskSlot, back: &mut Back) {
        if back.demands.is_empty() {
            return;
        }
        let dirty = self.flash.log_of(disk);
        // Known durably, or a crash could bring back what was there before.
        let base = match self.flash.as_ref() {
            Some(_) => dirty.map_or(RecordNumber::BEHIND_ALL, DirtyDisk::released),
            // They are answered when the record is closed.
            None => dirty.map_or(RecordNumber::BEHIND_ALL, |_| RecordNumber::FIRST),
        };
        let locked = dirty.and_then(DirtyDisk::locked);
        // Of an ordered disk the origin alone is a disk from then on.
        let unordered = dirty.is_some_and(|dirty| back.returns_to_order(dirty.log()));
        let at_origin = dirty.map_or(RecordNumber::BEHIND_ALL, |dirty| dirty.log().base());
        let ports = &mut *self.ports;
        back.demands.retain(|(number, id)| {
            let result = match locked {
                _ if *number <= base && !unordered => Ok(ControlOutcome::Done),
                Some(reason) => Err(ControlError::Locked(reason)),
                None => return true,
            };
            ports.push(Effect::ControlDone { id: *id, result });
            false
        });
        // A commit for each interval would be one page of flash for each.
        let waits_for_commit = |(number, _): &(RecordNumber, ControlId)| *number <= at_origin;
        if let Some(flash) = self.flash.as_mut()
            && back.demands.iter().any(waits_for_commit)
        {
            flash.journal_mut().hurry();
        }
    }
}
