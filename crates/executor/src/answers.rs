//! What the two hosts of a move say, and what a driver makes of it.

use placement::moving::{Action, Answer, Migration, Status};
use serde::{Deserialize, Serialize};

/// What one host answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum HostAnswer {
    /// It is done, or was done before.
    Done,
    /// It is refused.
    Refused {
        /// Why, for an operator.
        why: String,
    },
    /// It could not be carried out now, and may be the next time.
    Failed {
        /// Why, for an operator.
        why: String,
    },
    /// It came too late: the target has the disks.
    Granted,
    /// It came too late: the VM has left the source.
    Gone,
    /// How far the source is.
    Source(AtSource),
    /// How far the target is.
    Target(AtTarget),
}

/// How far the source is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtSource {
    /// The VM runs here, as far as is known.
    pub runs: bool,
    /// A migration is under way.
    pub migrates: bool,
    /// The hypervisor said that the last migration has ended well.
    pub completed: bool,
    /// Why the last migration failed, if it did.
    pub failed: Option<String>,
    /// What the migration has left, where the hypervisor says so.
    pub left: Option<Left>,
}

/// What a migration has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Bytes of memory that are still to be sent.
    pub bytes: u64,
    /// Bytes of memory that the guest makes dirty in a second.
    pub dirty_per_second: u64,
}

/// How far the target is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtTarget {
    /// The VM runs here, where the hypervisor is asked.
    pub runs: Option<bool>,
    /// The hit ratio that the VM could expect here, in percent of its present one.
    pub warm_percent: u8,
    /// This host has the VM's disks.
    pub is_granted: bool,
    /// It has everything of them.
    pub is_drained: bool,
}

impl HostAnswer {
    /// Why nothing was done, for an operator.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Refused { why } | Self::Failed { why } => Some(why),
            Self::Source(AtSource { failed, .. }) => failed.as_deref(),
            _ => None,
        }
    }

    /// Whether the target has the disks by this answer.
    pub(crate) const fn says_granted(&self) -> bool {
        matches!(
            self,
            Self::Granted
                | Self::Target(AtTarget {
                    is_granted: true,
                    ..
                })
        )
    }
}

/// What both hosts together answer to an action.
pub(crate) fn together(
    action: Action,
    source: Option<HostAnswer>,
    target: Option<HostAnswer>,
) -> Answer {
    use HostAnswer::{Done, Gone, Granted, Refused, Source, Target};

    match (source, target) {
        (source, Some(Target(target))) if action == Action::Ask => match source {
            Some(Source(source)) => Answer::Status(status(&source, &target)),
            // What the source still had is at the target or lost with it.
            _ if target.is_granted => Answer::Status(Status {
                migration: Migration::Ended,
                ..status_of(&target)
            }),
            _ => Answer::Silence,
        },
        (_, Some(Granted)) => Answer::Granted,
        (Some(Refused { .. }), _) | (_, Some(Refused { .. })) => Answer::Refused,
        (Some(Done), Some(Done)) if action != Action::Ask => Answer::Done,
        (Some(Gone), Some(Done)) if action == Action::Withdraw => Answer::Gone,
        // Also what failed now and may be done the next time.
        _ => Answer::Silence,
    }
}

const fn status_of(target: &AtTarget) -> Status {
    Status {
        warm_percent: target.warm_percent,
        migration: Migration::None,
        is_granted: target.is_granted,
        is_drained: target.is_drained,
    }
}

fn status(source: &AtSource, target: &AtTarget) -> Status {
    let migration = if source.migrates {
        Migration::Running
    } else if source.runs && source.failed.is_some() {
        Migration::Failed
    } else if source.runs {
        Migration::None
    } else if source.completed || target.is_granted || target.runs == Some(true) {
        Migration::Ended
    } else {
        // It runs at neither: it was shut down, or has died.
        Migration::Failed
    };
    Status {
        migration,
        ..status_of(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: AtSource = AtSource {
        runs: true,
        migrates: false,
        completed: false,
        failed: None,
        left: None,
    };
    const TARGET: AtTarget = AtTarget {
        runs: Some(false),
        warm_percent: 40,
        is_granted: false,
        is_drained: false,
    };

    fn migration(source: &AtSource, target: &AtTarget) -> Migration {
        status(source, target).migration
    }

    #[test]
    fn a_migration_has_ended_when_the_vm_runs_at_the_target() {
        let gone = AtSource {
            runs: false,
            ..SOURCE
        };
        let runs = AtTarget {
            runs: Some(true),
            ..TARGET
        };
        let granted = AtTarget {
            is_granted: true,
            runs: None,
            ..TARGET
        };
        assert_eq!(migration(&SOURCE, &TARGET), Migration::None);
        assert_eq!(migration(&gone, &runs), Migration::Ended);
        assert_eq!(migration(&gone, &granted), Migration::Ended);
        assert_eq!(migration(&gone, &TARGET), Migration::Failed);
        let completed = AtSource {
            completed: true,
            ..gone
        };
        assert_eq!(migration(&completed, &TARGET), Migration::Ended);
        let migrates = AtSource {
            migrates: true,
            ..SOURCE
        };
        assert_eq!(migration(&migrates, &TARGET), Migration::Running);
        let failed = AtSource {
            failed: Some("no route".to_owned()),
            ..SOURCE
        };
        assert_eq!(migration(&failed, &TARGET), Migration::Failed);
    }

    #[test]
    fn one_host_refuses_for_both_and_one_that_is_silent_decides_nothing() {
        let refused = || HostAnswer::Refused { why: String::new() };
        let done = || Some(HostAnswer::Done);
        let all = |source, target| together(Action::Prepare, source, target);
        assert_eq!(all(done(), done()), Answer::Done);
        assert_eq!(all(done(), Some(refused())), Answer::Refused);
        assert_eq!(all(Some(refused()), None), Answer::Refused);
        assert_eq!(all(done(), None), Answer::Silence);
        let withdrawn = |target| together(Action::Withdraw, Some(HostAnswer::Gone), target);
        assert_eq!(withdrawn(done()), Answer::Gone);
        assert_eq!(withdrawn(None), Answer::Silence);
        assert_eq!(withdrawn(Some(HostAnswer::Granted)), Answer::Granted);
        let failed = HostAnswer::Failed { why: String::new() };
        assert_eq!(all(Some(failed), done()), Answer::Silence);
        assert_eq!(
            all(Some(refused()), Some(HostAnswer::Granted)),
            Answer::Granted
        );
    }

    #[test]
    fn a_target_that_has_the_disks_needs_no_source() {
        let target = AtTarget {
            is_granted: true,
            is_drained: true,
            ..TARGET
        };
        let asked = together(Action::Ask, None, Some(HostAnswer::Target(target)));
        let Answer::Status(status) = asked else {
            panic!("{asked:?}");
        };
        assert!(status.is_drained);
        assert_eq!(status.migration, Migration::Ended);
        let asked = together(Action::Ask, None, Some(HostAnswer::Target(TARGET)));
        assert_eq!(asked, Answer::Silence);
    }
}
