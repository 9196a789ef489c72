//! Sums over all disks and caches.

use super::Glance;
use crate::answers::{found, seconds};
use api::overview::{DirtySums, FlashSums, LatencySums, Quantiles, ReadSums};
use api::types::CacheStatus;
use shard::{Histogram, RequestTimes, ShardStatus};

impl Glance<'_> {
    /// What guests have read, and origins with them.
    pub(crate) fn reads(&self) -> ReadSums {
        let mut sums = ReadSums::default();
        for (disk, _) in self.looks().filter_map(|look| look.served) {
            let (found, blocks) = found_of_read(disk);
            sums.blocks += blocks;
            sums.found_blocks += found;
            sums.bytes += disk.stats.read_bytes;
            sums.origin_bytes += disk.stats.origin_read_bytes;
        }
        sums
    }

    /// What origins lack.
    pub(crate) fn dirty(&self) -> DirtySums {
        let mut sums = DirtySums::default();
        for (disk, _) in self.looks().filter_map(|look| look.served) {
            let keeps = disk.policy == cache::WritePolicy::Back || !disk.dirty.logged.is_zero();
            sums.disks += u64::from(keeps);
            sums.bytes += disk.dirty.distinct.get();
            let age = disk.dirty.oldest.map(seconds).unwrap_or_default();
            if age > sums.oldest_seconds.unwrap_or_default() {
                sums.oldest_seconds = Some(age);
            }
        }
        sums
    }

    /// How many VMs and base images there are.
    pub(crate) fn vms_and_images(&self, known: &[configuration::Name]) -> (u64, u64) {
        let images = self.looks().filter(|look| look.entry.config.shared);
        let images = images.count() as u64;
        let mut vms: std::collections::BTreeSet<_> = known.iter().collect();
        let own = self.looks().filter(|look| !look.entry.config.shared);
        vms.extend(own.map(|look| look.entry.config.tenant()));
        (vms.len() as u64, images)
    }
}

/// Blocks that were found here, and blocks that were read.
pub(crate) fn found_of_read(disk: &shard::DiskStatus) -> (u64, u64) {
    let found = found(&disk.stats);
    (found, found + disk.stats.read_block_misses)
}

/// How long requests took, of all caches together.
pub(crate) fn latency<'a>(shards: impl Iterator<Item = &'a ShardStatus>) -> LatencySums {
    let mut all = RequestTimes::default();
    for shard in shards {
        let times = shard.request_times();
        all.guest.read.add(&times.guest.read);
        all.guest.write.add(&times.guest.write);
        all.origin.add(&times.origin);
    }
    LatencySums {
        guest_read: quantiles(&all.guest.read),
        guest_write: quantiles(&all.guest.write),
        origin_read: quantiles(&all.origin.read),
        origin_write: quantiles(&all.origin.write),
    }
}

/// How long something took.
pub(super) fn quantiles(histogram: &Histogram) -> Quantiles {
    Quantiles {
        count: histogram.count(),
        p50_seconds: seconds(histogram.quantile(500)),
        p99_seconds: seconds(histogram.quantile(990)),
    }
}

/// What is on flash, and what was written to it.
pub(crate) fn flash(caches: &[CacheStatus]) -> FlashSums {
    let mut sums = FlashSums::default();
    for cache in caches {
        sums.cached_blocks += cache.cached_blocks;
        sums.blocks_max += cache.blocks_max;
        let Some(policy) = &cache.policy else {
            continue;
        };
        sums.written_day_bytes += policy.flash_written_day_bytes;
        if let Some(budget) = &policy.write_budget {
            sums.budget_day_bytes =
                Some(sums.budget_day_bytes.unwrap_or_default() + budget.bytes_per_day);
        }
    }
    sums
}
