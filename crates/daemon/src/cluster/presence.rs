//! This host says in the store that it is there, and what it serves.
//!
//! What it says lives by a lease. A host that is not heard of for [`HEARD_FOR`] is missing there; its disks are still
//! its own.

use super::Cluster;
use crate::registry::Registry;
use crate::shards::Shards;
use api::cluster::{HostDisk, HostSays};
use events::EventKind;
use std::time::{Duration, Instant};
use store::{Leased, StoreError, keys};
use units::errors::chain;

/// How long a host counts as heard of.
const HEARD_FOR: Duration = Duration::from_secs(15);
/// How often it says that it is there.
const EVERY: Duration = Duration::from_secs(5);
/// How often it looks whether there is something else to say.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Says it again and again.
pub(super) async fn keep(cluster: &Cluster, registry: &Registry, shards: &Shards) {
    let key = match keys::host(&cluster.here) {
        Ok(key) => key,
        Err(error) => {
            tracing::error!(%error, "this host is not in the cluster");
            return;
        }
    };
    let mut present = Present {
        cluster,
        place: Leased::new(key),
        said: None,
        is_lost: false,
    };
    loop {
        let says = says(registry, shards);
        match present.say(says).await {
            Ok(()) if present.is_lost => {
                present.is_lost = false;
                tracing::info!(
                    event = EventKind::StoreBack.word(),
                    cluster = cluster.name,
                    "the cluster's store answers again"
                );
            }
            Ok(()) => {}
            Err(error) if present.is_lost => {
                tracing::debug!(%error, "the cluster's store does not answer");
            }
            Err(error) => {
                present.is_lost = true;
                let reason = chain(&error);
                tracing::warn!(
                    event = EventKind::StoreLost.word(),
                    cluster = cluster.name,
                    reason,
                    remedy = error.remedy(),
                    "the cluster's store does not answer: VMs go on, and no disk is attached that this host did not have"
                );
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What was said last, and when.
struct Present<'a> {
    cluster: &'a Cluster,
    place: Leased,
    said: Option<(Instant, HostSays)>,
    is_lost: bool,
}

impl Present<'_> {
    async fn say(&mut self, says: HostSays) -> Result<(), StoreError> {
        let is_said = |(at, said): &(Instant, HostSays)| *said == says && at.elapsed() < EVERY;
        if self.said.as_ref().is_some_and(is_said) {
            return Ok(());
        }
        self.said = None;
        let value = serde_json::to_vec(&says)
            .map_err(|error| StoreError::Invalid(format!("this host's word: {error}")))?;
        let began = Instant::now();
        let store = &*self.cluster.store;
        let is_there = self.place.say(store, value, HEARD_FOR).await?;
        self.said = is_there.then_some((began, says));
        Ok(())
    }
}

/// What this host says of itself.
fn says(registry: &Registry, shards: &Shards) -> HostSays {
    let entries = registry.all();
    let disks = entries.iter().map(|entry| HostDisk {
        id: entry.id.to_string(),
        name: entry.config.name.to_string(),
        vm: entry.vm().to_string(),
        state: entry.phase.state(),
    });
    let mut disks: Vec<_> = disks.collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    HostSays {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        flash_bytes: shards.flash_bytes(),
        disks,
    }
}
