//! What all caches together have counted at a moment, and what came between two moments.

use super::points::{SERIES, Values};
use crate::answers::seconds;
use crate::glance::found_of_read;
use crate::shards::{Pulse, Pulses};
use shard::{Histogram, RequestTimes, ShardStatus};
use units::BLOCK_BYTES;
use units::number::real;

/// Counters and sizes of all caches that have answered.
#[derive(Debug, Default)]
pub(super) struct Totals {
    read_blocks: u64,
    found_blocks: u64,
    read_bytes: u64,
    origin_read_bytes: u64,
    times: RequestTimes,
    flash_read: Histogram,
    flash_written_bytes: u64,
    cached_blocks: u64,
    dirty_bytes: u64,
    dirty_oldest_seconds: f64,
    load: f64,
}

impl Totals {
    /// Adds up what the caches say.
    pub(super) fn of(pulses: &Pulses<'_>) -> Self {
        let mut totals = Self::default();
        for (_, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                totals.add(status);
            }
        }
        totals
    }

    fn add(&mut self, shard: &ShardStatus) {
        for disk in &shard.disks {
            let stats = &disk.stats;
            let (found, read) = found_of_read(disk);
            self.found_blocks += found;
            self.read_blocks += read;
            self.read_bytes += stats.read_bytes;
            self.origin_read_bytes += stats.origin_read_bytes;
            self.dirty_bytes += disk.dirty.distinct.get();
            let oldest = disk.dirty.oldest.map_or(0.0, seconds);
            self.dirty_oldest_seconds = self.dirty_oldest_seconds.max(oldest);
        }
        let times = shard.request_times();
        self.times.guest.read.add(&times.guest.read);
        self.times.origin.add(&times.origin);
        self.flash_read.add(&shard.flash_latency.read);
        self.flash_written_bytes += shard.stats.flash_written.total();
        self.cached_blocks += shard.cache.cached_blocks;
        let load = shard.host.as_ref().map_or(0.0, |host| host.load.abs());
        self.load = self.load.max(load);
    }

    /// A point: what came since `earlier`, `seconds` before. A counter that went down, since a disk left, has no value.
    pub(super) fn since(&self, earlier: &Self, seconds: f64) -> Values {
        let rate = |now: u64, then: u64| {
            let more = now.checked_sub(then).filter(|_| seconds > 0.0);
            more.map_or(f64::NAN, |more| real(more) / seconds)
        };
        let read = Times::since(&self.times.guest.read, &earlier.times.guest.read);
        let origin = Times::since(&self.times.origin.read, &earlier.times.origin.read);
        let flash = Times::since(&self.flash_read, &earlier.flash_read);
        let blocks = self.read_blocks.checked_sub(earlier.read_blocks);
        let found = self.found_blocks.checked_sub(earlier.found_blocks);
        let hit_ratio = match (found, blocks) {
            (Some(found), Some(blocks)) if blocks > 0 => real(found) / real(blocks),
            _ => f64::NAN,
        };
        let values: [f64; SERIES.len()] = [
            hit_ratio,
            rate(self.read_bytes, earlier.read_bytes),
            rate(self.origin_read_bytes, earlier.origin_read_bytes),
            read.p50,
            read.p99,
            origin.p50,
            origin.p99,
            flash.p99,
            rate(self.flash_written_bytes, earlier.flash_written_bytes),
            real(self.cached_blocks.saturating_mul(BLOCK_BYTES)),
            real(self.dirty_bytes),
            self.dirty_oldest_seconds,
            self.load,
        ];
        values
    }
}

/// How long something took between two moments, in seconds; not a number if there was nothing.
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    fn since(now: &Histogram, then: &Histogram) -> Self {
        let since = now.since(then).filter(|since| since.count() > 0);
        let quantile = |thousandths| {
            let since = since.as_ref();
            since.map_or(f64::NAN, |since| seconds(since.quantile(thousandths)))
        };
        Self {
            p50: quantile(500),
            p99: quantile(990),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn value(values: &Values, name: &str) -> f64 {
        values[SERIES.iter().position(|series| *series == name).unwrap()]
    }

    #[test]
    fn a_point_tells_what_came_since_the_one_before() {
        let earlier = Totals {
            read_blocks: 10,
            found_blocks: 10,
            read_bytes: 1000,
            ..Totals::default()
        };
        let mut now = Totals {
            read_blocks: 20,
            found_blocks: 15,
            read_bytes: 4000,
            load: 0.5,
            ..Totals::default()
        };
        now.times.guest.read.record(Duration::from_millis(1));
        let point = now.since(&earlier, 2.0);
        assert!((value(&point, "hit_ratio") - 0.5).abs() < 1e-9);
        assert!((value(&point, "guest_read_bytes_per_second") - 1500.0).abs() < 1e-9);
        assert!((value(&point, "guest_read_p99_seconds") - 1e-3).abs() < 1e-4);
        assert!((value(&point, "load_ratio") - 0.5).abs() < 1e-9);
        assert!(value(&point, "origin_read_p99_seconds").is_nan());
    }

    #[test]
    fn a_counter_that_went_down_has_no_value() {
        let earlier = Totals {
            read_bytes: 1000,
            ..Totals::default()
        };
        let point = Totals::default().since(&earlier, 1.0);
        assert!(value(&point, "guest_read_bytes_per_second").is_nan());
        assert!(value(&point, "hit_ratio").is_nan());
    }
}
