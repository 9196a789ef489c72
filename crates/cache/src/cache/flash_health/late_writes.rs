//! Flash whose writes are late for a while: guests' writes do not wait for it, and it is taken back.
//!
//! ```text
//!            a write is late                 CALM_TIMEOUTS without a late one
//!   usual ──────────────────► late ────────────────────────────────────────────► returning
//!     ▲                        ▲ writes go on when the host has recorded that        │ writes wait for the
//!     │                        │ this incarnation is not to be believed             │ journal again
//!     │ recorded               └──────────────── a write is late ◄─────────────┐     │
//!     └──────────────────────────────────────────────────────────────── reinstating ◄┘ what they had not
//!                                                                         waited for is durable
//! ```
//!
//! A write waits for the journal only so that a crash cannot bring back the older copy of its block.
//! Once the host has recorded, outside the flash, that this incarnation is not to be believed after a
//! crash, nothing has to be waited for. The blocks leave the index at once as ever, so what is served
//! from flash is right at any moment; the entries that distrust their copies gather in the journal's
//! queue. When they are durable the host is asked to believe this incarnation again.
//!
//! A crash in between opens cold. A dirty log goes on until its guest has to wait for the flash: then
//! the disk does without until the flash is taken back (`back/late.rs`).
//!
//! Invariant: every entry that a write has not waited for is durable, or the host's record says that
//! this incarnation is not to be believed, or is about to say so before the write goes on.

use super::FlashHealth;
use crate::back::Back;
use crate::flash_use::patience;
use crate::guard::{Guard, holds};
use crate::limits::RETRY_PAUSE_MIN;

impl FlashHealth<'_> {
    /// Something that is written to flash takes too long: nobody waits for it from now on, or the flash
    /// is given up if somebody has to.
    pub(super) fn write_is_late(&mut self) {
        let (attended, patience) = (self.state.ports.attended(), patience(&self.state.config));
        let is_detaching = self
            .state
            .backs
            .any(|back| back.detaches_for(attended) >= patience);
        let Some(incarnation) = self
            .state
            .flash
            .as_ref()
            .map(|flash| flash.facts().incarnation())
        else {
            return;
        };
        if is_detaching || self.state.jobs.any_has_waited(attended, patience) {
            return self.fail("the flash took too long");
        }
        if self
            .state
            .host_record
            .write_is_late(&mut self.state.ports, incarnation)
        {
            self.state.through().let_waiting_pass();
            self.bypass_late_flash();
        }
    }

    /// No write of the flash is late now.
    pub(super) fn writes_are_in_time(&mut self) {
        if let Some(flash) = self.state.flash.as_mut()
            && self
                .state
                .host_record
                .writes_are_in_time(flash, &self.state.ports)
        {
            self.state.backs.keep_on_flash(&mut self.state.ports);
        }
    }

    /// Writes of the flash are late: disks whose guests wait for them go on without. The flash is given up
    /// if one cannot.
    pub(super) fn bypass_late_flash(&mut self) {
        if !self.state.host_record.lets_pass() {
            return;
        }
        for disk in self.state.backs.slots() {
            let is_locked = self
                .state
                .flash
                .log_of(disk)
                .is_some_and(|log| log.locked().is_some());
            // One that leaves may wait for the flash, too.
            self.state.ports.schedule(disk);
            let back = self.state.backs.get_mut(disk);
            let Some(back) = back.filter(|back| back.is_waited_for()) else {
                continue;
            };
            if is_locked {
                return self.fail("the flash took too long");
            }
            if back.may_be_bypassed() {
                back.bypass(self.state.ports.attended());
            }
        }
    }

    /// Disks that left since the flash was late come under write-back again, if it is in time.
    pub(in crate::cache) fn return_to_back(&mut self) {
        let is_late = self.state.host_record.is_in_doubt() && holds(Guard::OpenRecordInTime);
        if is_late || self.state.backs.none_returns() {
            return;
        }
        let (now, since) = (self.state.ports.now(), self.state.ports.attended());
        for disk in self.state.backs.take_returning(now) {
            let Some(served) = self.state.disks.get(disk) else {
                continue;
            };
            if self.state.jobs.has_one_about(disk) {
                self.state
                    .backs
                    .return_after(&mut self.state.ports, disk, RETRY_PAUSE_MIN);
                continue;
            }
            let number = self.state.backs.number();
            let back = Back::returning(served.write_back, served.epoch, number, since, now);
            self.state.backs.set(disk, Box::new(back));
            self.state.ports.schedule(disk);
        }
    }
}
