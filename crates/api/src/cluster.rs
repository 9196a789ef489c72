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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterDisk {
    /// Its identity.
    pub id: String,
    /// Its name, where a host that is heard of lists it; else its identity.
    pub name: String,
    /// The VM that has it.
    pub vm: String,
    /// The host that has it attached: as the record says, or else as the host says.
    pub host: Option<String>,
    /// The host that it may go to next, also while the store is away, as the record says.
    pub may_go_to: Option<String>,
    /// The hosts that list it and are heard of.
    pub lists: Vec<String>,
    /// The epoch of its record, if that is in the store.
    pub epoch: Option<u64>,
    /// Whether the record says that a cache may have bytes which the origin lacks.
    pub origin_lacks: bool,
}

/// The moves of a cluster's VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterMoves {
    /// What becomes of plans: `off`, `advise`, `approve` or `auto`.
    pub mode: String,
    /// How many moves there are at a time.
    pub limits: MoveLimits,
    /// Each VM's last move, by VM.
    pub moves: Vec<ClusterMove>,
}

/// Limits on moves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveLimits {
    /// VMs that one host sends.
    pub outbound: usize,
    /// VMs that one host takes.
    pub arrivals: usize,
    /// Moves of the whole cluster.
    pub cluster: usize,
}

/// A move of a VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterMove {
    /// The VM.
    pub vm: String,
    /// Where it is, until the grant.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// How far the move is.
    #[schema(example = "migrating")]
    pub stage: String,
    /// Whether it is over.
    pub is_final: bool,
    /// Why it does not go on as planned.
    pub cause: Option<String>,
    /// For how long it has been in its stage, in seconds.
    pub for_seconds: f64,
    /// The host that drives it.
    pub driver: Option<String>,
    /// Raised by each change of the move.
    pub step: u64,
    /// Its source and its target, as they have answered last.
    pub hosts: Vec<MoveHost>,
    /// What was planned, if a planner did.
    pub planned: Option<MovePlan>,
}

/// A host of a move, as it has answered last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveHost {
    /// Its name.
    pub host: String,
    /// Why it did not do what it was asked.
    pub problem: Option<String>,
    /// At the target: the hit ratio that the VM could expect there, in percent of its present one.
    pub warm_percent: Option<u8>,
    /// At the source: whether the hypervisor migrates the VM.
    pub migrates: Option<bool>,
    /// At the source: bytes of memory that are still to be sent, where the hypervisor says so.
    pub left_bytes: Option<u64>,
    /// At the source: bytes of memory that the guest makes dirty in a second.
    pub dirty_bytes_per_second: Option<u64>,
}

/// Why a move was planned, what is expected of it, and what its target found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovePlan {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// The source's load.
    pub load: f64,
    /// Its bound.
    pub load_max: f64,
    /// For how many windows it was above.
    pub windows: usize,
    /// What the VM was predicted to need, in bytes.
    pub demand_bytes: u64,
    /// What of its cache the origin lacked, in bytes.
    pub dirty_bytes: u64,
    /// The source's load without the VM.
    pub source_load: f64,
    /// The target's load with it.
    pub target_load: f64,
    /// The VM's hit ratio at the target.
    pub vm_hits: f64,
    /// How long its cache travels, in seconds.
    pub transfer_seconds: f64,
    /// Latency that is saved over the horizon, in seconds.
    pub gain_seconds: f64,
    /// Latency that the transfer adds, in seconds.
    pub cost_seconds: f64,
    /// What the target published once the VM was there; none before that.
    pub found: Option<MoveFound>,
}

/// What a move's target found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MoveFound {
    /// What the VM is predicted to need there, in bytes.
    pub demand_bytes: u64,
    /// Its hit ratio there, where it was measured.
    pub hits: Option<f64>,
}
