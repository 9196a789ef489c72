//! What is dirty goes to the origin ahead of a move: from when a guest comes at the other host, whose QEMU stands
//! ready for one that moves, until it goes; unless it goes to the other host.

use super::steps::Steps;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// Between two times that everything dirty is brought to the origin.
const PAUSE: Duration = Duration::from_millis(250);

/// How long the other host has to begin to ask for it.
const GRACE: Duration = Duration::from_secs(2);

/// Brings what is dirty to the origin, as long as this is kept.
pub(super) struct Draining(AbortHandle);

impl Draining {
    pub(super) fn begin(steps: Arc<Steps>) -> Self {
        let draining = tokio::spawn(async move {
            if steps.ships() {
                tokio::time::sleep(GRACE).await;
            }
            loop {
                while steps.shipping.is_under_way() {
                    tokio::time::sleep(PAUSE).await;
                }
                // What cannot be brought there now stays, and the hand-over says so.
                steps.destage().await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self(draining.abort_handle())
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.abort();
    }
}
