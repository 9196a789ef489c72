//! Disks that an operator has attached while the cluster's store was away, by their word that no other host has them.
//!
//! ```text
//!   attach --without-store ─► owed, written down ─► attached ── every LOOK: does the store answer? ─► it has the record
//!                                                       └─ another host has the disk: said, until it is detached at one
//! ```
//! So it is with disks that were handed over as their records foresaw, at both hosts; the store is told at once then.
//!
//! What has to hold of the record is in `shard::owners`. Until the store has it writes go through, and the disk is not
//! detached: another host would go by what it has cached.

use super::attach_at_start::go_on;
use super::control::Control;
use super::problems::{not_ready, on_its_way, owed, stands_by};
use super::registry::{Entry, Phase};
use super::vouching::Vouching;
use api::problem::ProblemKind;
use api::types::{DiskStatus, Problem};
use configuration::Name;
use shard::{OwnerError, OwnerFile, Settled};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether the store answers.
const LOOK: Duration = Duration::from_secs(1);
/// How long a detach waits for the store.
const STORE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long an attach waits for a disk that waited.
const ATTACH_TIME_MAX: Duration = Duration::from_secs(30);

/// What the store says of a disk that is owed.
enum Told {
    /// Nothing is owed.
    Nothing,
    /// It has the record now.
    Settled(Settled),
    /// It does not answer.
    Away,
    /// Another host has the disk.
    AnotherHas(OwnerError),
}

fn told(settled: Result<Option<Settled>, OwnerError>) -> Result<Told, OwnerError> {
    match settled {
        Ok(None) => Ok(Told::Nothing),
        Ok(Some(settled)) => Ok(Told::Settled(settled)),
        Err(OwnerError::Unreached { .. }) => Ok(Told::Away),
        Err(error @ (OwnerError::AttachedElsewhere { .. } | OwnerError::Superseded { .. })) => {
            Ok(Told::AnotherHas(error))
        }
        Err(error) => Err(error),
    }
}

/// What is said of a disk that is owed, and that another host has.
fn another_has(name: &Name, error: &OwnerError) -> Problem {
    let detail = format!("'{name}' was attached here without the cluster's store: {error}");
    let host = match error {
        OwnerError::AttachedElsewhere { host, .. } => host,
        _ => "the host that it names",
    };
    Problem::new(ProblemKind::Refused, detail).with_remedy(format!(
        "two hosts serve the disk: stop its VM at one, and detach it there: hearth disk detach {name}; at the other forget what was cached meanwhile: hearth disk drop {name}; {host} is the one by the store's word"
    ))
}

/// Tells the store of each disk that is owed, for as long as the daemon runs.
pub(super) async fn settle_debts(control: Arc<Control>) {
    let mut owing = BTreeSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = control.registry().owing() => {}
        }
        let entries = control.registry().all();
        for entry in entries {
            let is_here = matches!(entry.phase, Phase::Attached { .. });
            if !is_here {
                if entry.owes.is_some() && matches!(entry.phase, Phase::Standby { .. }) {
                    settle_what_went(&control, &entry).await;
                }
                continue;
            }
            if entry.owes.is_some() {
                owing.insert(entry.serial);
                // What goes wrong is said there.
                let _said = settle(&control, &entry).await;
            } else if owing.remove(&entry.serial) && entry.without_back.is_some() {
                // It may come under write-back now.
                go_on(Arc::clone(&control), entry, None);
            }
        }
    }
}

fn vouching(control: &Control) -> Vouching<'_> {
    Vouching {
        opener: control.opener(),
        shards: control.shards(),
        remembered: control.remembered(),
    }
}

/// Attaches a disk that waits for the cluster's store, by an operator's word.
///
/// # Errors
/// If there is no such disk, it does not wait, the word is not needed or not enough; or it still waits after a while:
/// it is tried again by itself then.
pub(super) async fn attach_waiting(control: &Control, name: &Name) -> Result<DiskStatus, Problem> {
    control.refuse_when_stopping()?;
    let entry = control.registry().entry(name)?;
    match &entry.phase {
        Phase::Waiting { .. } => {}
        Phase::Attached { .. } => {
            let detail = format!("the disk '{name}' is attached");
            return Err(Problem::new(ProblemKind::AlreadyAttached, detail));
        }
        Phase::Standby { .. } => return Err(stands_by(name)),
        Phase::Attaching | Phase::Forgetting { .. } | Phase::Detaching { .. } => {
            return Err(on_its_way(name));
        }
    }
    vouching(control).vouch(&entry).await?;
    let deadline = Instant::now() + ATTACH_TIME_MAX;
    loop {
        control.try_waiting();
        tokio::time::sleep(LOOK).await;
        match control.registry().entry(name)?.phase {
            Phase::Attached { .. } => return control.observer().disk(name).await,
            Phase::Waiting { why } if Instant::now() >= deadline => {
                return Err(not_ready(name, &why));
            }
            _ => {}
        }
    }
}

