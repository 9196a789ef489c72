//! What is told of the limits of a disk.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the guests of a disk may ask in a second, as it holds now, and what has waited for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskLimits {
    /// Requests a second; none for no limit.
    pub iops: Option<u64>,
    /// Bytes a second; none for no limit.
    pub bytes_per_second: Option<u64>,
    /// How long a disk that was idle may exceed the limits, as time at its limits.
    pub burst_seconds: f64,
    /// Requests that wait for a limit now.
    pub waiting_requests: u64,
    /// Requests that have waited for a limit since the disk was attached.
    pub throttled_requests: u64,
    /// How long these have waited, all together.
    pub throttled_seconds: f64,
}
