//! Which command is tried in which phase of a disk.
//!
//! A command that nobody has tried in some phase is a command that nobody knows to be safe there. The
//! test `commands_in_phases` says which pairs must be tried, and which ones cannot occur.

use cache::{Command, OfDirty, WritePolicy};

/// Every phase that a disk can be in when a command about it comes.
pub const PHASES: [&str; 10] = [
    "detached",
    "detached with what waits",
    "attaching",
    "through",
    "entering",
    "back",
    "leaving",
    "detaching",
    "bypassed",
    "flash failed",
];

/// Every command about a disk.
pub const COMMANDS: [&str; 11] = [
    "attach",
    "detach",
    "detach and flush",
    "detach and keep",
    "detach and drop",
    "drop",
    "destage",
    "policy: through",
    "policy: back",
    "write-back",
    "grow",
];

/// What a command about a disk is called; none of one that is about the cache.
pub(crate) fn name_of(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Attach { .. } => "attach",
        Command::Detach { dirty, .. } => match dirty {
            OfDirty::Refuse => "detach",
            OfDirty::Flush => "detach and flush",
            OfDirty::Keep => "detach and keep",
            OfDirty::Drop => "detach and drop",
        },
        Command::Drop { .. } => "drop",
        Command::Destage { .. } => "destage",
        Command::SetPolicy {
            policy: WritePolicy::Back,
            ..
        } => "policy: back",
        Command::SetPolicy { .. } => "policy: through",
        Command::SetWriteBack { .. } => "write-back",
        Command::Grow { .. } => "grow",
        // No operator says it.
        Command::Follow { .. }
        | Command::HoldDestage { .. }
        | Command::ReleaseDestage { .. }
        | Command::Ship { .. }
        // About no disk.
        | Command::Scrub { .. }
        | Command::StopScrub
        | Command::Stop => return None,
    })
}
