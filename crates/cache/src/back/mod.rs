//! Guests' writes under [`crate::WritePolicy::Back`]: accepted into the disk's dirty log, answered,
//! and brought to the origin later (`destage`).
//!
//! ```text
//!  write ─► queue ─► merged, if it is a part of a block ─► log ─┬─► answered
//!             │ waits for room, and for a write before it       └─► with FUA, when it is durable
//!             │ to the same block
//!  flush ─────┴─► everything that was answered is durable on flash ─► answered
//! ```
//!
//! Writes that wait for room keep their order; none overtakes another to the same block. One that has
//! waited for too long is an error, since a guest has to hear at last that its origin does not take
//! what it writes.

mod accept;
mod arriving;
mod backs;
mod commands;
mod credit;
mod following;
mod held;
mod late;
mod merge;
mod steps;
mod switch;
mod transfer;

pub(crate) use switch::{Changes, Over};
pub(crate) use transfer::{Destager, destage_state};

use crate::RequestId;
use crate::admitter::Admission;
use crate::api::{ControlError, Effect};
use crate::disks::Disks;
use crate::fills::Fills;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::limits::TICK_MAX;
use crate::loan::NotLent;
use crate::ports::Ports;
use crate::request::Asked;
use crate::write_back::{DestageOrder, WriteBack};
use accept::Waiting;
use arriving::Arrivals;
use block_io::IoError;
use block_store::DirtyDisk;
use credit::Credit;
use destage::{BatchId, Destage, SampledReads};
use dirty_log::{DirtyLog, RecordNumber};
use following::Follows;
use held::Held;
use std::collections::VecDeque;
use switch::Change;
use units::{DiskSlot, Instant};

/// What writes do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// They wait: what went through to the origin before may not be durable there.
    Entering,
    /// They are accepted.
    Open,
    /// They are accepted half as fast as the log gets shorter, and at last they wait.
    Leaving,
    /// They wait until it is recorded that the origin has everything.
    Closing,
    /// They fail: the log cannot be brought to the origin.
    Locked,
}

/// How a disk comes under write-back. Until it has, its origin may not have durably what went through
/// before. It keeps this while it waits to leave, so that a flush covers it, and has it again if it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// It was attached, and its record is open.
    Attached,
    /// It was written through until then: its record is to be opened.
    Switched,
    /// It was to leave, and its closed record could not be made, or nobody knows whether it was: its record
    /// is to be opened again, however often that fails.
    Stays,
}

/// A request that is answered when everything before a number of the log is durable.
#[derive(Debug)]
struct Answer {
    before: RecordNumber,
    request: RequestId,
    asked: Asked,
    since: Instant,
    /// Whether it waits for who follows the log, too.
    is_followed: bool,
}

/// A disk under write-back.
#[derive(Debug)]
pub(crate) struct Back {
    settings: WriteBack,
    phase: Phase,
    /// What is left of coming under write-back.
    entry: Option<Entry>,
    /// The period in which the disk is attached.
    epoch: u64,
    /// Writes that are not accepted yet, in their order.
    queue: VecDeque<Waiting>,
    waiting_next: u64,
    /// Flushes and writes with FUA, in the order in which they were asked for.
    answers: VecDeque<Answer>,
    destage: Destage,
    /// The policy or the disk's end that it is on its way to.
    change: Option<Change>,
    /// Commands that wait until everything before a number is at the origin.
    demands: Vec<(RecordNumber, crate::ControlId)>,
    /// Who lets nothing go to the origin.
    held: Held,
    /// Who follows the log while the disk is about to move.
    follows: Follows,
    /// The disk is being detached, and what stays on flash stays there.
    parted: bool,
    /// When the guest asked for something last.
    asked_at: Instant,
    /// Bytes that may be accepted while it is left.
    credit: Credit,
}

