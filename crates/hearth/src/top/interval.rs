//! The difference of two looks at the counters.

use super::args::SortBy;
use super::vms::{self, VmRow};
use api::resources::Resources;
use api::types::{CacheStatus, DiskCounters, DiskStatus, Disks, Latency, Status};
use api::vms::Vms;
use api::write_back::DestageState;
use serde::Serialize;
use std::collections::BTreeMap;
use units::number::real;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The daemon and its caches. Its uptime is the time of the look.
    pub status: Status,
    /// The disks.
    pub disks: Disks,
    /// The VMs and base images.
    pub vms: Vms,
    /// What the VMs use of the host, as far as a monitor says so.
    pub resources: Resources,
}

/// What happened between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// How long it was.
    pub seconds: f64,
    /// What each cache did.
    pub caches: Vec<CacheRow>,
    /// What each disk did.
    pub disks: Vec<DiskRow>,
    /// What each VM and base image did.
    pub vms: Vec<VmRow>,
}

/// What a cache did, by second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheRow {
    /// Its name.
    pub cache: String,
    /// Whether requests go around it.
    pub bypassed: bool,
    /// Blocks on flash now.
    pub cached_blocks: u64,
    /// Segments that are free now.
    pub segments_free: u64,
    /// Bytes written to flash.
    pub flash_written_bytes_per_second: f64,
    /// Bytes read from flash.
    pub flash_read_bytes_per_second: f64,
    /// Half of the flash reads took at most this long.
    pub flash_read_p50_seconds: f64,
    /// 99 in 100 flash reads took at most this long.
    pub flash_read_p99_seconds: f64,
}

/// What a disk did, by second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskRow {
    /// Its name.
    pub disk: String,
    /// Whose it is.
    pub vm: String,
    /// Read requests.
    pub reads_per_second: f64,
    /// Write requests.
    pub writes_per_second: f64,
    /// Bytes that guests read.
    pub read_bytes_per_second: f64,
    /// Bytes that guests wrote.
    pub written_bytes_per_second: f64,
    /// Blocks read that were on flash or in memory.
    pub hit_blocks: u64,
    /// Those of them that were in memory, by why they were there.
    pub memory_hit_blocks: MemoryHits,
    /// Blocks read that were not.
    pub miss_blocks: u64,
    /// Half of the guest's reads and writes took at most this long.
    pub p50_seconds: f64,
    /// 99 in 100 of the guest's reads and writes took at most this long.
    pub p99_seconds: f64,
    /// Bytes written to flash for this disk.
    pub flash_written_bytes_per_second: f64,
    /// Bytes read from the origin.
    pub origin_read_bytes_per_second: f64,
    /// Bytes written to the origin.
    pub origin_written_bytes_per_second: f64,
    /// Bytes that the origin lacks now; none if the disk is not under write-back.
    pub dirty_bytes: Option<u64>,
    /// How long the oldest of them have waited.
    pub dirty_oldest_seconds: Option<f64>,
    /// What the transfer to the origin does now.
    pub destage: Option<DestageState>,
}

/// Blocks that were read from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryHits {
    /// Kept there by admission until they are worth flash.
    pub staged: u64,
    /// Copies of what is read often.
    pub hot: u64,
    /// Prefetched.
    pub ahead: u64,
}

impl MemoryHits {
    /// All of them.
    pub fn total(self) -> u64 {
        self.staged + self.hot + self.ahead
    }
}

impl DiskRow {
    /// Read and write requests.
    pub fn iops(&self) -> f64 {
        self.reads_per_second + self.writes_per_second
    }

    /// Bytes read and written.
    pub fn bytes_per_second(&self) -> f64 {
        self.read_bytes_per_second + self.written_bytes_per_second
    }

    /// The part of the blocks read that was on flash; less than zero if none was read.
    fn hit_ratio(&self) -> f64 {
        let blocks = self.hit_blocks + self.miss_blocks;
        if blocks == 0 {
            return -1.0;
        }
        real(self.hit_blocks) / real(blocks)
    }
}

