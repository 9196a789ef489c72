//! What the records of a VM's disks say of where the disks may go, while that is foreseen and no time presses.
//!
//! ```text
//!   the disks are here, a move is foreseen   the records name the peer, tried again until they do
//!   the disks are here, none is              they name nobody any more
//!   the disks are there, a move is foreseen  what the records say is looked at, and kept
//! ```
//!
//! So a hand-over needs no store of the cluster: see `shard::owners`. Where what the origin lacks goes along, no record names
//! the peer: the store alone can say which cache has it.

use super::steps::Steps;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often what the records say is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What is foreseen for the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreseen {
    /// They are here, and go to the peer.
    Go,
    /// They are here, and stay.
    Stay,
    /// The peer has them, and they come here.
    Come,
    /// Nothing, or it is being done.
    Nothing,
}

/// What the records are made to say.
#[derive(Default)]
pub(super) struct Naming {
    /// Whether the records name the peer.
    is_named: Arc<AtomicBool>,
    is_under_way: Arc<AtomicBool>,
    /// When the last attempt began.
    last: Option<Instant>,
}

impl Naming {
    /// Does what is to be done for these disks, beside.
    pub(super) fn foresee(&mut self, foreseen: Foreseen, disks: Vec<Arc<Steps>>, now: Instant) {
        let is_named = self.is_named.load(Ordering::Relaxed);
        let is_done = match foreseen {
            Foreseen::Go => is_named,
            Foreseen::Stay => !is_named,
            Foreseen::Come => false,
            Foreseen::Nothing => {
                // Who has the disks next finds that nobody is named.
                self.is_named.store(false, Ordering::Relaxed);
                true
            }
        };
        let is_recent = self.last.is_some_and(|last| now < last + LOOK);
        if is_done || is_recent || self.is_under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        self.last = Some(now);
        let (is_named, is_under_way) = (Arc::clone(&self.is_named), Arc::clone(&self.is_under_way));
        tokio::task::spawn_blocking(move || {
            for steps in &disks {
                let register = &steps.register;
                let said = match foreseen {
                    Foreseen::Go => register.name_peer(),
                    Foreseen::Stay => register.name_nobody(),
                    Foreseen::Come | Foreseen::Nothing => register.heed(),
                };
                if let Err(error) = said {
                    // The hand-over needs the store then.
                    let disk = &steps.entry.config.name;
                    tracing::debug!(%disk, %error, ?foreseen, "the record does not say where the disk may go");
                    is_under_way.store(false, Ordering::Relaxed);
                    return;
                }
            }
            is_named.store(foreseen == Foreseen::Go, Ordering::Relaxed);
            is_under_way.store(false, Ordering::Relaxed);
        });
    }
}
