//! What is asked and told of writes that wait on flash for their origin.

use configuration::{DestageOrder, LimitsChange, Name, WriteBackChange, WritePolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to change of a disk; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskChange {
    /// What writes do from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_policy: Option<WritePolicy>,
    /// How writes reach the origin if they wait on flash first.
    #[serde(skip_serializing_if = "WriteBackChange::is_nothing")]
    pub write_back: WriteBackChange,
    /// What its guests may ask in a second.
    #[serde(skip_serializing_if = "LimitsChange::is_nothing")]
    pub limits: LimitsChange,
}

impl DiskChange {
    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// This change, and a later one over it.
    pub fn then(self, later: Self) -> Self {
        Self {
            write_policy: later.write_policy.or(self.write_policy),
            write_back: self.write_back.then(later.write_back),
            limits: self.limits.then(later.limits),
        }
    }

    /// The names of the settings that it changes.
    pub fn keys(&self) -> Vec<String> {
        let policy = self.write_policy.map(|_| "write_policy".to_owned());
        let rest = self.write_back.keys().into_iter();
        let rest = rest.map(|key| format!("write_back.{key}"));
        let limits = self.limits.keys().into_iter();
        let limits = limits.map(|key| format!("limits.{key}"));
        policy.into_iter().chain(rest).chain(limits).collect()
    }
}

/// What becomes of bytes that a disk's origin lacks when the disk is detached.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum OfDirty {
    /// The detach is refused while there are any.
    #[default]
    Refuse,
    /// They are brought to the origin first.
    Flush,
    /// They stay on flash for the next attach; until then no other cache may have the disk.
    Keep,
    /// They are lost.
    Drop,
}

/// What the transfer to the origin does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DestageState {
    /// Nothing, or it waits for more.
    #[default]
    Idle,
    /// Bytes are on their way.
    Running,
    /// It has used up its rate for now.
    PausedByRate,
    /// It waits because guests' reads of the origin became slow.
    PausedByLatency,
    /// The origin refused; it is tried again.
    Failing,
    /// At full speed, since everything has to reach the origin.
    Draining,
    /// It has stopped until the operator decides: hearth recover.
    Locked,
}

impl DestageState {
    /// The word in JSON and tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::PausedByRate => "paused-by-rate",
            Self::PausedByLatency => "paused-by-latency",
            Self::Failing => "failing",
            Self::Draining => "draining",
            Self::Locked => "locked",
        }
    }
}

/// How writes reach the origin, as it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteBackSettings {
    /// In which order.
    pub order: DestageOrder,
    /// The longest that the dirty log may be.
    pub dirty_max_bytes: u64,
    /// The longest that bytes may wait for the origin.
    pub age_max_seconds: f64,
    /// How long no guest must have asked for anything before bytes go to the origin.
    pub idle_after_seconds: f64,
    /// The most that goes to the origin in a second; none for no limit.
    pub rate_bytes_per_second: Option<u64>,
    /// The longest that a write may wait for room.
    pub stall_max_seconds: f64,
}

/// A disk under write-back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteBackStatus {
    /// How writes reach the origin.
    pub settings: WriteBackSettings,
    /// What the transfer to the origin does.
    pub state: DestageState,
    /// Why it fails or is locked.
    pub reason: Option<String>,
    /// For how long it has failed.
    pub failing_seconds: Option<f64>,
    /// Bytes that the origin lacks.
    pub dirty_bytes: u64,
    /// Length of the dirty log, what was written again since included.
    pub log_bytes: u64,
    /// How long the oldest bytes have waited.
    pub oldest_seconds: Option<f64>,
    /// Intervals between flushes that the origin lacks, or lacks a part of.
    pub intervals: u64,
    /// Bytes that have reached the origin since the disk was attached.
    pub destaged_bytes: u64,
    /// Writes that waited for room since the disk was attached.
    pub stalled_writes: u64,
    /// The period in which the disk is attached, as in the owner's record.
    pub epoch: u64,
}

/// What the flash has of a disk that waits, or waited until it was detached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptOnFlash {
    /// Blocks of 4096 bytes that its next attach may serve.
    pub cached_blocks: u64,
    /// Bytes of its dirty log. The origin lacks them, unless the owner's record is closed.
    pub dirty_bytes: u64,
    /// Why its dirty log does not go to the origin without the operator.
    pub locked: Option<String>,
    /// Where its owner's record is, if it has one. Null until the origin's file system has said so.
    pub owner_record: Option<String>,
    /// Whether its data key is in the state directory.
    pub has_data_key: bool,
}

/// An origin that is consistent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Barrier {
    /// Of which disk.
    #[schema(value_type = String)]
    pub disk: Name,
    /// When the barrier was asked for, in seconds since 1970: every write that was answered before is
    /// at the origin.
    pub asked_at_seconds: f64,
    /// When it was reached.
    pub reached_at_seconds: f64,
    /// The period of the owner's record in which it was reached; zero if the disk never had one.
    pub epoch: u64,
}
