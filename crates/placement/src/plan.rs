//! A plan as a value: what is proposed and why, what is expected, what was refused, what flash is missing.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// What a round of planning came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The moves, the heaviest source first.
    pub moves: Vec<Proposed>,
    /// What was looked at and refused, by overloaded host and VM.
    pub rejected: Vec<Rejected>,
    /// Hosts for which no move exists. Their shares scale.
    pub short: Vec<Short>,
    /// The fleet as it is.
    pub before: Outlook,
    /// The fleet with all moves done, by what was published.
    pub after: Outlook,
}

/// The loads of the fleet at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Outlook {
    /// Hosts above their bound.
    pub hosts_above: usize,
    /// The mean load.
    pub load_mean: f64,
    /// The loads' standard deviation.
    pub load_stddev: f64,
    /// The heaviest load.
    pub load_max: f64,
}

/// A proposed move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The VM.
    pub vm: Name,
    /// Its host.
    pub from: Name,
    /// Where it should go.
    pub to: Name,
    /// Its predicted working set.
    #[serde(rename = "demand_bytes", with = "number_of_bytes")]
    pub demand: Bytes,
    /// What of its cache the origin lacks.
    #[serde(rename = "dirty_bytes", with = "number_of_bytes")]
    pub dirty: Bytes,
    /// Why its host has to send a VM.
    pub why: Why,
    /// What becomes of both hosts.
    pub expected: Expected,
}

/// Why a host has to send a VM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Its load.
    pub load: f64,
    /// Its bound.
    pub load_max: f64,
    /// For how many windows it has been above.
    pub windows: usize,
}

/// What a move is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The source.
    pub source: Change,
    /// The target.
    pub target: Change,
    /// The standard deviation of all loads, without and with the move.
    pub stddev_before: f64,
    /// The same with the move.
    pub stddev_after: f64,
    /// The VM's hit ratio at its target.
    pub vm_hits: f64,
    /// How long the transfer of its cache takes, in seconds.
    pub transfer_s: f64,
    /// Latency that reads of both hosts save over the horizon, in seconds.
    pub gain_s: f64,
    /// Latency that the transfer adds to their reads, in seconds.
    pub cost_s: f64,
}

/// A host without and with a move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Load without it.
    pub load_before: f64,
    /// Load with it.
    pub load_after: f64,
    /// Hit ratio of its VMs' reads by their curves, without it.
    pub hits_before: f64,
    /// The same with it.
    pub hits_after: f64,
}

/// Moves that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejected {
    /// The overloaded host.
    pub from: Name,
    /// The VM; none where the reason is the host's.
    pub vm: Option<Name>,
    /// The target, or the first of those by name; none where the reason is the VM's.
    pub to: Option<Name>,
    /// How many targets were refused so.
    pub targets: usize,
    /// Why.
    pub reason: Reason,
}

/// Why a move was refused.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// The host has a move under way, and sends no more at a time.
    SendsAlready,
    /// The cluster carries out as many moves as it may.
    ClusterBusy,
    /// The source's reports did not fit what moves found.
    SourceDistrusted,
    /// The VM is pinned.
    Pinned,
    /// The VM has moved, and rests.
    Rests {
        /// For how much longer, in seconds.
        seconds: f64,
    },
    /// The VM is on its way, or a move of it has failed and was not cleared.
    Moving,
    /// Two hosts name the VM.
    NamedTwice,
    /// The target's reports did not fit what moves found.
    TargetDistrusted,
    /// The target would be above its margin.
    NoRoom,
    /// The variance of the loads would rise.
    VarianceRises,
    /// The target lacks processors.
    NoCpu,
    /// The target lacks memory.
    NoMemory,
    /// The target has a VM of the same group.
    SameGroup,
    /// The target does not reach an origin of the VM.
    OriginOutOfReach,
    /// The target takes a VM already in this round.
    TakesAlready,
    /// What it gains is too little for what it costs.
    NotWorth {
        /// Seconds of latency saved over the horizon.
        gain_s: f64,
        /// Seconds of latency added by the transfer.
        cost_s: f64,
    },
}

impl Reason {
    /// Whether the reason goes away by itself in a round or two: the host does have a plan.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::SendsAlready | Self::ClusterBusy | Self::TakesAlready
        )
    }

    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::SendsAlready => "its host has a move under way",
            Self::ClusterBusy => "as many moves are under way as the cluster may have",
            Self::SourceDistrusted => "its host's reports did not fit what moves found",
            Self::Pinned => "it is pinned",
            Self::Rests { .. } => "it has moved, and rests",
            Self::Moving => "it is on its way, or its last move has failed or was just rolled back",
            Self::NamedTwice => "two hosts name it",
            Self::TargetDistrusted => "the target's reports did not fit what moves found",
            Self::NoRoom => "the target would be too full",
            Self::VarianceRises => "the loads would differ more",
            Self::NoCpu => "the target lacks processors",
            Self::NoMemory => "the target lacks memory",
            Self::SameGroup => "the target has a VM of its anti-affinity group",
            Self::OriginOutOfReach => "the target does not reach its origin",
            Self::TakesAlready => "the target takes another VM in this round",
            Self::NotWorth { .. } => "it gains too little for its cost",
        }
    }
}

/// A host that has too little flash, and for which no move exists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Short {
    /// The host.
    pub host: Name,
    /// Its load.
    pub load: f64,
    /// Flash that would bring it below its bound.
    #[serde(rename = "missing_bytes", with = "number_of_bytes")]
    pub missing: Bytes,
    /// By what its VMs' shares are scaled against their working sets, at most 1.
    pub scale: f64,
}

mod number_of_bytes {
    use serde::{Deserialize, Deserializer, Serializer};
    use units::Bytes;

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(bytes.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        u64::deserialize(from).map(Bytes::new)
    }
}
