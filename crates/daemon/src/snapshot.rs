//! What an operator sees of all caches, disks and VMs together, from one question to each cache.

use super::control::Control;
use super::registry::Entry;
use super::shards::{Pulse, Shard};
use api::types::{Disks, Status};
use api::vms::Vms;
use configuration::Name;
use shard::ShardStatus;
use std::collections::BTreeMap;

/// How each cache was when it was asked.
pub(super) type Pulses<'a> = Vec<(&'a Shard, Pulse)>;

/// The states of the caches that have answered.
pub(super) fn states(pulses: Pulses<'_>) -> BTreeMap<Name, Box<ShardStatus>> {
    let mut states = BTreeMap::new();
    for (shard, pulse) in pulses {
        if let Pulse::Status(status) = pulse {
            states.insert(shard.config().name.clone(), status);
        }
    }
    states
}

impl Control {
    /// Everything that metrics tell of, as it was at one moment of each cache: what disks have adds up
    /// to what their cache has.
    pub async fn snapshot(&self) -> (Status, Disks, Vms) {
        let pulses = self.pulses().await;
        let (status, disks) = (self.status_of(&pulses), self.disks_of(&pulses));
        (status, disks, self.vms_of(&states(pulses)))
    }

    /// How each cache is.
    pub(super) async fn pulses(&self) -> Pulses<'_> {
        let mut pulses = Vec::new();
        for shard in self.shards().all() {
            pulses.push((shard, shard.pulse().await));
        }
        pulses
    }

    /// Every disk, by name.
    pub async fn disks(&self) -> Disks {
        self.disks_of(&self.pulses().await)
    }

    fn disks_of(&self, pulses: &Pulses<'_>) -> Disks {
        let mut statuses = BTreeMap::new();
        for (shard, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                statuses.insert(&shard.config().name, status.as_ref());
            }
        }
        let entries = self.entries();
        let shown = |entry: &Entry| self.shown(entry, statuses.get(&entry.cache).copied());
        Disks {
            disks: entries.iter().map(shown).collect(),
        }
    }
}
