//! The disks under write-back, by slot.

use super::{Back, Backs, Phase};
use crate::loan::{LoanId, RecordsAsked};
use crate::ports::Ports;
use crate::write_back::Follower;
use dirty_log::{DirtyLog, RecordNumber};
use units::{DiskSlot, Duration, Instant};

impl Backs {
    #[inline]
    pub(crate) fn get(&self, disk: DiskSlot) -> Option<&Back> {
        self.of.get(disk.index())?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, disk: DiskSlot) -> Option<&mut Back> {
        self.of.get_mut(disk.index())?.as_deref_mut()
    }

    pub(crate) fn take(&mut self, disk: DiskSlot) -> Option<Box<Back>> {
        self.of.get_mut(disk.index())?.take()
    }

    pub(crate) fn set(&mut self, disk: DiskSlot, back: Box<Back>) {
        if self.of.len() <= disk.index() {
            self.of.resize_with(disk.index() + 1, || None);
        }
        self.of[disk.index()] = Some(back);
    }

    /// A guest of a disk under write-back asks for something.
    #[inline]
    pub(crate) fn asked(&mut self, disk: DiskSlot, now: Instant) {
        if let Some(back) = self.get_mut(disk) {
            back.asked_at = now;
        }
    }

    /// A guest's read of the origin took so long.
    pub(crate) fn read_took(&mut self, disk: DiskSlot, time: Duration) {
        if let Some(back) = self.get_mut(disk) {
            back.destage.read_took(time);
        }
    }

    /// A guest's read of the flash took so long.
    #[inline]
    pub(crate) fn flash_took(&mut self, time: Duration) {
        if self.of.is_empty() {
            return;
        }
        let mut backs = self.of.iter().flatten();
        let disturbed = || backs.any(|back| back.destage.is_busy());
        self.flash_reads.took(time, disturbed);
    }

    /// A number that was not given out before.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether this holds for one of them.
    pub(crate) fn any(&self, holds: impl FnMut(&Back) -> bool) -> bool {
        self.of.iter().flatten().map(AsRef::as_ref).any(holds)
    }

    /// Whether a disk's writes go to its log.
    #[inline]
    pub(crate) fn has(&self, disk: DiskSlot) -> bool {
        self.get(disk).is_some()
    }

    /// Whether records of another host come for a disk.
    pub(crate) fn keeps(&self, disk: DiskSlot) -> bool {
        self.arrivals.has(disk)
    }

    /// Schedules the disks whose writes wait: what they wait for may have happened.
    pub(crate) fn schedule_waiting(&self, ports: &mut Ports) {
        for disk in self.arrivals.slots() {
            ports.schedule(disk);
        }
        for disk in self.slots() {
            if self.get(disk).is_some_and(Back::waits) {
                ports.schedule(disk);
            }
        }
    }

    /// Schedules all of them.
    pub(crate) fn schedule_all(&self, ports: &mut Ports) {
        for disk in self.slots() {
            ports.schedule(disk);
        }
    }

    /// A disk that was about to be detached stays.
    pub(crate) fn stay(&mut self, ports: &mut Ports, disk: DiskSlot) {
        if let Some(back) = self.get_mut(disk)
            && back.phase == Phase::Closing
            && back.change.is_none()
        {
            back.go_on(ports.attended());
        }
        ports.schedule(disk);
    }

    /// Every disk that is.
    pub(crate) fn slots(&self) -> Vec<DiskSlot> {
        let backs = self.of.iter().zip((0..).map(DiskSlot::new));
        let backs = backs.filter(|(back, _)| back.is_some());
        backs.map(|(_, disk)| disk).collect()
    }

    /// Somebody follows a disk's log, whose next record gets this number. A question that waited for the former one is
    /// given back.
    pub(crate) fn follow(
        &mut self,
        disk: DiskSlot,
        follower: Follower,
        end: RecordNumber,
        now: Instant,
    ) -> Option<(LoanId, RecordsAsked)> {
        self.get_mut(disk)?.follows.begin(follower, end, now)
    }

    /// Ends what was not named again in time. A question that waited for records is given back.
    pub(crate) fn end_following(
        &mut self,
        disk: DiskSlot,
        now: Instant,
    ) -> Option<(LoanId, RecordsAsked)> {
        self.get_mut(disk)?.follows.end_if_late(now)
    }

    /// The host that follows a disk's log asks for records. True if its question waits until there is something for it.
    pub(crate) fn park(
        &mut self,
        disk: DiskSlot,
        question: (LoanId, RecordsAsked),
        log: Option<&DirtyLog>,
        now: Instant,
    ) -> bool {
        let (Some(back), Some(log)) = (self.get_mut(disk), log) else {
            return false;
        };
        let (flush, may_wait) = (back.flush_waits_for(), back.keeps_questions());
        back.follows.asked(question, log);
        may_wait && back.follows.park(question, log, flush, now)
    }

    /// The question that waited for records of a disk, if it is to be answered now.
    pub(crate) fn take_due_question(
        &mut self,
        disk: DiskSlot,
        log: Option<&DirtyLog>,
        now: Instant,
    ) -> Option<(LoanId, RecordsAsked)> {
        let back = self.get_mut(disk)?;
        let log = log.filter(|_| back.keeps_questions());
        let flush = back.flush_waits_for();
        back.follows.take_due(log, flush, now)
    }
}
