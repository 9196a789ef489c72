//! A cache that is copied whole between the grant of its disk and the first request that is served here: the guest waits.
//!
//! Nobody changes the disk meanwhile: the other host has let go of it, and here it is not served yet. So nothing of the
//! copy goes stale, and a part of it is as right as all of it.

use super::Tell;
use super::pulling::Pull;
use super::standing::Attachment;
use super::steps::Steps;
use std::sync::Arc;
use std::time::Instant;
use strategies::Place;

/// What copies it.
pub(super) struct HeldCopy {
    steps: Arc<Steps>,
    tell: Tell,
}

impl HeldCopy {
    pub(super) fn new(steps: Arc<Steps>, tell: Tell) -> Self {
        Self { steps, tell }
    }

    /// Copies what the other host has cached of the disk, until all of it is here or the guest has waited long enough.
    /// Whether what has come counts.
    pub(super) async fn finish(self, until: Instant) -> bool {
        let Ok(attachment) = Attachment::begin(&self.steps, Place::Lender).await else {
            return false;
        };
        let (disk, began) = (&self.steps.entry.config.name, Instant::now());
        let pull = Pull::new(true, Some(Place::Lender), &self.steps, self.tell);
        let copied = tokio::time::timeout_at(until.into(), pull.round()).await;
        let seconds = began.elapsed().as_secs_f64();
        match copied {
            Ok(Some(blocks)) => {
                tracing::info!(%disk, blocks, seconds, "the disk's cache was copied while its VM waited");
            }
            Ok(None) => tracing::info!(%disk, seconds, "the disk's last host lends nothing more"),
            Err(_) => {
                tracing::info!(%disk, seconds, "the disk's VM waits no longer: \
                    the rest of its cache comes behind it");
            }
        }
        attachment.end().await;
        true
    }
}
