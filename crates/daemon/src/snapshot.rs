//! What an operator sees of all caches, disks and VMs together, from one question to each cache.

use super::control::Control;
use super::registry::Entry;
use super::shards::{Pulse, Pulses, states};
use api::types::{Disks, Status};
use api::vms::Vms;
use std::collections::BTreeMap;

impl Control {
    /// Everything that metrics tell of, as it was at one moment of each cache: what disks have adds up
    /// to what their cache has.
    pub async fn snapshot(&self) -> (Status, Disks, Vms) {
        let pulses = self.shards().pulses().await;
        let (status, disks) = (self.status_of(&pulses), self.disks_of(&pulses));
        (status, disks, self.vms_of(&states(pulses)))
    }

    /// Every disk, by name.
    pub async fn disks(&self) -> Disks {
        self.disks_of(&self.shards().pulses().await)
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
