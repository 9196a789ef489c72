//! The steps of each way into write-back and out of it.

use super::switch::{Changes, Next, Step, To};
use super::{Back, Entry, Phase};
use crate::api::{ControlError, OwnerRecord};
use crate::guard::{Guard, holds};
use crate::purpose::FlushPurpose;
use crate::write_back::OfDirty;
use block_store::{DirtyDisk, Ticket};
use units::DiskSlot;

impl Changes<'_> {
    pub(super) fn enter_step(&mut self, disk: DiskSlot, back: &mut Back, step: Step) -> Next {
        let now = self.ports.now();
        let waits = holds(Guard::SwitchWaits);
        let opens_record = back.entry != Some(Entry::Attached);
        match step {
            Step::Begun if self.writes.any_of(disk) && waits => Next::Wait,
            Step::FlushAt(at) if now < at => {
                self.ports.wake_at(at);
                Next::Wait
            }
            Step::Begun | Step::FlushAt(_) if waits => {
                let number = self.backs.number();
                let since = self.flash.flush_mark(self.ports, disk);
                self.ports
                    .flush_origin(disk, since, FlushPurpose::Enter { number });
                Next::Step(Step::Flushing(number))
            }
            Step::Begun | Step::FlushAt(_) => Next::Step(Step::Flushed),
            Step::Flushed if opens_record => self.own(disk, back, true),
            // Else the record is open since before the disk was attached.
            Step::Flushed | Step::Owned => Next::Done,
            Step::Owning(_) if !holds(Guard::RecordOpenBeforeWrite) => Next::Done,
            Step::Flushing(_) | Step::Journaling(_) | Step::Owning(_) | Step::Leaves => Next::Wait,
            Step::OwnAt(at) if back.entry == Some(Entry::Stays) => {
                if now < at {
                    self.ports.wake_at(at);
                    return Next::Wait;
                }
                self.own(disk, back, true)
            }
            Step::OwnAt(_) => Next::Failed(ControlError::NotRecorded),
        }
    }

    /// Before a record is closed it has to be durable what the log has made of the cache: a log of a
    /// closed record counts no longer, so it could not tell which clean copies are older than the
    /// origin, nor, once the record is open again, that the origin has all of it.
    fn begin_to_close(&mut self) -> Step {
        let known = self.flash.as_mut().map_or(Ticket::default(), |flash| {
            flash.journal_mut().hurry();
            flash.journal().last()
        });
        Step::Journaling(known)
    }

    fn close_when_known(&mut self, disk: DiskSlot, back: &Back, known: Ticket) -> Next {
        let flash = self.flash.as_ref();
        let is_known = flash.is_none_or(|flash| flash.journal().is_durable(known));
        if is_known || self.host_record.lets_pass() || !holds(Guard::KnownBeforeClosed) {
            self.own(disk, back, false)
        } else {
            Next::Wait
        }
    }

    /// Asks for the owner's record to be written.
    fn own(&mut self, disk: DiskSlot, back: &Back, open: bool) -> Next {
        let Some(id) = self.disks.id_of(disk) else {
            return Next::Wait;
        };
        // A record that is closed lets a later life believe the clean blocks of a flash that is over.
        if !open && self.host_record.holds_logs_back(self.flash, self.ports) {
            return Next::Wait;
        }
        let cache = self
            .flash
            .with_logs()
            .map_or(0, |flash| flash.facts().uuid());
        let record = OwnerRecord {
            epoch: back.epoch,
            cache,
            open,
        };
        let token = self.ports.own(disk, id, record);
        Next::Step(Step::Owning(token))
    }

    /// A disk leaves write-back.
    pub(super) fn leave_step(&mut self, disk: DiskSlot, back: &mut Back, step: Step) -> Next {
        let now = self.ports.now();
        match step {
            Step::Begun | Step::Leaves => {
                let dirty = self.flash.log_of(disk);
                if let Some(reason) = dirty.and_then(DirtyDisk::locked) {
                    return Next::Failed(ControlError::Locked(reason));
                }
                let empty = dirty.is_none_or(|dirty| dirty.log().is_empty());
                let arrived = empty || !holds(Guard::EmptyBeforeClosed);
                let passes = self.host_record.lets_pass();
                if !arrived && step == Step::Begun && passes && back.is_held_up(now) {
                    return Next::Step(Step::Leaves);
                }
                if !arrived || !back.destage.is_idle() {
                    return Next::Wait;
                }
                back.phase = Phase::Closing;
                if !holds(Guard::RecordClosedBeforeBypass) {
                    return Next::Done;
                }
                Next::Step(self.begin_to_close())
            }
            Step::Journaling(known) => self.close_when_known(disk, back, known),
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
    pub(super) fn part_step(
        &mut self,
        disk: DiskSlot,
        back: &mut Back,
        step: Step,
        of: OfDirty,
    ) -> Next {
        match step {
            Step::Begun
                if self.host_record.is_awaited(self.flash) && holds(Guard::RecordBeforeDetach) =>
            {
                Next::Failed(ControlError::RetirementOpen)
            }
            Step::Begun => {
                if !back.destage.is_idle() {
                    return Next::Wait;
                }
                let dirty = self.flash.log_of(disk);
                let empty = dirty.is_none_or(|dirty| dirty.log().is_empty());
                let durable = dirty.is_none_or(|dirty| !dirty.wants_durability());
                let locked = dirty.and_then(DirtyDisk::locked);
                if let (false, OfDirty::Refuse | OfDirty::Flush, Some(reason)) = (empty, of, locked)
                {
                    return Next::Failed(ControlError::Locked(reason));
                }
                match of {
                    OfDirty::Keep if !durable && self.flash.is_in_use() => return Next::Wait,
                    // The record stays open: they are its reason.
                    OfDirty::Keep if !empty => return Next::Done,
                    OfDirty::Drop => {
                        // What they wait for is not brought to the origin any more.
                        back.fail_demands(self.ports, ControlError::Busy);
                        if !holds(Guard::ClosedBeforeDropped) {
                            self.drop_log(disk);
                        }
                    }
                    OfDirty::Refuse if !holds(Guard::DetachRefusesDirty) => {}
                    OfDirty::Refuse | OfDirty::Flush
                        if !empty && holds(Guard::EmptyBeforeClosed) =>
                    {
                        return Next::Wait;
                    }
                    OfDirty::Keep | OfDirty::Refuse | OfDirty::Flush => {}
                }
                Next::Step(self.begin_to_close())
            }
            Step::Journaling(known) => self.close_when_known(disk, back, known),
            Step::OwnAt(_) => Next::Failed(ControlError::NotRecorded),
            Step::Owned => {
                // Not before: if it cannot be recorded, the disk stays, and with it what waits.
                if of == OfDirty::Drop {
                    self.drop_log(disk);
                }
                Next::Done
            }
            _ => Next::Wait,
        }
    }

    /// Throws away what the origin lacks.
    fn drop_log(&mut self, disk: DiskSlot) {
        if let Some(flash) = self.flash.as_mut() {
            flash.write_back().void_log(&mut self.ports.store, disk);
            flash.journal_mut().hurry();
        } else if let Some(failed) = self.flash.failed_mut() {
            failed.write_back().end_log(disk);
        }
    }
}
