//! What goes wrong in shards, in the words of the admin API.

use api::problem::ProblemKind;
use api::types::Problem;
use cache::ControlError;
use configuration::Name;
use shard::{Owner, OwnerError, ShardError};
use units::errors::chain;

/// Something is under way with the disk.
pub(super) fn on_its_way(name: impl std::fmt::Display) -> Problem {
    Problem::new(
        ProblemKind::Busy,
        format!("the disk '{name}' is being attached or detached"),
    )
    .with_remedy("repeat the command in a moment")
}

/// A disk stands by, and what is asked of it is for the host that has it.
pub(super) fn stands_by(name: &Name) -> Problem {
    let detail = format!("the disk '{name}' stands by: another host has it");
    Problem::new(ProblemKind::Refused, detail)
        .with_remedy("give the command at the host that has the disk, or move its VM here")
}

/// What is asked of a disk is for those that roam.
pub(super) fn does_not_roam(name: &Name) -> Problem {
    let detail = format!("the disk '{name}' does not roam");
    Problem::new(ProblemKind::Refused, detail).with_remedy(
        "give it an id and roams = true in the configuration of both hosts, and restart the daemons",
    )
}

/// A disk waits, and what is asked of it needs it to be attached.
pub(super) fn not_ready(name: &Name, why: &Problem) -> Problem {
    let is_origin = why.is(ProblemKind::Origin);
    let (waits, otherwise) = if is_origin {
        ("waits for its origin", "restore the origin")
    } else {
        ("is not attached", "hearth disk show says why")
    };
    let remedy = why.remedy.as_deref().unwrap_or(otherwise);
    Problem::new(
        ProblemKind::NotReady,
        format!("the disk '{name}' {waits}: {}", why.detail),
    )
    .with_remedy(format!("{remedy}; it is tried again by itself"))
}

/// The cluster's store has no record of a disk that was attached without it.
pub(super) fn owed(name: &Name) -> Problem {
    let detail = format!("the cluster's store has yet to be told that '{name}' is attached here");
    Problem::new(ProblemKind::Busy, detail).with_remedy(
        "see that the store of [store] runs and is reached: it is told by itself; attach the disk at no other host until then",
    )
}

/// The cluster's store has yet to be told that a disk went to another host.
pub(super) fn handed_alone(name: &Name) -> Problem {
    let detail = format!("the cluster's store has yet to be told that '{name}' went to the peer");
    Problem::new(ProblemKind::Busy, detail).with_remedy(
        "see that the store of [store] runs and is reached: it is told by itself, by either host",
    )
}

/// What a shard said about a disk.
pub(super) fn problem(name: &Name, error: &ShardError) -> Problem {
    let kind = match error {
        ShardError::NoSuchDisk => ProblemKind::NoSuchDisk,
        ShardError::AlreadyAttached => ProblemKind::AlreadyAttached,
        ShardError::Detaching
        | ShardError::InUse
        | ShardError::LateWrites
        | ShardError::NotLent(_)
        | ShardError::TooManyConnections(_)
        | ShardError::NoMemory
        | ShardError::OtherFrontEnd(_) => ProblemKind::Busy,
        ShardError::Size { .. }
        | ShardError::FlushGivenUp
        | ShardError::Owner(
            OwnerError::InUse { .. }
            | OwnerError::AttachedElsewhere { .. }
            | OwnerError::Unreached { .. },
        ) => ProblemKind::Origin,
        ShardError::WhichVm | ShardError::NotShared | ShardError::Settings(_) => {
            ProblemKind::Invalid
        }
        ShardError::Stopping | ShardError::Ended => ProblemKind::Stopping,
        ShardError::Cache(error) => of_cache(error),
        ShardError::Owner(
            OwnerError::Damaged { .. }
            | OwnerError::OtherDisk { .. }
            | OwnerError::OtherFile { .. }
            | OwnerError::Superseded { .. },
        ) => ProblemKind::Refused,
        ShardError::Owner(_) | ShardError::Io(_) | ShardError::NoCipher => ProblemKind::Failed,
    };
    let problem = Problem::new(kind, format!("disk '{name}': {}", chain(error)));
    match remedy(name, error) {
        Some(remedy) => problem.with_remedy(remedy),
        None => problem,
    }
}

/// Why a cache did not do what was asked of it as a whole.
pub(super) fn of_cache_command(name: &Name, error: &ShardError) -> Problem {
    let (kind, remedy) = match error {
        ShardError::Cache(ControlError::NoFlash) => (
            ProblemKind::Refused,
            "hearth status says why its flash is not in use, and what to do",
        ),
        ShardError::Stopping => (ProblemKind::Busy, "ask the daemon that comes next"),
        _ => (ProblemKind::Failed, "hearth status says how the cache does"),
    };
    Problem::new(kind, format!("cache '{name}': {}", chain(error))).with_remedy(remedy)
}