impl Back {
    /// `number` is one that nothing else has: what an earlier state of the disk has asked for must not
    /// pass for what this one asks for.
    fn new(settings: WriteBack, epoch: u64, number: u64, now: Instant, entry: Entry) -> Self {
        Self {
            settings,
            phase: Phase::Entering,
            entry: Some(entry),
            epoch,
            queue: VecDeque::new(),
            waiting_next: number << 32,
            answers: VecDeque::new(),
            destage: Destage::new(BatchId::new(number << 32), now),
            change: None,
            demands: Vec::new(),
            held: Held::default(),
            follows: Follows::default(),
            parted: false,
            asked_at: now,
            credit: Credit::default(),
        }
    }

    /// Whether guests' writes wait to be accepted, for room most of the time.
    fn has_waiting_writes(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a guest waits for it, or a command for the origin to have everything.
    pub(crate) fn is_waited_for(&self) -> bool {
        !(self.queue.is_empty() && self.answers.is_empty() && self.demands.is_empty())
    }

    /// Whether anybody waits for it, or it is on its way to something.
    pub(crate) fn waits(&self) -> bool {
        self.is_waited_for() || self.change.is_some()
    }

    /// Whether its log is brought to the origin in its order: not while something of it was settled
    /// before what is older.
    fn goes_in_order(&self, log: &DirtyLog) -> bool {
        let whole = log.holes_end() == log.base() || !holds(Guard::HolesBeforeOrder);
        self.settings.order == DestageOrder::Ordered && whole
    }

    /// Whether it should go in its order, and cannot yet: what is older than something that was settled
    /// has to be brought first, or is on its way.
    fn returns_to_order(&self, log: &DirtyLog) -> bool {
        let has_holes = !self.goes_in_order(log) || self.destage.is_out_of_order();
        self.settings.order == DestageOrder::Ordered && has_holes && holds(Guard::OrderBeforeDone)
    }

    /// Whether somebody waits for everything so far to be at the origin.
    fn has_demands(&self) -> bool {
        !self.demands.is_empty()
    }

    /// A flush of the origin has failed, and may have lost what the origin had of the log.
    pub(crate) fn origin_has_lost(&mut self, error: IoError) {
        self.destage.origin_has_lost(error);
    }

    /// Nobody brings the log to the origin for those who wait for that: they are told why.
    fn fail_demands(&mut self, ports: &mut Ports, error: ControlError) {
        self.destage.drop_demand();
        for (_, id) in std::mem::take(&mut self.demands) {
            let result = Err(error);
            ports.push(Effect::ControlDone { id, result });
        }
    }

    /// Everything before this number waits to be durable, and with who follows, for a guest's flush.
    fn flush_waits_for(&self) -> Option<RecordNumber> {
        self.answers.back().map(|answer| answer.before)
    }

    /// Before which number the origin should have everything now, since it follows.
    fn origin_wants(&self, log: &DirtyLog) -> RecordNumber {
        self.follows.wants_at_origin(log, self.flush_waits_for())
    }

    /// Whether a question of the other host that finds nothing may wait: not while all is about to be handed over.
    fn keeps_questions(&self) -> bool {
        self.phase == Phase::Open && !self.is_held()
    }

    /// When to look again at what waits for who follows.
    fn follow_dues(&self) -> impl Iterator<Item = Instant> {
        let flush = self.answers.front().map(|answer| answer.since);
        let write = self.queue.front().map(|waiting| waiting.since);
        self.follows.dues([flush, write])
    }

    /// When the guest asked for something last.
    fn asked_at(&self) -> Instant {
        self.asked_at
    }
}

/// Disks under write-back, by slot.
#[derive(Debug, Default)]
pub(crate) struct Backs {
    of: Vec<Option<Box<Back>>>,
    numbers: u64,
    /// Those that are bypassed since the flash was late, and when each may come back.
    returning: Vec<(DiskSlot, Instant)>,
    /// Logs of disks that other hosts have.
    arrivals: Arrivals,
    /// Guests' reads of the flash, of any disk.
    flash_reads: SampledReads,
}

/// The parts of a cache that guests' requests under write-back have to do with.
pub(crate) struct BackRequests<'a> {
    backs: &'a mut Backs,
    fills: &'a mut Fills,
    admission: &'a mut Admission,
    flash: &'a mut FlashUse,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

impl<'a> BackRequests<'a> {
    /// For one event.
    pub(crate) fn new(
        backs: &'a mut Backs,
        fills: &'a mut Fills,
        admission: &'a mut Admission,
        flash: &'a mut FlashUse,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            backs,
            fills,
            admission,
            flash,
            disks,
            ports,
        }
    }

