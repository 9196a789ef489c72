//! Locks that can be lost without a word, in a folder that hosts share or of a file on a share, and what becomes of a disk
//! whose lock is lost.
//!
//! ```text
//!   attached ── every LOOK: still held? ── yes ──► attached
//!                          └── no, or not known for SILENCE_MAX ──► let go, with what it lacks kept
//!                                     attached again when the lock is to be had ◄── waiting
//! ```
//!
//! Another host may have the disk by then, so nothing is read or written on: what is attached again is
//! judged by the owner's record like any other disk. A disk that roams waits for the next start of the daemon: until
//! then this host neither serves it nor gives it away.

use super::attach_at_start::attach_at_start;
use super::control::Control;
use super::lock_watch::{NotHeld, Watch};
use super::registry::{Entry, Phase};
use api::problem::ProblemKind;
use api::types::Problem;
use cache::OfDirty;
use events::EventKind;
use shard::{DetachHandle, ShardError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use units::errors::chain;

/// How often each lock is asked for.
const LOOK: Duration = Duration::from_secs(2);
/// How long it may stay unknown whether a lock is held: well below the 90 seconds after which an NFS
/// server lets go of the locks of a silent host.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Watches the lock of each disk that has one, for as long as the daemon runs.
pub(super) async fn watch_locks(control: Arc<Control>, mut new: UnboundedReceiver<(Entry, Watch)>) {
    while let Some((entry, watch)) = new.recv().await {
        tokio::spawn(watch_lock(Arc::clone(&control), entry, watch));
    }
}

/// Watches one lock until it is let go.
async fn watch_lock(control: Arc<Control>, entry: Entry, watch: Watch) {
    let mut held_at = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let asked = watch.clone();
        let asking = tokio::task::spawn_blocking(move || asked.check());
        // What was unknown before counts.
        let left = SILENCE_MAX.saturating_sub(held_at.elapsed()).max(LOOK);
        let lost = match tokio::time::timeout(left, asking).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(Ok(())))) => {
                held_at = Instant::now();
                None
            }
            Ok(Ok(Some(Err(NotHeld::Lost(why))))) => Some(why),
            Ok(Ok(Some(Err(NotHeld::Unknown(why))))) => unknown(held_at, &why),
            Ok(Err(error)) => unknown(held_at, &chain(&error)),
            Err(_) => unknown(held_at, &format!("{} does not answer", watch.place())),
        };
        if let Some(reason) = lost
            && lose(&control, &entry, &watch, &reason).await
        {
            return;
        }
    }
}

/// A reason to let the disk go, if it has been unknown for too long whether the lock is held.
fn unknown(held_at: Instant, reason: &str) -> Option<String> {
    let is_long = held_at.elapsed() >= SILENCE_MAX;
    is_long.then(|| format!("it is not known whether another host has the disk: {reason}"))
}

/// Lets go of a disk whose lock was lost, and tries to attach it again. False if it could not be let
/// go now.
async fn lose(control: &Arc<Control>, entry: &Entry, watch: &Watch, reason: &str) -> bool {
    let mut geometry = None;
    let mut is_leaving = false;
    control.registry().update(entry, |entry| match entry.phase {
        Phase::Attached { geometry: known } => {
            geometry = Some(known);
            entry.phase = Phase::Detaching { geometry: known };
        }
        Phase::Detaching { .. } => is_leaving = true,
        Phase::Attaching
        | Phase::Waiting { .. }
        | Phase::Standby { .. }
        | Phase::Forgetting { .. } => {}
    });
    if is_leaving {
        return lose_leaving(control, entry, watch, reason).await;
    }
    let Some(geometry) = geometry else {
        // It is on its way to be attached, or has left: then the watch ends by itself.
        return false;
    };
    let name = &entry.config.name;
    tell(entry, reason);
    control.disk_sockets().settle_disk(name);
    let detached = match control.shards().of(entry) {
        Ok(shard) => {
            shard
                .ask(|handle, reply| handle.detach(entry.id, OfDirty::Keep, reply))
                .await
        }
        Err(_) => Ok(()),
    };
    match detached {
        Ok(()) | Err(ShardError::NoSuchDisk) => {
            wait(control, entry, watch, reason).await;
            true
        }
        Err(error) => {
            tracing::error!(event = EventKind::DiskStays.word(),
                disk = %name, reason = chain(&error), "the disk cannot be let go");
            control
                .registry()
                .update(entry, |entry| entry.phase = Phase::Attached { geometry });
            control.disk_sockets().settle_disk(name);
            false
        }
    }
}

/// The same of a disk that is being detached: what is still to be brought to its origin stays on flash. A disk that leaves
/// without that is left to whoever detaches it; if it stays, the next look lets it go.
async fn lose_leaving(control: &Arc<Control>, entry: &Entry, watch: &Watch, reason: &str) -> bool {
    let Ok(shard) = control.shards().of(entry) else {
        return false;
    };
    let given_up = shard.ask(|shard, reply| DetachHandle::of(shard).give_up_flush(entry.id, reply));
    if given_up.await != Err(ShardError::FlushGivenUp) {
        return false;
    }
    tell(entry, reason);
    wait(control, entry, watch, reason).await;
    true
}

fn tell(entry: &Entry, reason: &str) {
    tracing::error!(event = EventKind::DiskLetGo.word(),
        disk = %entry.config.name, reason, "the disk is let go");
}

/// A disk that was let go waits for its lock.
async fn wait(control: &Arc<Control>, entry: &Entry, watch: &Watch, reason: &str) {
    control.registry().give_origin_back(entry);
    let roams = entry.config.moves();
    let mut why = Problem::new(ProblemKind::Origin, reason);
    if roams {
        let place = watch.place();
        why = why.with_remedy(format!(
            "start this host's daemon anew once {place} answers"
        ));
    }
    control
        .registry()
        .update(entry, |entry| entry.phase = Phase::Waiting { why });
    // Whether the other host has taken one that roams is looked up at the start.
    if !roams {
        attach_at_start(Arc::clone(control), entry.clone()).await;
    }
}
