//! Where this host says what its VMs want of its flash.

use super::Cluster;
use placement::HostReport;
use std::time::Duration;
use store::{Leased, StoreError, keys};
use units::Bytes;
use units::errors::chain;

/// How long a report counts at least. A host of longer windows has three of them.
const COUNTS_FOR: Duration = Duration::from_mins(15);

/// This host's place for its reports.
pub(crate) struct LoadBoard {
    cluster: Cluster,
    bandwidth: Bytes,
    /// Once something was said.
    place: Option<Leased>,
}

impl LoadBoard {
    pub(super) fn new(cluster: Cluster, bandwidth: Bytes) -> Self {
        Self {
            cluster,
            bandwidth,
            place: None,
        }
    }

    /// What this host is called.
    pub(crate) fn here(&self) -> &str {
        &self.cluster.here
    }

    /// What a move's transfer gets in a second.
    pub(crate) fn bandwidth(&self) -> Bytes {
        self.bandwidth
    }

    /// Says this window's report. It counts for three windows, [`COUNTS_FOR`] at least.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) async fn say(
        &mut self,
        report: &HostReport,
        window: Duration,
    ) -> Result<(), StoreError> {
        let invalid = |error: &dyn std::error::Error| StoreError::Invalid(chain(error));
        let value = serde_json::to_vec(report).map_err(|error| invalid(&error))?;
        let place = match &mut self.place {
            Some(place) => place,
            none => {
                let key = keys::load(&self.cluster.here).map_err(|error| invalid(&error))?;
                none.insert(Leased::new(key))
            }
        };
        let ttl = COUNTS_FOR.max(3 * window);
        // What is not there now is said again with the next window.
        let _is_there = place.say(&*self.cluster.store, value, ttl).await?;
        Ok(())
    }
}
