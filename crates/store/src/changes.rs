//! Waiting until something below a prefix has changed.

use crate::{Change, Events, Prefix, Revision, Store};
use std::time::Duration;

/// Who reads everything below a prefix again and again, and waits in between for a change.
pub struct Changes {
    prefix: Prefix,
    events: Option<Box<dyn Events>>,
}

impl Changes {
    /// Nothing is watched yet.
    pub fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            events: None,
        }
    }

    /// Waits until something has changed after the revision at which everything was read, this time at most; all of it, if
    /// it could not be read. A change that the store does not tell of is seen after that time, so whoever waits reads
    /// everything afterwards, whatever this waited for.
    pub async fn wait(&mut self, store: &dyn Store, after: Option<Revision>, at_most: Duration) {
        let Some(after) = after else {
            return tokio::time::sleep(at_most).await;
        };
        let changed = async {
            if self.events.is_none() {
                self.events = store.watch(&self.prefix, after).await.ok();
            }
            let Some(events) = &mut self.events else {
                // The store is away: only time passes.
                return std::future::pending().await;
            };
            if !matches!(
                events.next().await,
                Ok(Change::Put(_) | Change::Deleted { .. })
            ) {
                self.events = None;
            }
        };
        // Only that it has ended is of interest.
        let _ = tokio::time::timeout(at_most, changed).await;
    }
}
