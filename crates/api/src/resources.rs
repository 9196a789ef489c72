//! What the admin API tells of the host's resources, and takes from the resource monitor.

use monitor::{HostReading, HostUsage, VmFigures};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the host and its VMs used, as far as a monitor says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// How long ago the monitor said something; none if it never did.
    pub age_seconds: Option<f64>,
    /// The host's counters since its boot, as they were then.
    pub host: Option<HostReading>,
    /// What was used between two readings of the monitor's, the latest last.
    pub samples: Vec<ResourceSample>,
    /// Seconds of a processor that the processes of each VM used while a monitor ran, since the daemon's start.
    pub vm_cpu: Vec<VmCpu>,
}

/// What was used between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceSample {
    /// The host's uptime at the later one, in seconds.
    pub uptime_seconds: f64,
    /// Time between them.
    pub seconds: f64,
    /// The host.
    pub host: HostUsage,
    /// The VMs whose processes are known, or of which QEMU or libvirt says something, by name.
    pub vms: Vec<VmUsage>,
}

/// What a VM used: its processes are those that have connected to its disks over a unix socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmUsage {
    /// The VM.
    pub vm: String,
    /// How many processes it has.
    pub processes: u64,
    /// Share of the host's processors, 0 to 1.
    pub cpu_share: f64,
    /// Share of the host's memory, 0 to 1.
    pub memory_share: f64,
    /// The memory.
    pub memory_bytes: u64,
    /// What its reads weigh for `frequency` in memory: its part of the VMs' processors times its part of their memory, 1 if all
    /// are equal, from 1/16 to 16.
    #[serde(default)]
    pub weight: f64,
    /// What QEMU or libvirt says of it, where the monitor may ask them.
    #[serde(flatten)]
    pub figures: VmFigures,
}

/// What a VM used of processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VmCpu {
    /// The VM.
    pub vm: String,
    /// Seconds of a processor.
    pub seconds: f64,
}

/// What the monitor reads next, beside the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    /// Processes of VMs.
    pub processes: Vec<i32>,
}
