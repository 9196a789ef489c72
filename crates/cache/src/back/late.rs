//! A disk under write-back while writes of the flash are late (`late_writes.rs`): its guest does not
//! wait for them, and the disk comes back when the flash is in time.
//!
//! ```text
//!   open ──────────────────────► drains ─────────────────────────► leaves ───────► bypassed
//!     ▲   a guest waits, and       │   the origin has all that       all of the      │ writes go
//!     │   the host has recorded    │   the flash has durably         log, then the   │ through
//!     │   that this incarnation    │                                 record closed   │
//!     │   is not to be believed    │                                                 │
//!     ├────────────────────────────┘ no write is late                                │
//!     └──────────── writes that went through have ended, origin flushed, ────────────┘
//!                   record open                    the flash was taken back
//! ```
//!
//! A disk that drains can go on where it was: a crash would still find everything on flash.
//!
//! A disk that leaves sends to its origin what is not durable on flash, as if the flash had failed. Its guest's
//! flushes are answered after the owner's record is closed, not before. Entries in the journal settle the log on
//! flash. They are durable before the host believes the flash again, and only then is the record opened again. So
//! a log on flash that the origin has gone past never belongs to an open record.

use super::switch::{Change, Step, To};
use super::{Back, Backs, Phase};
use crate::api::ControlId;
use crate::ports::Ports;
use crate::write_back::WriteBack;
use units::{DiskSlot, Duration, Instant};

impl Back {
    /// Whether what late flash does not have durably goes to the origin, as long as it is late.
    pub(super) fn leaves_late_flash(&self) -> bool {
        let step = self.change.as_ref().map(|change| change.step);
        step == Some(Step::Leaves)
    }

    /// Whether the origin may have what late flash does not have durably, while the record is open.
    fn has_left_flash(&self) -> bool {
        let change = self.change.as_ref();
        change.is_some_and(|change| change.has_left_flash)
    }

    /// Whether nothing of its log is on its way to the origin, and nothing keeps it from that but the flash.
    pub(super) fn is_held_up(&self, now: Instant) -> bool {
        let is_held_up = self.destage.is_idle() || self.destage.ready().is_some();
        is_held_up && self.destage.rests_until(now).is_none()
    }

    /// Whether a guest waits for the flash, and the disk may do without. One that is entering waits for
    /// its origin, and is looked at again when its writes are accepted.
    pub(crate) fn may_be_bypassed(&self) -> bool {
        self.phase == Phase::Open && self.change.is_none() && self.is_waited_for()
    }

    /// Whether the disk is on its way to do without the flash.
    pub(super) fn is_bypassed(&self) -> bool {
        let to = self.change.as_ref().map(|change| change.to);
        to == Some(To::Bypass)
    }

    /// The disk is on its way to do without the flash from now on. Returns the command that would have it under
    /// write-back, if there is one.
    pub(crate) fn bypass(&mut self, since: Instant) -> Option<ControlId> {
        self.phase = Phase::Closing;
        if let Some(To::Origin(_)) = self.change.as_ref().map(|change| change.to) {
            // It is on its way there, and only when that is recorded.
            return None;
        }
        let before = self.change.replace(Change::new(None, To::Bypass, since));
        before.and_then(|change| change.id)
    }

    /// A disk comes under write-back by itself, from its first step on.
    pub(crate) fn returning(
        settings: WriteBack,
        epoch: u64,
        number: u64,
        since: Instant,
        now: Instant,
    ) -> Self {
        Self::entering(settings, epoch, number, now).on_its_way(None, since)
    }

    /// For how long a detach has waited for it at `attended`, the time of
    /// [`Ports::attended`](crate::ports::Ports::attended).
    pub(crate) fn detaches_for(&self, attended: Instant) -> Duration {
        let detach = |change: &&Change| matches!(change.to, To::Detached { .. });
        let change = self.change.as_ref().filter(detach);
        change.map_or(Duration::ZERO, |change| attended.since(change.since))
    }
}

impl Backs {
    /// Whether a disk comes under write-back again by itself.
    pub(super) fn returns(&self, disk: DiskSlot) -> bool {
        let mut returning = self.returning.iter();
        returning.any(|(returning, _)| *returning == disk)
    }

    /// Whether a disk does without flash whose writes are late, or were.
    pub(crate) fn does_without(&self, disk: DiskSlot) -> bool {
        self.returns(disk) || self.get(disk).is_some_and(Back::has_left_flash)
    }

    /// Whether no disk does.
    #[inline]
    pub(crate) fn none_returns(&self) -> bool {
        self.returning.is_empty()
    }

    /// A disk that would come under write-back again does not.
    pub(crate) fn stay_through(&mut self, disk: DiskSlot) {
        self.returning.retain(|(returning, _)| *returning != disk);
    }

    /// A disk comes under write-back again by itself, after a pause.
    pub(crate) fn return_after(&mut self, ports: &mut Ports, disk: DiskSlot, pause: Duration) {
        let at = ports.now() + pause;
        self.stay_through(disk);
        self.returning.push((disk, at));
        ports.wake_at(at);
    }

    /// The disks that may come under write-back again now.
    pub(crate) fn take_returning(&mut self, now: Instant) -> Vec<DiskSlot> {
        let due = self.returning.extract_if(.., |(_, at)| *at <= now);
        due.map(|(disk, _)| disk).collect()
    }

    /// No write of the flash is late: disks that were about to do without it stay.
    pub(crate) fn keep_on_flash(&mut self, ports: &mut Ports) {
        for disk in self.slots() {
            if let Some(back) = self.get_mut(disk)
                && let Some(Change {
                    to: To::Bypass,
                    step: Step::Begun,
                    ..
                }) = back.change
            {
                back.change = None;
                back.phase = Phase::Open;
                ports.schedule(disk);
            }
        }
    }

    /// No disk comes under write-back again.
    pub(crate) fn all_stay_through(&mut self) {
        self.returning.clear();
    }
}
