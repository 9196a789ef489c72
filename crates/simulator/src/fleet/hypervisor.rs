//! The two hosts of a move, as their daemons and hypervisors behave: a model in seconds.
//!
//! The standby warms at the transfer's rate; the migration copies the VM's memory at the same rate, and then the target
//! is granted the disks, at once; what was dirty follows. A migration may abort half-way.

use super::settings::{BANDWIDTH, MEMORY};
use placement::Proposed;
use placement::moving::{Action, Answer, Fence, Migration, Status};
use units::Bytes;

/// Which of the two hosts answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) source: bool,
    pub(super) target: bool,
}

/// What has just happened at the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    Nothing,
    /// The VM runs at the target now.
    Granted,
}

/// The two hosts of one move.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    fence: Fence,
    /// Since when the standby is open.
    opened_s: Option<u64>,
    migration: Migration,
    began_s: u64,
    granted_s: Option<u64>,
    aborts: bool,
    warm_s: u64,
    copy_s: u64,
    drain_s: u64,
    /// How often a migration has begun.
    starts: usize,
}

impl Pair {
    pub(super) fn new(planned: &Proposed, aborts: bool) -> Self {
        let takes_s = |bytes: Bytes| bytes.get().div_ceil(BANDWIDTH.get());
        Self {
            fence: Fence::default(),
            opened_s: None,
            migration: Migration::None,
            began_s: 0,
            granted_s: None,
            aborts,
            warm_s: takes_s(planned.demand),
            copy_s: takes_s(MEMORY),
            drain_s: takes_s(planned.dirty),
            starts: 0,
        }
    }

    pub(super) const fn starts(&self) -> usize {
        self.starts
    }

    /// Lets time pass at the hosts that are there.
    pub(super) fn pass(&mut self, now_s: u64, reached: Reached) -> Happened {
        if !reached.target && self.granted_s.is_none() {
            self.opened_s = None;
        }
        if self.migration != Migration::Running {
            return Happened::Nothing;
        }
        let lasts_s = now_s - self.began_s;
        let is_cut = !reached.source || !reached.target || self.opened_s.is_none();
        if is_cut || (self.aborts && lasts_s * 2 >= self.copy_s) {
            self.migration = Migration::Failed;
            return Happened::Nothing;
        }
        if lasts_s < self.copy_s {
            return Happened::Nothing;
        }
        self.migration = Migration::Ended;
        self.granted_s = Some(now_s);
        Happened::Granted
    }

    /// Carries out a driver's action.
    pub(super) fn act(
        &mut self,
        action: Action,
        step: u64,
        now_s: u64,
        reached: Reached,
    ) -> Answer {
        let is_reached = if self.granted_s.is_some() && action == Action::Ask {
            // What the source still has is at the target or lost with it; the target knows what it lacks.
            reached.target
        } else {
            reached.source && reached.target
        };
        if !is_reached {
            return Answer::Silence;
        }
        if action == Action::Ask {
            return Answer::Status(self.status(now_s));
        }
        if !self.fence.admits(step) {
            return Answer::Silence;
        }
        if self.granted_s.is_some() {
            return Answer::Granted;
        }
        match action {
            Action::Prepare => {
                self.opened_s.get_or_insert(now_s);
            }
            Action::Migrate if self.migration == Migration::None => {
                self.migration = Migration::Running;
                self.began_s = now_s;
                self.starts += 1;
            }
            Action::Withdraw => {
                self.opened_s = None;
                if self.migration == Migration::Running {
                    self.migration = Migration::Failed;
                }
            }
            Action::Migrate | Action::Ask => {}
        }
        Answer::Done
    }

    fn status(&self, now_s: u64) -> Status {
        let warm = self.opened_s.map_or(0, |opened| {
            ((now_s - opened) * 100 / self.warm_s.max(1)).min(100)
        });
        Status {
            warm_percent: u8::try_from(warm).unwrap_or(100),
            migration: self.migration,
            is_granted: self.granted_s.is_some(),
            is_drained: self.granted_s.is_some_and(|at| now_s - at >= self.drain_s),
        }
    }
}
