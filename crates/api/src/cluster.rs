//! What the admin API tells of the cluster that a host is in.

use crate::types::DiskState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The cluster, as this host sees it in the store that all hosts share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// What this host is called there.
    pub here: String,
    /// The store.
    pub store: StoreState,
    /// The hosts that are heard of, by name.
    pub hosts: Vec<ClusterHost>,
    /// The disks that a host lists or a record names, by identity.
    pub disks: Vec<ClusterDisk>,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreState {
    /// `file` or `etcd`.
    pub kind: String,
    /// Whether it answers.
    pub answers: bool,
    /// Why not.
    pub problem: Option<String>,
    /// What to do about that.
    pub remedy: Option<String>,
    /// How old is what follows; none if it never answered.
    pub age_seconds: Option<f64>,
}

/// A host that is heard of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterHost {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub says: HostSays,
}

/// What a host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HostSays {
    /// The release of its daemon.
    pub version: String,
    /// Bytes of flash that its caches have.
    pub flash_bytes: u64,
    /// Its disks, by name.
    pub disks: Vec<HostDisk>,
}

/// A disk, as a host that lists it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostDisk {
    /// Its identity.
    pub id: String,
    /// Its name there.
    pub name: String,
    /// The VM that has it; a base image's own name.
    pub vm: String,
    /// Whether it can be used there.
    pub state: DiskState,
}

/// A disk of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterDisk {
    /// Its identity.
    pub id: String,
    /// Its name, where a host that is heard of lists it; else its identity.
    pub name: String,
    /// The VM that has it.
    pub vm: String,
    /// The host that has it attached: as the record says, or else as the host says.
    pub host: Option<String>,
    /// The hosts that list it and are heard of.
    pub lists: Vec<String>,
    /// The epoch of its record, if that is in the store.
    pub epoch: Option<u64>,
    /// Whether the record says that a cache may have bytes which the origin lacks.
    pub origin_lacks: bool,
}