    /// Accepts and answers of a disk what can be accepted and answered.
    pub(crate) fn advance(&mut self, disk: DiskSlot) {
        if let Some(flash) = self.flash.as_mut() {
            flash
                .write_back()
                .push_durability(&mut self.ports.store, disk);
        }
        self.accept_waiting(disk);
        self.answer_durable(disk);
    }

    /// A flush of a guest. False if it goes to the origin, as without a log.
    pub(crate) fn flush(&mut self, request: RequestId, disk: DiskSlot) -> bool {
        let Some(back) = self.backs.get(disk) else {
            return false;
        };
        // What this life has acknowledged went through to the origin, but the log that a recovery has
        // found may not be durable.
        let covers_log =
            !self.flash.dirty_bytes(disk).is_zero() && holds(Guard::EnteringFlushWaitsForLog);
        if back.entry.is_some() && !covers_log {
            return false;
        }
        if self.disks.tells_of_failed_flush(disk) {
            self.disks
                .reply(self.ports, disk, request, Err(IoError::Failed));
            return true;
        }
        let number = self.log_end_for_flush(disk);
        self.answer_when_durable(disk, number, (request, Asked::Flush), true);
        self.ports.schedule(disk);
        true
    }

    /// Answers a request when what the disk has in its log is durable, and tells nobody of a failed flush. False if
    /// the log has nothing.
    pub(crate) fn when_durable(&mut self, request: RequestId, disk: DiskSlot) -> bool {
        let has_log = self.backs.has(disk) && !self.flash.dirty_bytes(disk).is_zero();
        if has_log && holds(Guard::DurableBeforePeerReads) {
            let number = self.log_end_for_flush(disk);
            self.answer_when_durable(disk, number, (request, Asked::DurableWrite), false);
            self.ports.schedule(disk);
            return true;
        }
        false
    }

    /// Ends the interval, and asks for everything so far to become durable.
    fn log_end_for_flush(&mut self, disk: DiskSlot) -> RecordNumber {
        if let Some(flash) = self.flash.as_mut() {
            return flash.write_back().flush_log(&mut self.ports.store, disk);
        }
        // Nothing becomes durable on it any more: the origin has to have it, and be flushed.
        let dirty = self
            .flash
            .failed()
            .and_then(|flash| flash.dirty_logs().get(disk));
        let dirty = dirty.filter(|dirty| !dirty.log().is_empty());
        dirty.map_or(RecordNumber::BEHIND_ALL, |dirty| dirty.log().end())
    }

    fn answer_when_durable(
        &mut self,
        disk: DiskSlot,
        before: RecordNumber,
        (request, asked): (RequestId, Asked),
        is_followed: bool,
    ) {
        if !holds(Guard::AppendBeforeAnswer) {
            self.disks.reply(self.ports, disk, request, Ok(()));
        } else if let Some(back) = self.backs.get_mut(disk) {
            back.answers.push_back(Answer {
                before,
                request,
                asked,
                since: self.ports.now(),
                is_followed,
            });
        }
    }