impl Interval {
    /// What happened between `before` and `now`. A disk or cache that is new, or whose
    /// counters began again, counts from zero.
    pub fn between(before: &Look, now: &Look) -> Self {
        let seconds = now.status.uptime_seconds - before.status.uptime_seconds;
        // A daemon that was restarted between the looks has an uptime of its own.
        let seconds = if seconds > 0.0 {
            seconds
        } else {
            now.status.uptime_seconds.max(0.001)
        };
        let caches: BTreeMap<_, _> = before.status.caches.iter().map(|c| (&c.name, c)).collect();
        let disks: BTreeMap<_, _> = before
            .disks
            .disks
            .iter()
            .map(|d| ((&d.name, &d.id), d))
            .collect();
        Self {
            seconds,
            vms: vms::between(&before.vms, now, seconds),
            caches: now
                .status
                .caches
                .iter()
                .map(|cache| cache_row(caches.get(&cache.name).copied(), cache, seconds))
                .collect(),
            disks: now
                .disks
                .disks
                .iter()
                .map(|disk| disk_row(disks.get(&(&disk.name, &disk.id)).copied(), disk, seconds))
                .collect(),
        }
    }

    /// Sorts the disks by a column, largest first (names: smallest first); `reverse` turns
    /// it round. Equal rows stay in the order of their names.
    pub fn sort(&mut self, by: SortBy, reverse: bool) {
        self.disks.sort_by(|a, b| a.disk.cmp(&b.disk));
        let key = |row: &DiskRow| match by {
            SortBy::Disk => 0.0,
            SortBy::Iops => row.iops(),
            SortBy::Bytes => row.bytes_per_second(),
            SortBy::Hit => row.hit_ratio(),
            SortBy::P99 => row.p99_seconds,
            SortBy::Flash => row.flash_written_bytes_per_second,
            SortBy::Origin => row.origin_read_bytes_per_second,
            SortBy::Dirty => real(row.dirty_bytes.unwrap_or(0)),
        };
        self.disks.sort_by(|a, b| key(b).total_cmp(&key(a)));
        if reverse {
            self.disks.reverse();
        }
    }
}

fn cache_row(before: Option<&CacheStatus>, now: &CacheStatus, seconds: f64) -> CacheRow {
    let rate =
        |of: fn(&CacheStatus) -> u64| real(of(now).saturating_sub(before.map_or(0, of))) / seconds;
    let read = |cache: &CacheStatus| cache.flash_latency.read.clone();
    let times = Times::between(&[(before.map(read), read(now))]);
    CacheRow {
        cache: now.name.to_string(),
        bypassed: now.state == api::types::CacheState::Bypassed,
        cached_blocks: now.cached_blocks,
        segments_free: now.segments.free,
        flash_written_bytes_per_second: rate(|c| c.flash_written_bytes.total()),
        flash_read_bytes_per_second: rate(|c| c.flash_read_bytes + c.reclaim_read_bytes),
        flash_read_p50_seconds: times.quantile(50),
        flash_read_p99_seconds: times.quantile(99),
    }
}

fn disk_row(before: Option<&DiskStatus>, now: &DiskStatus, seconds: f64) -> DiskRow {
    let change = |of: fn(&DiskCounters) -> u64| {
        of(&now.counters).saturating_sub(before.map_or(0, |disk| of(&disk.counters)))
    };
    let rate = |of: fn(&DiskCounters) -> u64| real(change(of)) / seconds;
    let times = Times::between(&[
        (
            before.map(|disk| disk.latency.guest_read.clone()),
            now.latency.guest_read.clone(),
        ),
        (
            before.map(|disk| disk.latency.guest_write.clone()),
            now.latency.guest_write.clone(),
        ),
    ]);
    DiskRow {
        disk: now.name.to_string(),
        vm: now.vm.to_string(),
        reads_per_second: rate(|c| c.read_requests),
        writes_per_second: rate(|c| c.write_requests),
        read_bytes_per_second: rate(|c| c.read_bytes),
        written_bytes_per_second: rate(|c| c.written_bytes),
        hit_blocks: change(DiskCounters::found_blocks),
        memory_hit_blocks: MemoryHits {
            staged: change(|c| c.read_block_staged_hits),
            hot: change(|c| c.read_block_hot_hits),
            ahead: change(|c| c.read_block_ahead_hits),
        },
        miss_blocks: change(|c| c.read_block_misses),
        p50_seconds: times.quantile(50),
        p99_seconds: times.quantile(99),
        flash_written_bytes_per_second: rate(|c| c.flash_written_bytes),
        origin_read_bytes_per_second: rate(|c| c.origin_read_bytes),
        origin_written_bytes_per_second: rate(|c| c.origin_written_bytes),
        dirty_bytes: now.write_back.as_ref().map(|back| back.dirty_bytes),
        dirty_oldest_seconds: now.write_back.as_ref().and_then(|back| back.oldest_seconds),
        destage: now.write_back.as_ref().map(|back| back.state),
    }
}

