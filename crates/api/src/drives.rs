//! What the admin API tells of the drives under the caches, and takes from whoever may ask them.

use configuration::Name;
use drives::{Concern, Drive, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The drives under every cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlashDrives {
    /// How long ago the daemon looked; none if it has not yet.
    pub age_seconds: Option<f64>,
    /// Each cache, by name.
    pub caches: Vec<CacheDrives>,
}

/// The drives under a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheDrives {
    /// The cache.
    #[schema(value_type = String)]
    pub cache: Name,
    /// Its file or device.
    pub path: String,
    /// Why there is no drive to show; none if there is one.
    pub no_drive: Option<String>,
    /// The drives that it lies on.
    pub drives: Vec<FlashDrive>,
}

/// A drive under a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlashDrive {
    /// What it is and says.
    #[serde(flatten)]
    pub drive: Drive,
    /// What is the matter with it, the worst first.
    pub concerns: Vec<Concern>,
    /// How long ago somebody with more rights than the daemon said what it says; none if the daemon asked itself.
    pub told_seconds_ago: Option<f64>,
    /// What was written to it since the daemon first knew its counter; none while that is not known twice.
    pub written: Option<Written>,
}

/// What was written to a drive in some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Written {
    /// The time.
    pub seconds: f64,
    /// Bytes that all of this host wrote to it, as it counts them. Its own copies inside are not among them.
    pub drive_bytes: u64,
    /// Bytes that all caches on it wrote.
    pub caches_bytes: u64,
}

/// What somebody with the right to ask a drive has heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToldHealth {
    /// The drive's device.
    #[schema(example = "/dev/nvme0n1")]
    pub device: String,
    /// What it says.
    pub health: Health,
}
