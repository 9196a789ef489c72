//! What is dirty is followed ahead of a move: from when a guest comes at the other host, whose QEMU stands ready for one that
//! moves, until it goes.
//!
//! ```text
//!   shipped      the other host asks for it; the guest's flushes wait until that one has it
//!   else         it goes to the origin; the guest's flushes, and its writes, wait until the origin has it
//! ```
//! Each waits a little at most ([`cache::Command::Follow`]), so that little is left when the guest has stopped.

use super::steps::Steps;
use cache::Follower;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// Between two times that who follows is named, and that everything dirty is brought to the origin.
const PAUSE: Duration = Duration::from_millis(250);

/// How long the other host has to begin to ask for it.
const GRACE: Duration = Duration::from_secs(2);

/// Names who follows, as long as this is kept.
pub(super) struct Draining(AbortHandle);

impl Draining {
    pub(super) fn begin(steps: Arc<Steps>) -> Self {
        let draining = tokio::spawn(async move {
            let begun = Instant::now();
            let naming = async {
                loop {
                    if let Some(follower) = follower(&steps, begun) {
                        steps.handle.ahead().follow(steps.entry.id, follower);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            let draining = async {
                loop {
                    if follower(&steps, begun) == Some(Follower::Origin) {
                        // What cannot be brought there now stays, and the hand-over says so.
                        steps.destage().await;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            tokio::join!(naming, draining)
        });
        Self(draining.abort_handle())
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who follows what is written, since when it was begun; nobody while the other host may still begin to ask.
fn follower(steps: &Steps, begun: Instant) -> Option<Follower> {
    if steps.shipping.is_under_way() {
        Some(Follower::Host)
    } else if !steps.ships() || begun.elapsed() >= GRACE {
        Some(Follower::Origin)
    } else {
        None
    }
}