/// How many operations took how long, by the upper end of their bucket in nanoseconds.
struct Times(BTreeMap<u64, u64>);

impl Times {
    fn between(histograms: &[(Option<Latency>, Latency)]) -> Self {
        let mut counts = BTreeMap::new();
        for (before, now) in histograms {
            let before: BTreeMap<u64, u64> = before
                .iter()
                .flat_map(|latency| &latency.buckets)
                .map(|bucket| (nanos(bucket.to_seconds), bucket.count))
                .collect();
            for bucket in &now.buckets {
                let to = nanos(bucket.to_seconds);
                let earlier = before.get(&to).copied().unwrap_or(0);
                *counts.entry(to).or_insert(0) += bucket.count.saturating_sub(earlier);
            }
        }
        Self(counts)
    }

    /// The upper end of the bucket in which the given percentile lies, in seconds; zero if
    /// nothing happened.
    fn quantile(&self, percent: u64) -> f64 {
        let total: u64 = self.0.values().sum();
        let wanted = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (to, count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return real(*to) / 1e9;
            }
        }
        0.0
    }
}

fn nanos(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|span| u64::try_from(span.as_nanos()).ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the figures are chosen to be exact")]
pub(crate) mod tests {
    use super::*;
    use api::samples;

    pub(crate) fn two_looks() -> (Look, Look) {
        let before = Look {
            status: samples::status(),
            disks: samples::disks(),
            vms: samples::vms(),
            resources: Resources {
                age_seconds: None,
                host: None,
                samples: Vec::new(),
                vm_cpu: Vec::new(),
            },
        };
        let mut now = before.clone();
        now.status.uptime_seconds += 2.0;
        now.status.caches[0].flash_written_bytes.fill += 4096 * 10;
        let disk = &mut now.disks.disks[0];
        disk.counters.read_requests += 200;
        disk.counters.write_requests += 20;
        disk.counters.read_bytes += 200 * 4096;
        disk.counters.read_block_hits += 120;
        disk.counters.read_block_staged_hits += 5;
        disk.counters.read_block_hot_hits += 10;
        disk.counters.read_block_ahead_hits += 15;
        disk.counters.read_block_misses += 50;
        disk.latency.guest_read.buckets[0].count += 197;
        disk.latency.guest_read.buckets[1].count += 3;
        (before, now)
    }

    #[test]
    fn rates_are_differences_by_second() {
        let (before, now) = two_looks();
        let interval = Interval::between(&before, &now);
        let row = &interval.disks[0];
        assert_eq!(row.iops(), 110.0);
        assert_eq!(row.read_bytes_per_second, 409_600.0);
        assert_eq!((row.hit_blocks, row.miss_blocks), (150, 50));
        let in_memory = row.memory_hit_blocks;
        assert_eq!((in_memory.hot, in_memory.total()), (10, 30));
        assert_eq!(interval.caches[0].flash_written_bytes_per_second, 20_480.0);
    }

    #[test]
    fn percentiles_are_of_the_interval_alone() {
        let (before, now) = two_looks();
        let row = &Interval::between(&before, &now).disks[0];
        let buckets = &now.disks.disks[0].latency.guest_read.buckets;
        assert_eq!(row.p50_seconds, buckets[0].to_seconds);
        assert_eq!(row.p99_seconds, buckets[1].to_seconds);
        let idle = &Interval::between(&now, &now).disks[0];
        assert_eq!(idle.p99_seconds, 0.0);
    }

    #[test]
    fn a_restarted_daemon_counts_from_zero() {
        let (before, mut now) = two_looks();
        now.status.uptime_seconds = 1.0;
        now.disks.disks[0].counters = DiskCounters::default();
        let interval = Interval::between(&before, &now);
        assert_eq!(interval.seconds, 1.0);
        assert_eq!(interval.disks[0].iops(), 0.0);
    }

    #[test]
    fn rows_sort_by_a_column_and_then_by_name() {
        let (before, now) = two_looks();
        let mut interval = Interval::between(&before, &now);
        interval.sort(SortBy::Iops, false);
        assert_eq!(interval.disks[0].disk, "web-1");
        interval.sort(SortBy::Iops, true);
        assert_eq!(interval.disks[0].disk, "db");
        interval.sort(SortBy::Disk, false);
        assert_eq!(interval.disks[0].disk, "db");
    }
}
