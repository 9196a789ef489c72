//! What a host says of its load, once a window.
//!
//! ```text
//!   JSON ─► HostReport (any numbers) ─check─► HostLoad (numbers that a plan can rely on)
//! ```
//!
//! A report comes from another host, so nothing in it is believed before it is checked. The daemon publishes a
//! [`HostReport`] in the cluster's store; a list of them in a file is what `hearth plan` reads.

mod report;

pub use report::{HostReport, ReportError, Resources, VmReport};

use crate::curve::Curve;
use crate::name::Name;
use units::number::real;
use units::{Bytes, Duration, Instant};

/// A host's checked load in the present window.
#[derive(Clone, Debug)]
pub struct HostLoad {
    pub(crate) host: Name,
    pub(crate) capacity: Bytes,
    pub(crate) reserve: f64,
    pub(crate) before: Vec<Bytes>,
    pub(crate) free: Resources,
    pub(crate) origins: Vec<Name>,
    pub(crate) costs: Costs,
    pub(crate) vms: Vec<VmLoad>,
}

/// What moving and missing cost at a host, as it has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Mean latency of a read that the flash answers, in microseconds.
    pub hit_us: f64,
    /// Mean latency of a read that the origin answers, in microseconds.
    pub miss_us: f64,
    /// What a move's transfer gets, bytes a second; never zero.
    pub bandwidth: Bytes,
    /// By what part the latency of the neighbours rises during a transfer.
    pub slowdown: f64,
}

/// A VM's checked load in the present window.
#[derive(Clone, Debug)]
pub struct VmLoad {
    pub(crate) vm: Name,
    pub(crate) rwss: Bytes,
    pub(crate) dirty: Bytes,
    pub(crate) needs: Resources,
    pub(crate) curve: Curve,
    pub(crate) reads_per_second: f64,
    pub(crate) hits: Option<f64>,
    pub(crate) moved: Option<Instant>,
    pub(crate) pinned: bool,
    pub(crate) group: Option<Name>,
    pub(crate) origins: Vec<Name>,
}

impl HostLoad {
    /// Its name.
    pub const fn host(&self) -> &Name {
        &self.host
    }

    /// The size of its flash.
    pub const fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// The load above which it has too little flash: what the reserve leaves.
    pub fn load_max(&self) -> f64 {
        1.0 - self.reserve
    }

    /// The sum of what its VMs are predicted to need.
    pub fn demand(&self) -> Bytes {
        self.vms.iter().map(|vm| vm.rwss).sum()
    }

    /// Demand by capacity (`CloudCache`, section 6). Above 1 the demand exceeds the flash.
    pub fn load(&self) -> f64 {
        self.load_of(self.demand())
    }

    /// What the load would be with this demand.
    pub fn load_of(&self, demand: Bytes) -> f64 {
        real(demand.get()) / real(self.capacity.get())
    }

    /// Its VMs, by name.
    pub fn vms(&self) -> &[VmLoad] {
        &self.vms
    }

    /// The VM of that name.
    pub fn vm(&self, name: &Name) -> Option<&VmLoad> {
        let at = self.vms.binary_search_by(|vm| vm.vm.cmp(name)).ok()?;
        self.vms.get(at)
    }

    /// For how many windows in a row its load has been above the bound, the present one included.
    pub fn windows_above(&self) -> usize {
        let loads = std::iter::once(self.load())
            .chain(self.before.iter().map(|demand| self.load_of(*demand)));
        loads.take_while(|load| *load > self.load_max()).count()
    }
}

impl VmLoad {
    /// Its name.
    pub const fn vm(&self) -> &Name {
        &self.vm
    }

    /// The reuse working set that is predicted for the next window.
    pub const fn rwss(&self) -> Bytes {
        self.rwss
    }

    /// What of its cache the origin lacks.
    pub const fn dirty(&self) -> Bytes {
        self.dirty
    }

    /// The part of its reads that the flash has answered in this window, where it was measured.
    pub const fn hits_measured(&self) -> Option<f64> {
        self.hits
    }

    /// The part of its reads that a share of this size would answer.
    pub fn hits(&self, share: Bytes) -> f64 {
        self.curve.hits(share)
    }

    /// Its reads in a second.
    pub const fn reads_per_second(&self) -> f64 {
        self.reads_per_second
    }
}

/// How long a transfer of this size takes, in seconds, at the slower of two hosts.
pub(crate) fn transfer_s(bytes: Bytes, one: &Costs, other: &Costs) -> f64 {
    real(bytes.get()) / real(one.bandwidth.min(other.bandwidth).get())
}

/// A span in seconds.
pub(crate) fn seconds(span: Duration) -> f64 {
    real(span.as_nanos()) / 1e9
}

/// A point in time as seconds of the clock that plans are made by: the Unix epoch's, in a daemon.
pub const fn instant_of_seconds(seconds: u64) -> Instant {
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000))
}