/// Tells the store of a disk that is attached here. An error is another host's, or says that the store is away.
async fn settle(control: &Control, entry: &Entry) -> Result<(), Problem> {
    let _alone = control.opener().settling_alone().await;
    let name = &entry.config.name;
    let opener = control.opener();
    let settled = match opener.ask_record(entry, |owner| told(owner.settle())).await {
        Ok(Told::Nothing) => {
            control.registry().owe(entry, None);
            return Ok(());
        }
        Ok(Told::Settled(settled)) => settled,
        Ok(Told::Away) => return Err(still_owes(control, entry, owed(name))),
        Ok(Told::AnotherHas(error)) => {
            return Err(still_owes(control, entry, another_has(name, &error)));
        }
        Err(problem) => return Err(still_owes(control, entry, problem)),
    };
    let is_known = settled.is_known;
    if !is_known && let Err(problem) = control.drop_blocks(name).await {
        return Err(still_owes(control, entry, problem));
    }
    let concluding = opener.ask_record(entry, move |owner| owner.conclude(&settled));
    match concluding.await {
        Ok(true) => {}
        Ok(false) => return Err(still_owes(control, entry, owed(name))),
        Err(problem) => return Err(still_owes(control, entry, problem)),
    }
    tracing::info!(disk = %name, is_known, "the cluster's store has the record of the disk");
    control.registry().owe(entry, None);
    Ok(())
}

/// Tells the store of a disk that went to another host without it.
async fn settle_what_went(control: &Control, entry: &Entry) {
    if settle_at_rest(control, entry).await.is_ok() {
        let disk = &entry.config.name;
        tracing::info!(%disk, "the cluster's store knows that the disk went to another host");
        control.registry().owe(entry, None);
    }
}

/// Says once why a disk is still owed.
fn still_owes(control: &Control, entry: &Entry, why: Problem) -> Problem {
    let name = &entry.config.name;
    let before = control.registry().get(name).and_then(|entry| entry.owes);
    if before.as_ref() != Some(&why) {
        tracing::error!(disk = %name, reason = why.in_a_line(),
            "the cluster's store has no record of a disk that is attached here");
        let owes = Some(why.clone());
        // Nobody is woken: it is tried again after a while.
        control.registry().update(entry, |entry| entry.owes = owes);
    }
    why
}

/// Waits until the store knows of a disk that is to be detached, or says that another host has it.
///
/// # Errors
/// If the store does not answer in time.
pub(super) async fn settle_before_detach(control: &Control, entry: &Entry) -> Result<(), Problem> {
    if entry.owes.is_none() {
        return Ok(());
    }
    let deadline = Instant::now() + STORE_TIME_MAX;
    loop {
        match settle(control, entry).await {
            Ok(()) => return Ok(()),
            Err(problem) if problem.is(ProblemKind::Refused) => return Ok(()),
            Err(problem) if Instant::now() >= deadline => return Err(undetached(&problem)),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The same for a disk that is not served here, which is owed no more then. Tells whether it was.
///
/// # Errors
/// As [`settle_before_detach`].
pub(super) async fn settle_at_rest(control: &Control, entry: &Entry) -> Result<bool, Problem> {
    let _alone = control.opener().settling_alone().await;
    let opener = control.opener();
    if !opener.ask_record(entry, OwnerFile::owes).await? {
        return Ok(false);
    }
    let given_up = opener.ask_record(entry, OwnerFile::give_up_debt);
    match given_up.await {
        Ok(()) => Ok(true),
        Err(_) => Err(undetached(&owed(&entry.config.name))),
    }
}

/// Owes nothing for a disk that has left its shard.
pub(super) async fn give_up_debt(control: &Control, entry: &Entry) {
    let _alone = control.opener().settling_alone().await;
    let opener = control.opener();
    let given_up = opener.ask_record(entry, OwnerFile::give_up_debt);
    if let Err(problem) = given_up.await {
        let reason = problem.in_a_line();
        tracing::error!(disk = %entry.config.name, reason,
            "the cluster's store was not told of a disk that was attached without it");
    }
}

/// Why a disk is not detached.
fn undetached(why: &Problem) -> Problem {
    let remedy = "see that the store of [store] runs and is reached, and repeat the command";
    Problem::new(
        ProblemKind::Busy,
        format!("it is not detached: {}", why.detail),
    )
    .with_remedy(remedy)
}
