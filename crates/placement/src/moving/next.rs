//! What a move needs next, by its stage, the last answer of its hosts, and the time.

use super::record::{Action, Cause, Move, Stage};
use crate::guard::{Guard, holds};
use units::{Duration, Instant};

/// From which expected hit ratio on, in percent of the VM's present one, a target counts as warm.
pub const WARM_PERCENT: u8 = 90;

/// How long a stage may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// The target warms for so long at most; then the VM migrates all the same.
    pub warm: Duration,
    /// The hypervisor migrates for so long at most.
    pub migrate: Duration,
    /// The target fetches what it lacks for so long at most.
    pub drain: Duration,
    /// The hosts withdraw for so long at most.
    pub withdraw: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            warm: minutes(15),
            migrate: minutes(30),
            drain: minutes(60),
            withdraw: minutes(10),
        }
    }
}

/// What the hosts say to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is done, or was done before; a migration has begun.
    Done,
    /// It is refused: a check failed, or the hypervisor did not begin.
    Refused,
    /// It came too late: the target was granted the disks.
    Granted,
    /// To [`Action::Withdraw`]: it came too late, the VM has left its source, and its disks are still to follow.
    Gone,
    /// To [`Action::Ask`].
    Status(Status),
    /// A host did not answer in time. The action may have been carried out, or may yet be.
    Silence,
}

/// How far both hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The hit ratio that the VM could expect at the target, in percent of its present one.
    pub warm_percent: u8,
    /// The hypervisor's migration.
    pub migration: Migration,
    /// The target was granted the disks.
    pub is_granted: bool,
    /// The target has everything.
    pub is_drained: bool,
}

/// How far the hypervisor's migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Migration {
    /// There is none: it was not begun, or a host has forgotten it.
    None,
    /// The VM still runs at the source.
    Running,
    /// The VM runs at the target.
    Ended,
    /// It has failed, or was cancelled.
    Failed,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The record enters this stage.
    Enter(Stage),
    /// The hosts do this.
    Act(Action),
    /// Nothing, until an event.
    Wait,
}

/// What is next for a move. `has_acted` says that the stage's action was carried out on this driver's behalf; `news`
/// is the answer that has just come, none on a tick.
pub(super) fn next(
    record: &Move,
    has_acted: bool,
    news: Option<Answer>,
    timeouts: &Timeouts,
    now: Instant,
) -> Next {
    let lasts = now.since(record.since);
    match record.stage {
        Stage::Planned | Stage::Done | Stage::RolledBack(_) | Stage::Failed(_) => Next::Wait,
        Stage::Approved => Next::Enter(Stage::Prepared),
        Stage::Prepared => prepared(has_acted, news, lasts >= timeouts.warm),
        Stage::Migrating => migrating(has_acted, news, lasts >= timeouts.migrate),
        Stage::Granted => Next::Enter(Stage::Draining),
        Stage::Draining => draining(news, lasts >= timeouts.drain),
        Stage::Withdrawing(cause) => withdrawing(cause, news, lasts >= timeouts.withdraw),
    }
}

fn prepared(has_acted: bool, news: Option<Answer>, is_late: bool) -> Next {
    match news {
        Some(Answer::Refused) => Next::Enter(Stage::Withdrawing(Cause::Refused)),
        Some(Answer::Granted) => Next::Enter(Stage::Granted),
        Some(Answer::Status(status)) if status.is_granted => Next::Enter(Stage::Granted),
        Some(Answer::Status(status)) if status.warm_percent >= WARM_PERCENT => {
            Next::Enter(Stage::Migrating)
        }
        _ if !is_late => ask_or(Action::Prepare, has_acted, news),
        _ if has_acted => Next::Enter(Stage::Migrating),
        _ => Next::Enter(Stage::Withdrawing(Cause::Silent)),
    }
}

fn migrating(has_acted: bool, news: Option<Answer>, is_late: bool) -> Next {
    match news {
        Some(Answer::Refused) => withdraw(Cause::Aborted),
        Some(Answer::Granted) => Next::Enter(Stage::Granted),
        Some(Answer::Status(status)) if status.is_granted => Next::Enter(Stage::Granted),
        // Began and is gone: a host was restarted under it.
        Some(Answer::Status(status))
            if matches!(status.migration, Migration::Failed | Migration::None) =>
        {
            withdraw(Cause::Aborted)
        }
        // The VM runs at the target, and has its disks with its first write there: an idle one takes its time.
        Some(Answer::Status(status)) if status.migration == Migration::Ended => Next::Wait,
        Some(_) if is_late => withdraw(Cause::Late),
        None if is_late => Next::Act(Action::Ask),
        _ => ask_or(Action::Migrate, has_acted, news),
    }
}

/// What begins to end a migration before the grant. It may still run, or be about to begin.
fn withdraw(cause: Cause) -> Next {
    if holds(Guard::WithdrawFirst) {
        Next::Enter(Stage::Withdrawing(cause))
    } else {
        Next::Enter(Stage::RolledBack(cause))
    }
}

fn draining(news: Option<Answer>, is_late: bool) -> Next {
    match news {
        Some(Answer::Status(status)) if status.is_drained => Next::Enter(Stage::Done),
        Some(Answer::Status(status)) if !status.is_granted => {
            Next::Enter(Stage::Withdrawing(Cause::Returned))
        }
        _ if is_late => Next::Enter(Stage::Failed(Cause::DrainLate)),
        None => Next::Act(Action::Ask),
        Some(_) => Next::Wait,
    }
}

fn withdrawing(cause: Cause, news: Option<Answer>, is_late: bool) -> Next {
    match news {
        Some(Answer::Granted) => Next::Enter(Stage::Granted),
        // What was ended of the standby is begun again there: without its disks the VM would wait for ever.
        Some(Answer::Gone) if holds(Guard::FollowTheVm) => Next::Enter(Stage::Migrating),
        Some(Answer::Done | Answer::Gone) => Next::Enter(Stage::RolledBack(cause)),
        _ if is_late => Next::Enter(Stage::Failed(Cause::Silent)),
        None => Next::Act(Action::Withdraw),
        Some(_) => Next::Wait,
    }
}

/// The stage's action until it was carried out, then how far the hosts are; once a tick.
const fn ask_or(action: Action, has_acted: bool, news: Option<Answer>) -> Next {
    match (news, has_acted) {
        (Some(_), _) => Next::Wait,
        (None, false) => Next::Act(action),
        (None, true) => Next::Act(Action::Ask),
    }
}
