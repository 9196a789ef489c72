//! Other hosts that follow the logs of dirty disks: what they ask waits until there are records.

use super::State;
use crate::loan::{LoanId, LoanRequest, RecordsAsked};
use crate::write_back::Follower;
use block_store::DirtyDisk;
use dirty_log::{DirtyLog, RecordNumber};
use units::DiskSlot;

impl State {
    /// Whether a question for records waits until there are some, since who asks follows the disk's log.
    pub(super) fn parks(&mut self, id: LoanId, request: LoanRequest) -> bool {
        let LoanRequest::Records(asked) = request else {
            return false;
        };
        let flash = self.flash.as_ref();
        let Some(disk) = flash.and_then(|flash| flash.facts().slot_of(asked.disk)) else {
            return false;
        };
        // A flush may wait for what the question says is kept.
        self.ports.schedule(disk);
        let (log, now) = (self.flash.log_of(disk), self.ports.now());
        let log = log.map(DirtyDisk::log);
        self.backs.park(disk, (id, asked), log, now)
    }

    /// Answers a question for records that has waited, if it is time to.
    pub(super) fn answer_question(&mut self, disk: DiskSlot) {
        let (log, now) = (self.flash.log_of(disk), self.ports.now());
        let log = log.map(DirtyDisk::log);
        let question = self.backs.take_due_question(disk, log, now);
        self.answer(question);
    }

    /// Somebody follows the log of a disk, if it is under write-back.
    pub(super) fn follow(&mut self, disk: DiskSlot, follower: Follower) {
        let log = self.flash.log_of(disk).map(DirtyDisk::log);
        let end = log.map_or(RecordNumber::FIRST, DirtyLog::end);
        let question = self.backs.follow(disk, follower, end, self.ports.now());
        self.answer(question);
        self.ports.schedule(disk);
    }

    /// Nobody follows a log who was not named again.
    pub(super) fn end_following(&mut self, disk: DiskSlot) {
        let question = self.backs.end_following(disk, self.ports.now());
        self.answer(question);
    }

    fn answer(&mut self, question: Option<(LoanId, RecordsAsked)>) {
        if let Some((id, asked)) = question {
            self.lending().lend(id, LoanRequest::Records(asked));
        }
    }
}
