//! Many disks and VMs at a glance: what is wrong, sums, and sorted rows. Each cache is asked once, and each disk looked at
//! once.

mod health;
mod pages;
mod rows;
mod sums;

pub(super) use pages::Asked;
pub(super) use rows::{DiskOrder, VmOrder};
pub(super) use sums::{flash, found_of_read, latency};

use super::registry::Entry;
use super::shards::{Pulse, Pulses};
use configuration::Name;
use shard::DiskStatus;
use std::collections::BTreeMap;
use units::{DiskId, Instant};

/// All disks, and what their caches say of them.
pub(super) struct Glance<'a> {
    entries: &'a [Entry],
    served: BTreeMap<(&'a str, DiskId), (&'a DiskStatus, Instant)>,
}

/// A disk at a glance.
#[derive(Clone, Copy)]
struct Look<'a> {
    entry: &'a Entry,
    /// What its cache says of it, and when by that one's clock; none if it is not served.
    served: Option<(&'a DiskStatus, Instant)>,
}

impl<'a> Glance<'a> {
    /// These disks, with what the caches have said.
    pub(super) fn new(entries: &'a [Entry], pulses: &'a Pulses<'_>) -> Self {
        let mut served = BTreeMap::new();
        for (shard, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                let cache = shard.config().name.as_str();
                let disks = status.disks.iter();
                served.extend(disks.map(|disk| ((cache, disk.id), (disk, status.now))));
            }
        }
        Self { entries, served }
    }

    fn looks(&self) -> impl Iterator<Item = Look<'a>> {
        self.entries.iter().map(|entry| Look {
            entry,
            served: self.served.get(&(entry.cache.as_str(), entry.id)).copied(),
        })
    }

    /// The disks of each VM, base images left out; and every VM of `known` besides.
    fn by_vm(&self, known: &'a [Name]) -> BTreeMap<&'a Name, Vec<Look<'a>>> {
        let mut vms: BTreeMap<&Name, Vec<Look<'a>>> = BTreeMap::new();
        vms.extend(known.iter().map(|name| (name, Vec::new())));
        for look in self.looks().filter(|look| !look.entry.config.shared) {
            vms.entry(look.entry.config.tenant())
                .or_default()
                .push(look);
        }
        vms
    }
}