    fn answer_durable(&mut self, disk: DiskSlot) {
        let dirty = self.flash.log_of(disk);
        // What was durable before the flash failed is not lost by what has happened since. What the origin
        // has beyond that counts when the record is closed: until then a crash goes back to what is on flash.
        let all = if self.flash.is_in_use() {
            RecordNumber::BEHIND_ALL
        } else {
            RecordNumber::FIRST
        };
        let durable = dirty.map_or(all, DirtyDisk::durable);
        let log = dirty.filter(|_| self.flash.is_in_use());
        let (log, now) = (log.map(DirtyDisk::log), self.ports.now());
        let Some(back) = self.backs.get_mut(disk) else {
            return;
        };
        let locked = back.phase == Phase::Locked;
        let (mut answered, mut at) = (Vec::new(), 0);
        while let Some(answer) = back.answers.get(at)
            && (answer.before <= durable || locked)
        {
            let (before, since) = (answer.before, answer.since);
            let waits = answer.is_followed && !locked;
            if waits && !back.follows.lets(before, since, now, log) {
                at += 1;
                continue;
            }
            let lost = before > durable;
            let result = if lost { Err(IoError::Failed) } else { Ok(()) };
            let answer = back.answers.remove(at);
            answered.extend(answer.map(|answer| (answer.request, result)));
        }
        for (request, result) in answered {
            self.disks.reply(self.ports, disk, request, result);
        }
    }

    /// Arranges for a look at the disk when something of it is due.
    pub(crate) fn wake(&mut self, disk: DiskSlot) {
        let now = self.ports.now();
        let oldest = self
            .flash
            .with_logs()
            .and_then(|flash| flash.dirty_logs().get(disk)?.log().oldest());
        let Some(back) = self.backs.get(disk) else {
            return;
        };
        let waiting = back.queue.front();
        let of_log = oldest.map(|oldest| back.settings.dues(oldest, back.asked_at));
        let dues = [
            Some(now + TICK_MAX),
            waiting.map(|waiting| waiting.since + back.settings.stall_max),
        ];
        let dues = dues.into_iter().flatten();
        let dues = dues.chain(back.follow_dues());
        let dues = dues.chain(of_log.into_iter().flatten());
        // What was due and waits for something else is looked at when that has happened.
        let dues = dues.filter(|due| *due > now);
        if let Some(due) = dues.min() {
            self.ports.wake_at(due);
        }
    }

    /// Time has passed: every disk under write-back is looked at.
    pub(crate) fn tick(&mut self) {
        let now = self.ports.now();
        for disk in self.backs.slots() {
            self.expire_waiting(disk, now);
            self.ports.schedule(disk);
        }
    }

    /// A disk is under write-back no longer, and nobody serves it any more.
    pub(crate) fn end(&mut self, disk: DiskSlot, error: IoError) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        for (span, _) in back.take_waiting(disk) {
            self.disks.reply(self.ports, disk, span.id, Err(error));
        }
        for answer in std::mem::take(&mut back.answers) {
            self.disks
                .reply(self.ports, disk, answer.request, Err(error));
        }
        if let Some(loan) = back.follows.take_question() {
            let result = Err(NotLent);
            self.ports.push(Effect::Lent { loan, result });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dirty_log::{Record, What};
    use flash_format::Position;
    use units::{BlockIndex, FlashSlot};

    fn back(order: DestageOrder) -> Back {
        let settings = WriteBack {
            order,
            ..WriteBack::default()
        };
        Back::attached(settings, 1, 1, Instant::ZERO)
    }

    #[test]
    fn an_ordered_disk_of_which_something_went_before_what_is_older_returns_to_order() {
        let mut log = DirtyLog::new(Position::START);
        for number in 0..3 {
            let record = Record {
                at: Position::of_page(1, number + 1),
                what: What::Data {
                    block: BlockIndex::new(number.into()),
                    slot: FlashSlot::new(number + 1),
                },
            };
            log.push(record, Instant::ZERO);
        }
        assert!(!back(DestageOrder::Ordered).returns_to_order(&log));
        log.settle_some(std::iter::once(RecordNumber::FIRST.advance(2)), |_, _| {});
        assert!(back(DestageOrder::Ordered).returns_to_order(&log));
        assert!(!back(DestageOrder::Unordered).returns_to_order(&log));
        // When all before it has arrived there is no hole.
        log.settle(log.end(), |_, _| {});
        assert!(!back(DestageOrder::Ordered).returns_to_order(&log));
    }
}
