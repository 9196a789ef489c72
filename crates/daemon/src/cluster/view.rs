//! The whole cluster as this host sees it, for an operator.

use super::Cluster;
use api::cluster::{ClusterDisk, ClusterHost, ClusterStatus, HostSays, StoreState};
use api::problem::ProblemKind;
use api::types::{DiskState, Problem};
use placement::FleetReport;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use store::{Everything, StoreError, everything, keys};
use units::errors::chain;

/// Where an operator looks at the cluster.
pub(crate) struct View {
    cluster: Cluster,
    /// What was seen last, for when the store is away.
    last: Mutex<Option<(Instant, Seen)>>,
}

/// What the store said.
#[derive(Clone, Default)]
struct Seen {
    hosts: Vec<ClusterHost>,
    disks: Vec<ClusterDisk>,
}

impl View {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            last: Mutex::default(),
        }
    }

    /// What the cluster is called.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster.name
    }

    /// All hosts and disks, as the store has them now; or as it had them when it answered last.
    pub(crate) async fn look(&self) -> ClusterStatus {
        let looked = self.ask().await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (problem, remedy) = match looked {
            Ok(seen) => {
                *last = Some((Instant::now(), seen));
                (None, None)
            }
            Err(error) => (Some(chain(&error)), Some(error.remedy().to_owned())),
        };
        let age = last.as_ref().map(|(at, _)| at.elapsed().as_secs_f64());
        let seen = last.as_ref().map(|(_, seen)| seen.clone());
        let Seen { hosts, disks } = seen.unwrap_or_default();
        let store = StoreState {
            kind: self.cluster.kind.to_owned(),
            answers: problem.is_none(),
            problem,
            remedy,
            age_seconds: age,
        };
        ClusterStatus {
            cluster: self.cluster.name.clone(),
            here: self.cluster.here.clone(),
            store,
            hosts,
            disks,
        }
    }

    /// What the VMs of all hosts want of their flash.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn loads(&self) -> Result<FleetReport, Problem> {
        let loads = executor::loads_of_cluster(&*self.cluster.store).await;
        loads.map_err(|error| {
            Problem::new(ProblemKind::Failed, chain(&error)).with_remedy(error.remedy())
        })
    }

    async fn ask(&self) -> Result<Seen, StoreError> {
        let store = &*self.cluster.store;
        let (hosts, owners) = tokio::join!(
            async { everything(store, &keys::HOSTS.prefix()).await },
            async { everything(store, &keys::OWNERS.prefix()).await },
        );
        Ok(seen(&hosts?, &owners?))
    }
}

/// What hosts say of themselves, and what the records of disks say.
fn seen(hosts: &Everything, owners: &Everything) -> Seen {
    let hosts: Vec<_> = hosts.entries.iter().filter_map(host).collect();
    let mut disks: BTreeMap<String, ClusterDisk> = BTreeMap::new();
    for host in &hosts {
        for disk in &host.says.disks {
            let of = disks.entry(disk.id.clone());
            let of = of.or_insert_with(|| unknown(&disk.id));
            of.name.clone_from(&disk.name);
            of.vm.clone_from(&disk.vm);
            of.lists.push(host.name.clone());
            if disk.state == DiskState::Attached {
                of.host = Some(host.name.clone());
            }
        }
    }
    for entry in &owners.entries {
        let Some(id) = keys::owned(&entry.key) else {
            continue;
        };
        let Some(owner) = shard::read_record(&entry.value) else {
            continue;
        };
        let id = id.to_string();
        let of = disks.entry(id.clone()).or_insert_with(|| unknown(&id));
        // A host that is not heard of has its disks all the same.
        let attachment = owner.attachment.unwrap_or_default();
        of.may_go_to = attachment.may_go_to;
        let attached = attachment.host;
        of.host = attached.or(of.host.take());
        of.epoch = Some(
            owner
                .holder
                .map_or(owner.record.epoch, |holder| holder.epoch),
        );
        of.origin_lacks = owner.record.open;
    }
    Seen {
        hosts,
        disks: disks.into_values().collect(),
    }
}

/// A disk of which nobody has said anything yet.
fn unknown(id: &str) -> ClusterDisk {
    ClusterDisk {
        id: id.to_owned(),
        name: id.to_owned(),
        ..ClusterDisk::default()
    }
}

fn host(entry: &store::Versioned) -> Option<ClusterHost> {
    let name = entry.key.below(&keys::HOSTS.prefix())?.to_owned();
    // A host of another release may say other things: it is there all the same.
    let says: HostSays = serde_json::from_slice(&entry.value).unwrap_or_default();
    Some(ClusterHost { name, says })
}
