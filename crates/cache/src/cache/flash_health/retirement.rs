//! Giving the flash up for good while guests go on.
//!
//! When the flash fails, older copies on it might come back after a restart. So before the
//! origin is written again, the host is asked to record, somewhere else, that this incarnation
//! of the cache must never be trusted. Reads go on meanwhile; writes wait for the record.

use super::FlashHealth;
use crate::admitter::Admission;
use crate::back::Back;
use crate::flash_use::patience;
use crate::limits::WATCH_PARTS;
use crate::purpose::{DestageRead, Hit, ReadPurpose};
use block_io::Token;
use block_store::Purpose;
use units::{DiskSlot, Duration};

impl FlashHealth<'_> {
    /// Gives the flash up: everything goes to the origin from now on.
    pub(in crate::cache) fn fail(&mut self, reason: &'static str) {
        let Some(incarnation) = self.state.flash.give_up(reason) else {
            return;
        };
        self.state.admission = Admission::default();
        self.state.reads.foresight_mut().clear();
        self.state.back_requests().lose_arrivals();
        self.state.writes.wait_no_more();
        self.state.backs.all_stay_through();
        // The flash may have been in doubt already.
        if self
            .state
            .host_record
            .flash_failed(&mut self.state.ports, incarnation)
        {
            self.state.through().let_waiting_pass();
        }
        self.state.commands().end_without_flash();
        self.state.backs.schedule_all(&mut self.state.ports);
        // What was being read from flash comes from the origin at the next look.
        self.state.ports.wake_at(self.state.ports.now());
    }

    pub(in crate::cache) fn retired(&mut self, answered: Token, recorded: bool) {
        let now = self.state.ports.now();
        if !self.state.host_record.answered(answered, recorded, now) {
            return;
        }
        self.state.backs.schedule_all(&mut self.state.ports);
        if recorded {
            self.state.through().let_waiting_pass();
            self.bypass_late_flash();
        } else if !self.state.flash.is_in_use() {
            self.state.through().fail_waiting();
        }
    }

    /// Asks the origin for what the flash has not given in time, and lets nobody wait for the flash if
    /// something that is written takes too long (`late_writes.rs`).
    pub(in crate::cache) fn watch(&mut self) {
        let (timeout, patience) = (
            self.state.config.flash_timeout,
            patience(&self.state.config),
        );
        let now = self.state.ports.now();
        let mut watch = Watch {
            has_failed: !self.state.flash.is_in_use(),
            ..Watch::default()
        };
        for (purpose, time) in self.state.ports.store.in_flight() {
            watch.look(purpose, time >= timeout, time >= patience);
        }
        for hit in watch.unreadable {
            self.state.guest_reads().is_unreadable(&hit);
        }
        for disk in watch.lost {
            self.state.destager().lose_log(disk);
        }
        for hit in watch.late {
            self.state.guest_reads().is_late(&hit);
        }
        let is_waited_for = |disk: &DiskSlot| self.state.backs.get(*disk).is_some_and(Back::waits);
        if watch.lost_patience || watch.unread.iter().any(is_waited_for) {
            self.fail("the flash took too long");
        } else if watch.stuck {
            self.write_is_late();
        } else {
            self.writes_are_in_time();
        }
        if watch.pending || self.state.host_record.is_in_doubt() {
            let part = timeout.as_nanos() / WATCH_PARTS;
            self.state
                .ports
                .wake_at(now + Duration::from_nanos(part.max(1)));
        }
    }
}

/// What a look at the operations in flight has found.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the operations"
)]
#[derive(Default)]
struct Watch {
    /// The flash has failed, and is only read from.
    has_failed: bool,
    /// What the origin is asked for instead.
    late: Vec<Hit>,
    /// What nobody else has, and will not come any more.
    unreadable: Vec<Hit>,
    /// Disks whose logs cannot be read.
    lost: Vec<DiskSlot>,
    /// Disks of whose logs something takes longer than all patience to be read.
    unread: Vec<DiskSlot>,
    /// Something that is written takes too long.
    stuck: bool,
    /// What a guest reads and nobody else has takes longer than all patience.
    lost_patience: bool,
    /// Something has to be looked at again.
    pending: bool,
}

impl Watch {
    /// Looks at an operation that has taken longer than the timeout, or than all patience.
    fn look(&mut self, purpose: &mut Purpose<ReadPurpose>, is_late: bool, is_hopeless: bool) {
        match purpose {
            // The origin cannot be asked instead.
            Purpose::Caller(ReadPurpose::Hit(hit)) if hit.dirty && !hit.abandoned => {
                self.lost_patience |= is_hopeless && !self.has_failed;
                self.pending = true;
                if is_hopeless && self.has_failed {
                    hit.abandoned = true;
                    self.unreadable.push(hit.clone());
                }
            }
            Purpose::Caller(ReadPurpose::DestageRead(DestageRead { disk, .. })) => {
                self.pending = true;
                if is_hopeless && self.has_failed {
                    self.lost.push(*disk);
                } else if is_hopeless {
                    self.unread.push(*disk);
                }
                self.stuck |= is_hopeless;
            }
            Purpose::Caller(ReadPurpose::MergeHit(_)) => {
                self.pending = true;
                self.lost_patience |= is_hopeless;
            }
            Purpose::Caller(ReadPurpose::Hit(hit)) if !hit.abandoned => {
                if is_late || self.has_failed {
                    hit.abandoned = true;
                    self.late.push(hit.clone());
                } else {
                    self.pending = true;
                }
            }
            // Another host that waits for a loan asks the origin.
            // Nobody waits for a scrub.
            Purpose::Caller(ReadPurpose::Hit(_) | ReadPurpose::Loan(_) | ReadPurpose::Scrub(_)) => {
            }
            Purpose::Store(own) if own.is_awaited_by_guests() => {
                self.stuck |= is_late || self.has_failed;
                self.pending = true;
            }
            // No guest waits for these, but a detach, a stop or a reclaim may.
            Purpose::Store(_) => {
                self.stuck |= is_hopeless;
                self.pending = true;
            }
        }
    }
}
