//! The record of a move, as it stands in the cluster's store.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use units::Instant;

/// A move.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The VM.
    pub vm: Name,
    /// Where it is, until the grant.
    pub from: Name,
    /// Where it goes.
    pub to: Name,
    /// How far it is.
    pub stage: Stage,
    /// Since when, in nanoseconds of the Unix epoch. Clocks of hosts may differ by seconds; timeouts are minutes.
    #[serde(rename = "since_ns", with = "nanos")]
    pub since: Instant,
    /// Who drives it.
    pub driver: Option<Name>,
    /// Raised by every commit. Actions carry it, and hosts refuse an older one than they have seen.
    pub step: u64,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name", content = "cause")]
pub enum Stage {
    /// It waits for an approval.
    Planned,
    /// It is to be carried out, and nothing was done.
    Approved,
    /// Both hosts check it; the target opens a standby and warms.
    Prepared,
    /// The hypervisor migrates the VM.
    Migrating,
    /// The target has the disks.
    Granted,
    /// The target fetches what it lacks.
    Draining,
    /// The migration is cancelled and the standby closed, if the target was not granted the disks.
    Withdrawing(Cause),
    /// The target has everything.
    Done,
    /// The VM is at its source, as if there had been no move.
    RolledBack(Cause),
    /// An operator has to look: see the cause.
    Failed(Cause),
}

/// Why a move did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// An operator cancelled it.
    Cancelled,
    /// A host refused to prepare it.
    Refused,
    /// The hypervisor's migration failed, or was cancelled.
    Aborted,
    /// The hypervisor's migration took too long.
    Late,
    /// The target gave the disks back unchanged.
    Returned,
    /// A host did not answer.
    Silent,
    /// The target did not get everything in time; it reads the rest from its source.
    DrainLate,
}

/// What is done at the hosts, as often as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Both hosts check the move; the target opens a standby, which warms.
    Prepare,
    /// The source's hypervisor starts to migrate the VM, unless it does already or has done so.
    Migrate,
    /// The migration is cancelled and the standby closed. Refused once the target was granted the disks.
    Withdraw,
    /// Both hosts say how far they are. Changes nothing.
    Ask,
}

impl Cause {
    /// The cause in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Cancelled => "an operator cancelled it",
            Self::Refused => "a host refused to prepare it",
            Self::Aborted => "the hypervisor's migration failed, or was cancelled",
            Self::Late => "the hypervisor's migration took too long",
            Self::Returned => "the target gave the disks back unchanged",
            Self::Silent => "a host did not answer",
            Self::DrainLate => "the target did not get everything in time",
        }
    }
}

impl Move {
    /// A move that waits for its approval.
    pub const fn planned(vm: Name, from: Name, to: Name, now: Instant) -> Self {
        Self {
            vm,
            from,
            to,
            stage: Stage::Planned,
            since: now,
            driver: None,
            step: 0,
        }
    }

    /// The same move in another stage, driven from now on by this host.
    pub fn entered(&self, stage: Stage, driver: &Name, now: Instant) -> Self {
        Self {
            stage,
            since: now,
            driver: Some(driver.clone()),
            step: self.step + 1,
            ..self.clone()
        }
    }

    /// The next move of a VM whose last one has this record: its steps go on, so that nothing which is still on its
    /// way for the last one is carried out for this one.
    pub fn after(last: &Self, from: Name, to: Name, now: Instant) -> Self {
        let step = last.step + 1;
        let vm = last.vm.clone();
        Self {
            step,
            ..Self::planned(vm, from, to, now)
        }
    }
}

impl Stage {
    /// Whether the move has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::RolledBack(_) | Self::Failed(_))
    }

    /// What an operator's cancel makes of it; `None` where it is too late.
    pub const fn cancelled(self) -> Option<Self> {
        match self {
            // Nothing was done for these two, so nothing has to be withdrawn.
            Self::Planned | Self::Approved => Some(Self::RolledBack(Cause::Cancelled)),
            Self::Prepared | Self::Migrating => Some(Self::Withdrawing(Cause::Cancelled)),
            _ => None,
        }
    }

    /// Why the move ends, or has ended, otherwise than planned.
    pub const fn cause(self) -> Option<Cause> {
        match self {
            Self::Withdrawing(cause) | Self::RolledBack(cause) | Self::Failed(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether something was done for it at its hosts, and it has not ended.
    pub const fn is_under_way(self) -> bool {
        !self.is_final() && !matches!(self, Self::Planned | Self::Approved)
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Approved => "approved",
            Self::Prepared => "prepared",
            Self::Migrating => "migrating",
            Self::Granted => "granted",
            Self::Draining => "draining",
            Self::Withdrawing(_) => "withdrawing",
            Self::Done => "done",
            Self::RolledBack(_) => "rolled-back",
            Self::Failed(_) => "failed",
        }
    }
}

mod nanos {
    use serde::{Deserialize, Deserializer, Serializer};
    use units::Instant;

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(super) fn serialize<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.as_nanos())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        u64::deserialize(from).map(Instant::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::name;

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let mut record = Move::planned(name("v"), name("a"), name("b"), Instant::from_nanos(7));
        for stage in [Stage::Planned, Stage::Withdrawing(Cause::Late)] {
            record.stage = stage;
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(
                serde_json::from_str::<Move>(&text).unwrap(),
                record,
                "{text}"
            );
        }
    }
}
