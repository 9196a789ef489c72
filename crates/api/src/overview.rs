//! What the admin API tells of a host at a glance: whether all is well, what to do if not, and what the cache is worth.

use crate::events::{About, Severity};
use serde::{Deserialize, Serialize};
use units::number::real;
use utoipa::ToSchema;

/// A host at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// Whether all is well.
    pub health: Health,
    /// The cluster that the host is in; none if it is in none.
    pub cluster: Option<String>,
    /// The daemon's version.
    pub version: String,
    /// How long the daemon has run.
    pub uptime_seconds: f64,
    /// Disks, base images included.
    pub disks: u64,
    /// VMs.
    pub vms: u64,
    /// Base images.
    pub images: u64,
    /// Reads since the disks that are attached now were attached.
    pub reads: ReadSums,
    /// What guests' requests and the origins took since the daemon's start.
    pub latency: LatencySums,
    /// What origins lack.
    pub dirty: DirtySums,
    /// What is on flash, and what was written to it.
    pub flash: FlashSums,
}

/// Reads of all attached disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadSums {
    /// Blocks, or parts of one, that guests read.
    pub blocks: u64,
    /// Those of them that were on flash or in memory.
    pub found_blocks: u64,
    /// Bytes that guests read.
    pub bytes: u64,
    /// Bytes that were read from origins, for guests and ahead of them.
    pub origin_bytes: u64,
}

impl ReadSums {
    /// The part of the blocks that were here; none before anything was read.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.blocks > 0).then(|| real(self.found_blocks) / real(self.blocks))
    }

    /// The part of the bytes that guests read and origins did not have to send, at least zero; none before anything
    /// was read.
    pub fn saved_ratio(&self) -> Option<f64> {
        let saved = self.bytes.saturating_sub(self.origin_bytes);
        (self.bytes > 0).then(|| real(saved) / real(self.bytes))
    }
}

/// Latency that guests see, beside that of the origins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencySums {
    /// Guests' reads.
    pub guest_read: Quantiles,
    /// Guests' writes.
    pub guest_write: Quantiles,
    /// Reads of origins.
    pub origin_read: Quantiles,
    /// Writes of origins.
    pub origin_write: Quantiles,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// Half took at most this long.
    pub p50_seconds: f64,
    /// 99 in 100 took at most this long.
    pub p99_seconds: f64,
}

/// What origins lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DirtySums {
    /// Disks under write-back.
    pub disks: u64,
    /// Bytes that origins lack.
    pub bytes: u64,
    /// For how long the oldest of them have waited; none if there are none.
    pub oldest_seconds: Option<f64>,
}

/// What is on flash, and what was written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlashSums {
    /// Blocks on flash.
    pub cached_blocks: u64,
    /// Blocks that the segments can hold.
    pub blocks_max: u64,
    /// Bytes written in the last 24 hours, or since the daemon's start.
    pub written_day_bytes: u64,
    /// Bytes that may be written in a day; none if no cache has a budget.
    pub budget_day_bytes: Option<u64>,
}

/// Whether all is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The worst of what was found; `info` if nothing is wrong.
    pub severity: Severity,
    /// How the host is, in a sentence.
    pub sentence: String,
    /// What to do; none if nothing is to be done.
    pub remedy: Option<String>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// Findings that are not shown, since they are too many.
    pub more: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// How much it asks of an operator.
    pub severity: Severity,
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// What is wrong, in a sentence.
    pub sentence: String,
    /// What to do about it.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_origins_were_spared_is_a_part_of_what_guests_read() {
        let mut reads = ReadSums::default();
        assert_eq!((reads.hit_ratio(), reads.saved_ratio()), (None, None));
        reads = ReadSums {
            blocks: 8,
            found_blocks: 6,
            bytes: 4000,
            origin_bytes: 1000,
        };
        assert_eq!(reads.hit_ratio(), Some(0.75));
        assert_eq!(reads.saved_ratio(), Some(0.75));
        reads.origin_bytes = 5000;
        assert_eq!(reads.saved_ratio(), Some(0.0));
    }
}
