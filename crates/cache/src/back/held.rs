//! Transfers to the origin that stand still while another host takes what is left.
//!
//! ```text
//!   held ─► nothing more is sent ─► what was on its way has ended ─► log durable, origin flushed ─► done
//! ```
//!
//! Invariant: while anybody holds a transfer nothing goes to the origin and nothing of the log is settled. Who asks for
//! that is refused, and no command waits for it: a disk of which a command is under way does not leave.

use super::Back;
use super::switch::Changes;
use crate::api::{ControlError, ControlId};
use crate::purpose::FlushPurpose;
use block_store::DirtyDisk;
use units::DiskSlot;

/// Who holds a transfer.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// A number for each: who has let go may be told late.
    numbers: Vec<u64>,
    /// Commands that wait until it stands still.
    waiting: Vec<ControlId>,
}

impl Held {
    /// Whether anybody holds it.
    pub(super) fn is_held(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Those who wait for it, who are told otherwise.
    pub(super) fn take_waiting(&mut self) -> Vec<ControlId> {
        std::mem::take(&mut self.waiting)
    }
}

impl Changes<'_> {
    /// Nothing more goes to the origin until this number is released. None if it takes longer than a moment until
    /// nothing is on its way.
    pub(crate) fn hold_destage(
        &mut self,
        id: ControlId,
        disk: DiskSlot,
        number: u64,
    ) -> Option<Result<(), ControlError>> {
        let Some(back) = self.backs.get_mut(disk) else {
            return Some(Err(ControlError::NoWriteBack));
        };
        if back.is_changing() || back.is_leaving() {
            return Some(Err(ControlError::Busy));
        }
        back.fail_demands(self.ports, ControlError::Busy);
        back.held.numbers.push(number);
        back.held.waiting.push(id);
        if let Some(flash) = self.flash.as_mut() {
            flash.write_back().flush_log(&mut self.ports.store, disk);
        }
        self.ports.schedule(disk);
        None
    }

    /// Who has held it under this number does so no longer.
    pub(crate) fn release_destage(&mut self, disk: DiskSlot, number: u64) {
        if let Some(back) = self.backs.get_mut(disk) {
            back.held.numbers.retain(|held| *held != number);
            self.ports.schedule(disk);
        }
    }

    /// Tells those who wait for it that the transfer stands still.
    pub(super) fn end_holds(&mut self, disk: DiskSlot, back: &mut Back) {
        if back.held.waiting.is_empty() {
            return;
        }
        let dirty = self.flash.log_of(disk);
        let error = if let Some(reason) = dirty.and_then(DirtyDisk::locked) {
            Some(ControlError::Locked(reason))
        } else if !self.flash.is_in_use() {
            Some(ControlError::NoWriteBack)
        } else {
            let failing = back.destage.failing();
            failing.map(|failing| ControlError::Origin(failing.error))
        };
        if let Some(error) = error {
            for id in back.held.take_waiting() {
                self.ports.command_ended(id, Some(Err(error)));
            }
            return;
        }
        let is_durable = dirty.is_none_or(|dirty| !dirty.wants_durability());
        if !is_durable || !back.destage.is_idle() {
            return;
        }
        // A write that has ended may still be on its way behind the origin's cache.
        for id in back.held.take_waiting() {
            let since = self.flash.flush_mark(self.ports, disk);
            self.ports
                .flush_origin(disk, since, FlushPurpose::Demand { id });
        }
    }
}
