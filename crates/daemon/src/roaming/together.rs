//! The steps of a hand-over for all disks of a unit: each step is done for every disk, or has failed.
//!
//! ```text
//!   settle   every disk is held ─► what each origin lacks goes there, or to the other host
//!   close    every origin
//!   decide   one file lists the disks
//!   record   each disk's record names the peer
//!   take     every record names this host ─► each disk is locked and opened
//! ```
//!
//! Invariant: no disk is opened here before the records of all name this host. So a host that was killed between two
//! records, or a peer whose last record is missing, leaves the disks with one owner.

use super::register;
use super::standing::Preparation;
use super::steps::Steps;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use handoff::{Action, Event, Hold, Record, TakeError};
use std::sync::Arc;
use std::time::Instant;

/// Lets the clients' requests wait at all disks, and brings what is dirty to the other host, or to the origins.
pub(super) async fn settle(disks: Vec<(Arc<Steps>, Hold)>) -> Event {
    for (steps, _) in &disks {
        if !Arc::clone(steps).may_hand_over().await {
            return Event::Settled(false);
        }
    }
    for (steps, why) in &disks {
        if !steps.hold(*why).await {
            return Event::Settled(false);
        }
    }
    let steps: Vec<_> = disks.into_iter().map(|(steps, _)| steps).collect();
    let is_settled = all(steps.clone().into_iter().map(Steps::settle)).await;
    if is_settled {
        all(steps.into_iter().map(Steps::tell_demand)).await;
    }
    Event::Settled(is_settled)
}

/// Carries a step out that [`Ownership`](handoff::Ownership) asks for. Disks that are taken are prepared first: requests
/// wait until then at most.
///
/// # Panics
/// At an action that is no step.
pub(super) async fn carry_out(
    disks: Vec<(Arc<Steps>, Preparation)>,
    action: Action,
    until: Instant,
) -> Event {
    match action {
        Action::Close => {
            all(each(&disks).map(Steps::close)).await;
            Event::Closed
        }
        Action::Decide(decision) => {
            let noted = each(&disks).map(|steps| (steps.register.clone(), steps.kept()));
            let noted = noted.collect::<Vec<_>>();
            let deciding = tokio::task::spawn_blocking(move || register::decide(&noted, decision));
            let outcome = deciding.await.map_err(std::io::Error::other).flatten();
            let leader = &disks[0].0;
            Event::Decided(leader.has_gone_well(outcome, "the decision cannot be noted"))
        }
        Action::Record { epoch } => {
            let recording = each(&disks).map(|steps| steps.record(epoch));
            Event::Recorded(all(recording).await)
        }
        Action::Unlock => {
            each(&disks).for_each(|steps| steps.unlock());
            Event::Unlocked
        }
        Action::Take { epoch } => {
            let steps: Vec<_> = each(&disks).collect();
            let preparing = disks.into_iter();
            let preparing = preparing.filter(|(steps, _)| !steps.is_open_in(epoch));
            all(preparing.map(|(steps, preparation)| steps.prepare(preparation, epoch, until)))
                .await;
            Event::Taken(take(steps, epoch).await)
        }
        Action::Send(_) | Action::Settle | Action::Serve | Action::Fail | Action::EndOldClients => {
            unreachable!("{action:?} is no step")
        }
    }
}

fn each(disks: &[(Arc<Steps>, Preparation)]) -> impl Iterator<Item = Arc<Steps>> {
    disks.iter().map(|(steps, _)| Arc::clone(steps))
}

/// Takes all disks with this epoch. Those that were taken before one failed stay so.
async fn take(disks: Vec<Arc<Steps>>, epoch: u64) -> Result<(), TakeError> {
    for steps in &disks {
        steps.receive(epoch).await?;
    }
    if disks.len() > 1 {
        let mut records = Vec::new();
        for steps in &disks {
            records.push(steps.recorded().await.ok_or(TakeError::Failed)?);
        }
        if !Record::may_take(records.iter().copied(), epoch) {
            for (steps, record) in disks.iter().zip(&records) {
                if !Record::may_take([*record], epoch) {
                    steps.tell_of_other_owner();
                }
            }
            // One that is open is right: its record names this host.
            let is_open = disks.iter().any(|steps| steps.is_open_in(epoch));
            return Err(if is_open {
                TakeError::Failed
            } else {
                TakeError::NotOurs
            });
        }
    }
    for (at, steps) in disks.iter().enumerate() {
        match steps.take(epoch).await {
            Ok(()) => {}
            // Another owner since a moment ago.
            Err(TakeError::NotOurs) if at > 0 => return Err(TakeError::Failed),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Whether all of these end well. At the first that does not the others end, and so they do with the caller: none is a task
/// of its own, which would go on for a moment after it was told to end.
async fn all(steps: impl Iterator<Item: Future<Output = bool>>) -> bool {
    let under_way: FuturesUnordered<_> = steps.collect();
    under_way.all(std::future::ready).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_end_at_the_first_that_fails() {
        let other = Arc::new(());
        let steps = [false, true].map(|is_long| {
            let held = is_long.then(|| Arc::clone(&other));
            async move {
                if let Some(_held) = held {
                    std::future::pending::<()>().await;
                }
                false
            }
        });
        assert!(!all(steps.into_iter()).await);
        assert_eq!(Arc::strong_count(&other), 1, "the other one has ended");
        assert!(all([true, true].into_iter().map(std::future::ready)).await);
    }
}
