//! What goes wrong in shards, in the words of the admin API.

use crate::api::problem::ProblemKind;
use crate::api::types::Problem;
use crate::cli::exit::chain;
use crate::config::Name;
use shard::ShardError;

/// Something is under way with the disk.
pub(super) fn on_its_way(name: &Name) -> Problem {
    Problem::new(
        ProblemKind::Busy,
        format!("the disk '{name}' is being attached or detached"),
    )
    .with_remedy("repeat the command in a moment")
}

/// What a shard said about a disk.
pub(super) fn problem(name: &Name, error: &ShardError) -> Problem {
    let kind = match error {
        ShardError::NoSuchDisk => ProblemKind::NoSuchDisk,
        ShardError::AlreadyAttached => ProblemKind::AlreadyAttached,
        ShardError::Detaching
        | ShardError::TooManyConnections(_)
        | ShardError::OtherFrontEnd(_) => ProblemKind::Busy,
        ShardError::Size { .. } => ProblemKind::Origin,
        ShardError::WhichVm | ShardError::NotShared | ShardError::Settings(_) => {
            ProblemKind::Invalid
        }
        ShardError::Stopping | ShardError::Ended => ProblemKind::Stopping,
        ShardError::Cache(_) | ShardError::Io(_) => ProblemKind::Failed,
    };
    Problem::new(kind, format!("disk '{name}': {}", chain(error)))
}