fn of_cache(error: &ControlError) -> ProblemKind {
    match error {
        ControlError::Dirty { .. } => ProblemKind::Dirty,
        ControlError::UnalignedSize | ControlError::NoWriteBack | ControlError::UnsupportedSize => {
            ProblemKind::Invalid
        }
        ControlError::Busy | ControlError::FlashLate => ProblemKind::Busy,
        ControlError::Origin(_) => ProblemKind::Origin,
        ControlError::Elsewhere { .. }
        | ControlError::Lost { .. }
        | ControlError::Unrecorded { .. }
        | ControlError::SizeChanged
        | ControlError::OnlyGrows
        | ControlError::Shared
        | ControlError::OriginChanged
        | ControlError::NoFlash
        | ControlError::Locked(_) => ProblemKind::Refused,
        _ => ProblemKind::Failed,
    }
}

/// What to do about it, where there is one thing to do.
fn remedy(name: &Name, error: &ShardError) -> Option<String> {
    let lose = "--yes-lose-data";
    Some(match error {
        ShardError::Cache(ControlError::Dirty { .. }) => format!(
            "hearth disk detach {name} --flush, which brings them to the origin first; --keep leaves them on flash; --drop-dirty {lose} loses them"
        ),
        ShardError::Cache(ControlError::Lost { .. }) => format!(
            "start with the flash that has them; if it is gone for good, stop the daemon and give them up: hearth recover drop --disk {name} {lose}"
        ),
        ShardError::Cache(ControlError::Elsewhere { .. }) => format!(
            "attach the disk there and bring it to its origin: hearth disk flush {name} --wait; if that cache is gone for good, stop the daemon and give its bytes up: hearth recover drop --disk {name} {lose}"
        ),
        ShardError::Cache(ControlError::Unrecorded { .. }) => format!(
            "stop the daemon and look: hearth recover list FLASH; then hearth recover destage FLASH --disk {name}, or hearth recover drop FLASH --disk {name} {lose}"
        ),
        ShardError::FlushGivenUp => format!(
            "the disk is attached again when its lock is to be had; then repeat: hearth disk detach {name} --flush"
        ),
        ShardError::Cache(ControlError::Locked(_)) => format!(
            "stop the daemon and look: hearth recover verify FLASH --disk {name}; then hearth recover destage, export or drop"
        ),
        ShardError::Cache(ControlError::SizeChanged) => format!(
            "give the origin its size back; or stop the daemon and save the bytes: hearth recover export FLASH --disk {name} --to FILE"
        ),
        ShardError::Cache(ControlError::OnlyGrows | ControlError::Shared) => format!(
            "detach it first: hearth disk detach {name}, and attach it again when its origin has its new size"
        ),
        ShardError::Cache(ControlError::OriginChanged) => format!(
            "stop the daemon and look which is right: hearth recover export FLASH --disk {name} --onto a copy of the origin; then hearth recover destage or drop"
        ),
        ShardError::Cache(ControlError::UnalignedSize) => {
            "use write_policy through, or make the origin a multiple of 4KiB long".to_owned()
        }
        ShardError::Cache(ControlError::Origin(_)) => {
            "restore the origin and repeat the command; nothing is lost meanwhile".to_owned()
        }
        ShardError::Owner(OwnerError::Damaged { .. } | OwnerError::OtherDisk { .. }) => format!(
            "find out which cache had the disk last and bring its bytes to the origin there; if none has any, stop the daemon: hearth recover drop --disk {name} {lose}"
        ),
        ShardError::Owner(OwnerError::OtherFile { .. }) => format!(
            "put the file back that it was; if this is a copy of that, stop the daemon and bring it what it lacks: hearth recover destage FLASH --disk {name} --force {lose}; or give that up: hearth recover drop --disk {name} {lose}"
        ),
        ShardError::Owner(OwnerError::Superseded { .. }) => format!(
            "see that no VM uses the disk here, and detach it: hearth disk detach {name}; it is served where the record says"
        ),
        ShardError::Owner(OwnerError::LockLost { .. }) => {
            "see that the folder of owner's records is there on every host; the disk is tried again by itself".to_owned()
        }
        ShardError::Owner(OwnerError::AttachedElsewhere { host, .. }) => format!(
            "detach it at {host}: hearth disk detach {name}; here it is tried again by itself"
        ),
        ShardError::Owner(OwnerError::Unreached { .. }) => format!(
            "see that the store of [store] runs and is reached; the disk is tried again by itself; if no other host has it: hearth disk attach {name} --without-store"
        ),
        ShardError::Owner(OwnerError::InUse { .. }) => {
            "detach it where it is attached; here it is tried again by itself".to_owned()
        }
        ShardError::Owner(_) => {
            "let the daemon write the folder of the origin, or use write_policy through".to_owned()
        }
        _ => return None,
    })
}

/// Why a disk was not attached whose owner's record says this.
pub(super) fn refused(name: &Name, error: &ShardError, owner: Option<&Owner>) -> Problem {
    let mut problem = problem(name, error);
    let names_owner = matches!(
        error,
        ShardError::Cache(ControlError::Elsewhere { .. } | ControlError::Lost { .. })
    );
    if let Some(owner) = owner.filter(|_| names_owner) {
        problem.detail = format!(
            "{}; it is cache '{}' on host '{}', says {}",
            problem.detail,
            owner.cache_name,
            owner.host,
            owner.path.display()
        );
    }
    problem
}
