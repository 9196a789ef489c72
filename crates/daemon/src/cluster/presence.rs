//! This host says in the store that it is there, and what it serves.
//!
//! What it says lives by a lease. A host that is not heard of for [`HEARD_FOR`] is missing there; its disks are still
//! its own.

use super::Cluster;
use crate::registry::{Entry, Phase, Registry};
use crate::shards::Shards;
use api::cluster::{HostDisk, HostSays};
use std::time::{Duration, Instant};
use store::{Committed, Key, Lease, Renewed, StoreError, Write, keys};
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
        key,
        said: None,
        when: Instant::now(),
        is_lost: false,
    };
    loop {
        let says = says(registry, shards);
        match present.say(says).await {
            Ok(()) if present.is_lost => {
                present.is_lost = false;
                tracing::info!(cluster = cluster.name, "the cluster's store answers again");
            }
            Ok(()) => {}
            Err(error) if present.is_lost => {
                tracing::debug!(%error, "the cluster's store does not answer");
            }
            Err(error) => {
                present.is_lost = true;
                let reason = chain(&error);
                tracing::warn!(
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

/// What was said last, and under which lease.
struct Present<'a> {
    cluster: &'a Cluster,
    key: Key,
    said: Option<(Lease, HostSays)>,
    when: Instant,
    is_lost: bool,
}

impl Present<'_> {
    async fn say(&mut self, says: HostSays) -> Result<(), StoreError> {
        let store = &self.cluster.store;
        let is_said = self.said.as_ref().is_some_and(|(_, said)| *said == says);
        if is_said && self.when.elapsed() < EVERY {
            return Ok(());
        }
        self.when = Instant::now();
        if let Some((lease, said)) = self.said.take() {
            let renewed = store.renew(lease).await;
            if renewed == Ok(Renewed::Stands) && said == says {
                self.said = Some((lease, said));
                return Ok(());
            }
            match renewed? {
                Renewed::Stands => return self.put(lease, says).await,
                Renewed::Ended => {}
            }
        }
        let lease = store.lease(HEARD_FOR).await?;
        self.put(lease, says).await
    }

    async fn put(&mut self, lease: Lease, says: HostSays) -> Result<(), StoreError> {
        let value = serde_json::to_vec(&says)
            .map_err(|error| StoreError::Invalid(format!("this host's word: {error}")))?;
        let write = Write::Put {
            key: self.key.clone(),
            value,
            lease: Some(lease),
        };
        match self.cluster.store.commit(&[], &[write]).await? {
            Committed::Done(_) => self.said = Some((lease, says)),
            // The lease has ended meanwhile: the next time begins another one.
            Committed::Refused => {}
        }
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
        state: state(entry).to_owned(),
    });
    let mut disks: Vec<_> = disks.collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    HostSays {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        flash_bytes: shards.flash_bytes(),
        disks,
    }
}

fn state(entry: &Entry) -> &'static str {
    match entry.phase {
        Phase::Attached { .. } => "attached",
        Phase::Standby { .. } => "standby",
        Phase::Waiting { .. } => "waiting",
        Phase::Attaching => "attaching",
        Phase::Forgetting { .. } | Phase::Detaching { .. } => "detaching",
    }
}
