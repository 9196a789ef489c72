//! What the admin API tells of many VMs and disks: a row each, sorted and a page at a time.

use crate::cluster::{ClusterDisk, StoreState};
use crate::overview::Quantiles;
use crate::types::DiskState;
use crate::write_back::DestageState;
use configuration::{Name, WritePolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Some of the VMs of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmRows {
    /// VMs of this host whose names have the text that was searched.
    pub total: u64,
    /// The rows, in the order that was asked for.
    pub rows: Vec<VmRow>,
    /// Ask for more after this VM; none if there are no more.
    #[schema(value_type = Option<String>)]
    pub next: Option<Name>,
}

/// A VM. Counts are since its disks were attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmRow {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// How many disks of its own it has.
    pub disks: u64,
    /// What is wrong with one of its disks; none if nothing is.
    pub trouble: Option<String>,
    /// Read requests.
    pub read_requests: u64,
    /// Write requests.
    pub write_requests: u64,
    /// The part of the blocks read that were on flash or in memory; none before it has read.
    pub hit_ratio: Option<f64>,
    /// Its reads.
    pub read: Quantiles,
    /// Reads of its origins.
    pub origin_read: Quantiles,
    /// Bytes that its origins lack.
    pub dirty_bytes: u64,
    /// Blocks on flash.
    pub cached_blocks: u64,
}

/// Some of the disks of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskRows {
    /// Disks whose names have the text that was searched.
    pub total: u64,
    /// The rows, in the order that was asked for.
    pub rows: Vec<DiskRow>,
    /// Ask for more after this disk; none if there are no more.
    #[schema(value_type = Option<String>)]
    pub next: Option<Name>,
}

/// A disk, and what its origin lacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskRow {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Whose disk it is.
    #[schema(value_type = String)]
    pub vm: Name,
    /// Whether it can be used.
    pub state: DiskState,
    /// What writes do.
    pub write_policy: WritePolicy,
    /// What is wrong with it; none if nothing is.
    pub trouble: Option<String>,
    /// What the transfer to its origin does; none if it keeps nothing from its origin.
    pub destage: Option<DestageState>,
    /// Bytes that its origin lacks.
    pub dirty_bytes: u64,
    /// Bytes of its dirty log, with what was overwritten since.
    pub log_bytes: u64,
    /// The longest that its dirty log may be; none without write-back.
    pub log_bytes_max: Option<u64>,
    /// For how long the oldest bytes have waited.
    pub oldest_seconds: Option<f64>,
    /// Bytes that reached the origin after they had waited.
    pub destaged_bytes: u64,
    /// Writes that waited for room in the dirty log.
    pub stalled_writes: u64,
}

/// The cluster: its hosts, and some of its disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetRows {
    /// The cluster's name.
    pub cluster: String,
    /// What this host is called there.
    pub here: String,
    /// The store.
    pub store: StoreState,
    /// The hosts that are heard of, by name.
    pub hosts: Vec<FleetHost>,
    /// Disks of the cluster whose names, VMs or hosts have the text that was searched.
    pub total: u64,
    /// The rows, by name.
    pub rows: Vec<ClusterDisk>,
    /// Ask for more after this disk's identity; none if there are no more.
    pub next: Option<String>,
}

/// A host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetHost {
    /// Its name.
    pub name: String,
    /// The release of its daemon.
    pub version: String,
    /// Bytes of flash that its caches have.
    pub flash_bytes: u64,
    /// Disks that it lists.
    pub disks: u64,
}
