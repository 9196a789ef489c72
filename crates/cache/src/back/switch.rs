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

use super::{Back, Backs, Entry, Phase};
use crate::api::{ControlError, ControlId, ControlOutcome, Effect, RequestId, WritePolicy};
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::host_record::HostRecord;
use crate::limits::RETRY_PAUSE_MIN;
use crate::loan::LoanId;
use crate::ports::Ports;
use crate::request::{Asked, Span};
use crate::write_back::{OfDirty, WriteBack};
use crate::writes::{self, Writes};
use block_io::{IoError, Token};
use block_store::{DirtyDisk, Ticket};
use destage::BatchId;
use units::{DiskSlot, Duration, Instant};

/// What a disk under write-back is on its way to.
#[derive(Debug)]
pub(super) struct Change {
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
    /// Whether nothing may be sent to the origin.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_held() && holds(Guard::HeldStandsStill)
    }

    /// Lets what is on its way end, and forgets what has not been sent.
    pub(super) fn stand_still(&mut self) {
        if !self.destage.is_writing() && !self.destage.is_idle() {
            self.destage.begin_anew();
        }
    }

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
    pub(super) fn is_leaving(&self) -> bool {
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

    /// The disk is under write-back no longer.
    fn leave(&mut self, disk: DiskSlot) -> Over {
        let flushes = std::mem::take(&mut self.answers).into_iter();
        let demands = std::mem::take(&mut self.demands).into_iter();
        Over::Left {
            writes: self.take_waiting(disk),
            question: self.follows.take_question(),
            flushes: flushes
                .map(|answer| (answer.request, answer.asked))
                .collect(),
            demands: demands
                .map(|(_, id)| id)
                .chain(self.held.take_waiting())
                .collect(),
        }
    }

    /// Whether nothing may be brought to the origin: what is left stays, or is given up.
    pub(super) fn holds_still(&self) -> bool {
        let to = self.change.as_ref().map(|change| change.to);
        self.parted
            || self.is_held()
            || matches!(
                to,
                Some(To::Detached {
                    dirty: OfDirty::Keep | OfDirty::Drop,
                    ..
                })
            )
    }
}

/// The parts of a cache that the changes of a disk under write-back have to do with.
pub(crate) struct Changes<'a> {
    pub(super) backs: &'a mut Backs,
    pub(super) flash: &'a mut FlashUse,
    pub(super) disks: &'a mut Disks,
    pub(super) ports: &'a mut Ports,
    pub(super) host_record: &'a mut HostRecord,
    pub(super) writes: &'a Writes,
}

/// What a change leaves to do when it is over.
pub(crate) enum Over {
    /// The disk is under write-back no longer, since its origin has everything: the writes that wait go
    /// there. What went past the log is durable there when it is flushed.
    Left {
        writes: Vec<(Span, writes::Change)>,
        question: Option<LoanId>,
        flushes: Vec<(RequestId, Asked)>,
        demands: Vec<ControlId>,
    },
    /// The disk is to be detached, for this command.
    Detaches {
        id: ControlId,
        fingerprint: Option<u128>,
    },
}

impl<'a> Changes<'a> {
    /// For one event.
    pub(crate) fn new(
        backs: &'a mut Backs,
        flash: &'a mut FlashUse,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
        host_record: &'a mut HostRecord,
        writes: &'a Writes,
    ) -> Self {
        Self {
            backs,
            flash,
            disks,
            ports,
            host_record,
            writes,
        }
    }

    /// Goes as far as can be gone to where the disk is on its way. Returns what is left to do, if a change
    /// is over.
    pub(crate) fn advance(&mut self, disk: DiskSlot) -> Option<Over> {
        let mut back = self.backs.take(disk)?;
        self.end_demands(disk, &mut back);
        self.end_holds(disk, &mut back);
        self.fall_out(disk, &mut back);
        let mut over = None;
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
                Next::Done => over = self.end_change(disk, &mut back),
                Next::Failed(error) => over = self.fail_change(disk, &mut back, error),
            }
        }
        if !matches!(over, Some(Over::Left { .. })) {
            self.backs.set(disk, back);
        }
        over
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

    /// The change has come to its end.
    fn end_change(&mut self, disk: DiskSlot, back: &mut Back) -> Option<Over> {
        let Change { id, to, .. } = back.change.take()?;
        match to {
            To::Back => {
                back.phase = Phase::Open;
                let entry = back.entry.take();
                let was_switched = entry == Some(Entry::Switched);
                self.flash.give_log(disk);
                let policy = self.disks.policy(disk);
                if !was_switched && policy != WritePolicy::Back {
                    // It was attached for another policy, with a log of its last life.
                    back.phase = Phase::Leaving;
                    let since = self.ports.attended();
                    back.change = Some(Change::new(None, To::Origin(policy), since));
                } else {
                    self.disks.set_policy(disk, WritePolicy::Back);
                }
                self.done(id, Ok(ControlOutcome::Done));
                self.ports.schedule(disk);
                None
            }
            To::Origin(policy) => {
                self.disks.set_policy(disk, policy);
                self.done(id, Ok(ControlOutcome::Done));
                self.flash.release_failed();
                Some(back.leave(disk))
            }
            To::Bypass => {
                self.flash.release_failed();
                if self.flash.is_in_use() && self.disks.policy(disk) == WritePolicy::Back {
                    self.disks.set_policy(disk, WritePolicy::Through);
                    self.backs.return_after(self.ports, disk, Duration::ZERO);
                }
                Some(back.leave(disk))
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
                let fingerprint = match (is_early, self.flash.dirty_bytes(disk).is_zero()) {
                    (false, _) => fingerprint,
                    (true, false) => None,
                    (true, true) => fingerprint.map(|before| !before),
                };
                back.fail_demands(self.ports, ControlError::Busy);
                for id in back.held.take_waiting() {
                    self.ports.command_ended(id, Some(Err(ControlError::Busy)));
                }
                if self.flash.dirty_bytes(disk).is_zero() {
                    for answer in std::mem::take(&mut back.answers) {
                        self.disks.reply(self.ports, disk, answer.request, Ok(()));
                    }
                }
                id.map(|id| Over::Detaches { id, fingerprint })
            }
        }
    }

    /// The change cannot be made.
    fn fail_change(
        &mut self,
        disk: DiskSlot,
        back: &mut Back,
        error: ControlError,
    ) -> Option<Over> {
        let Change { id, to, .. } = back.change.take()?;
        self.done(id, Err(error));
        if to == To::Back {
            if id.is_none() {
                self.backs.return_after(self.ports, disk, RETRY_PAUSE_MIN);
            }
            return Some(back.leave(disk));
        }
        if error == ControlError::NotRecorded && holds(Guard::OpenAfterDoubt) {
            // The record may be closed all the same.
            back.entry = Some(Entry::Stays);
        }
        if back.phase != Phase::Locked {
            back.go_on(self.ports.attended());
        }
        self.ports.schedule(disk);
        None
    }

    fn done(&mut self, id: Option<ControlId>, result: Result<ControlOutcome, ControlError>) {
        if let Some(id) = id {
            self.ports.push(Effect::ControlDone { id, result });
        }
    }

    /// The origin of a disk that comes under write-back has been flushed, or could not be.
    pub(crate) fn flushed(&mut self, disk: DiskSlot, number: u64, result: Result<(), IoError>) {
        let now = self.ports.now();
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
    pub(crate) fn owned(&mut self, token: Token, recorded: bool) {
        let now = self.ports.now();
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
