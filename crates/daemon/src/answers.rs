//! From the shards' words to those of the API.

use super::keys;
use super::registry::{Entry, Phase};
use super::scrub_records;
use super::shards::{Pulse, Shard};
use api::front_ends::{RequestMemory, VhostUser};
use api::limits::DiskLimits;
use api::scrub::ScrubStatus;
use api::types::{
    CacheInside, CacheState, CacheStatus, DiskCounters, DiskLatency, DiskStatus, FlashLatency,
    FlashWrittenBytes, Latency, LatencyBucket, MemoryFrames, RefusedBlocks, SegmentCounts,
};
use api::write_back::{DestageState, KeptOnFlash, WriteBackSettings, WriteBackStatus};
use cache::{DropReason, Mode};
use configuration::{canonical_origin, serial};
use frontend::budget::BudgetStatus;
use shard::{Folders, Histogram, RequestTimes, ShardStatus};
use std::num::NonZeroU64;
use throttle::{Limits, Throttled};
use units::{Duration, Instant};

pub(super) fn cache(shard: &Shard, pulse: &Pulse) -> CacheStatus {
    let config = shard.config();
    let bare = CacheStatus {
        name: config.name.clone(),
        path: config.path.display().to_string(),
        state: CacheState::Opening,
        reason: None,
        reclaim: config.reclaim,
        flash_bytes: 0,
        cached_blocks: 0,
        blocks_max: 0,
        memory_bytes: 0,
        memory_frames: MemoryFrames::default(),
        waiting_bytes: 0,
        request_memory: RequestMemory::default(),
        recovery_seconds: 0.0,
        recovered_blocks: 0,
        recovery_lost_blocks: 0,
        segments: SegmentCounts::default(),
        flash_written_bytes: FlashWrittenBytes::default(),
        flash_read_bytes: 0,
        reclaim_read_bytes: 0,
        segments_reclaimed: 0,
        kept_blocks: 0,
        evicted_blocks: 0,
        refused_blocks: RefusedBlocks::default(),
        checksum_errors: 0,
        flash_errors: 0,
        flash_timeouts: 0,
        flash_taken_back: 0,
        scrub: ScrubStatus::default(),
        flash_latency: FlashLatency::default(),
        request_latency: DiskLatency::default(),
        policy: None,
        inside: CacheInside::default(),
    };
    match pulse {
        Pulse::Opening => bare,
        Pulse::Silent => CacheStatus {
            state: CacheState::Silent,
            reason: Some("the cache's thread does not answer; restart the daemon".to_owned()),
            ..bare
        },
        Pulse::Status(status) => filled(bare, status),
    }
}

/// What a cache does, and why if that is unusual.
fn state_of(status: &ShardStatus) -> (CacheState, Option<String>) {
    match &status.cache.mode {
        Mode::Active if status.cache.is_in_doubt => {
            let reason = "the flash is late with writes: guests do not wait for it until it is in time, and \
                after a crash the cache would start empty";
            (CacheState::Serving, Some(reason.to_owned()))
        }
        Mode::Active if status.cache.bypasses_reads => {
            let reason = "the flash is late with reads: they go to the origins until it is in time";
            (CacheState::Serving, Some(reason.to_owned()))
        }
        Mode::Active => (CacheState::Serving, status.opening.cold.clone()),
        Mode::Retiring { reason } | Mode::Bypassed { reason } => {
            (CacheState::Bypassed, Some(reason.clone()))
        }
    }
}

fn filled(bare: CacheStatus, status: &ShardStatus) -> CacheStatus {
    let (state, reason) = state_of(status);
    let (cache, stats) = (&status.cache, &status.stats);
    CacheStatus {
        state,
        reason,
        flash_bytes: cache.capacity.get(),
        cached_blocks: cache.cached_blocks,
        blocks_max: cache.blocks_max,
        memory_bytes: cache.memory.get(),
        memory_frames: MemoryFrames {
            staged: cache.staged_blocks,
            ahead: cache.ahead_blocks,
            hot: cache.hot_blocks,
        },
        waiting_bytes: cache.buffered.get(),
        request_memory: request_memory(&status.request_memory),
        recovery_seconds: seconds(status.opening.time),
        recovered_blocks: status.opening.blocks,
        recovery_lost_blocks: status.opening.blocks_lost,
        segments: SegmentCounts {
            free: cache.segments.free,
            open: cache.segments.open,
            closed: cache.segments.closed,
            reclaiming: cache.segments.reclaiming,
        },
        flash_written_bytes: FlashWrittenBytes {
            fill: stats.flash_written.fill,
            update: stats.flash_written.update,
            reclaim: stats.flash_written.reclaim,
            dirty: stats.flash_written.dirty,
            descriptors: stats.flash_written.descriptors,
            journal: stats.flash_written.journal,
            checkpoint: stats.flash_written.checkpoint,
        },
        flash_read_bytes: stats.flash_read_bytes,
        reclaim_read_bytes: stats.reclaim_read_bytes,
        segments_reclaimed: stats.segments_reclaimed,
        kept_blocks: stats.blocks_kept,
        evicted_blocks: stats.blocks_evicted,
        refused_blocks: RefusedBlocks {
            no_segment: stats.not_admitted.no_segment,
            write_buffer: stats.not_admitted.write_buffer,
            index_full: stats.not_admitted.index_full,
            settings: stats.not_admitted.settings,
        },
        checksum_errors: stats.checksum_mismatches,
        flash_errors: stats.flash_errors,
        flash_timeouts: stats.flash_timeouts,
        flash_taken_back: stats.flash_taken_back,
        scrub: scrub_records::status(&status.scrub),
        flash_latency: FlashLatency {
            read: latency(&status.flash_latency.read),
            write: latency(&status.flash_latency.write),
        },
        request_latency: request_latency(&status.request_times()),
        inside: CacheInside {
            journal_commits: stats.journal_commits,
            writes_waited: stats.writes_waited,
            checkpoints: stats.checkpoints,
            contended_writes: stats.contended_writes,
            shared_fills: stats.shared_fills,
            killed_fills: stats.killed_fills,
            retrusted_blocks: stats.retrusted_blocks,
            landed_bytes: stats.in_place_bytes,
            reads_repeated: stats.reads_repeated,
        },
        ..bare
    }
}

/// What the flash of its cache has of a disk that is not attached; none if that is not known. Asks no file system of an
/// origin, which may not answer.
pub(super) fn kept(entry: &Entry, shard: &ShardStatus, folders: &Folders) -> Option<KeptOnFlash> {
    let kept = shard.kept.as_ref()?;
    let kept = kept.iter().find(|kept| kept.id == entry.id);
    let record = entry.record.as_ref();
    Some(KeptOnFlash {
        cached_blocks: kept.map_or(0, |kept| kept.cached_blocks),
        dirty_bytes: kept.map_or(0, |kept| kept.dirty.get()),
        locked: kept.and_then(|kept| Some(kept.locked?.to_string())),
        owner_record: record.map(|path| path.display().to_string()),
        has_data_key: keys::key_store(&folders.state).has(entry.id),
    })
}

fn request_memory(budget: &BudgetStatus) -> RequestMemory {
    RequestMemory {
        limit_bytes: budget.limit.get(),
        taken_bytes: budget.taken.get(),
        waiting: budget.waiting as u64,
        waits: budget.waits,
        refused: budget.refused,
    }
}

/// A disk; if its shard serves it, as that said at `now` of its own clock.
pub(super) fn disk(entry: &Entry, served: Option<(&shard::DiskStatus, Instant)>) -> DiskStatus {
    let reason = match &entry.phase {
        Phase::Waiting { why } => Some(why.in_a_line()),
        Phase::Standby { .. } => entry.owes.as_ref().map(api::types::Problem::in_a_line),
        Phase::Attached { .. } => {
            let without_back = entry.without_back.as_ref();
            let without_back =
                without_back.map(|why| format!("without write-back: {}", why.in_a_line()));
            let owes = entry.owes.as_ref().map(api::types::Problem::in_a_line);
            let both: Vec<_> = owes.into_iter().chain(without_back).collect();
            (!both.is_empty()).then(|| both.join("; "))
        }
        _ => None,
    };
    let bare = DiskStatus {
        name: entry.config.name.clone(),
        id: entry.id.to_string(),
        vm: entry.vm(),
        cache: entry.cache.clone(),
        origin: canonical_origin(&entry.config.origin),
        source: entry.source,
        state: entry.phase.state(),
        reason,
        owes_record: entry.owes.is_some(),
        size_bytes: entry.config.size.map(|size| size.0.get()),
        write_policy: entry.config.write_policy,
        write_back: None,
        kept: None,
        limits: limits(entry.config.limits.settings(), Throttled::default()),
        changed: Vec::new(),
        read_only: entry.config.read_only || entry.config.shared,
        shared: entry.config.shared,
        connections: 0,
        nbd_socket: None,
        vhost_user: VhostUser {
            sector_bytes: entry.config.vhost_user.sector_size.0.get(),
            serial: serial(&entry.config),
            ..VhostUser::default()
        },
        origin_connected: false,
        late_write_bytes: 0,
        warm_blocks: 0,
        dropped: None,
        cached_blocks: 0,
        counters: DiskCounters::default(),
        latency: DiskLatency::default(),
    };
    match served {
        Some((served, now)) => served_disk(bare, served, now),
        None => bare,
    }
}

fn served_disk(bare: DiskStatus, served: &shard::DiskStatus, now: Instant) -> DiskStatus {
    let stats = &served.stats;
    let vhost = served.over(vhost_user::FRONT_END);
    let late_flash = || "without write-back: the flash is late with writes".to_owned();
    let is_bypassed = served.dirty.is_bypassed;
    DiskStatus {
        reason: bare.reason.or_else(|| is_bypassed.then(late_flash)),
        size_bytes: Some(served.size.get()),
        write_policy: served.policy.into(),
        write_back: write_back(served, now),
        limits: limits(served.limits, served.throttled),
        read_only: served.read_only,
        connections: served.connections as u64,
        vhost_user: VhostUser {
            connections: vhost.connections as u64,
            waiting: vhost.waiting as u64,
            queues: vhost.queues as u64,
            requests_in_flight: vhost.in_flight as u64,
            requests_taken: vhost.counters.chains,
            kicks: vhost.counters.kicks,
            interrupts: vhost.counters.interrupts,
            requests_resumed: vhost.counters.resumed,
            queues_broken: vhost.counters.broken,
            ..bare.vhost_user
        },
        origin_connected: served.origin_connected,
        late_write_bytes: served.late_bytes.get(),
        warm_blocks: served.warm_blocks,
        dropped: served.dropped.map(|reason| dropped(reason).to_owned()),
        cached_blocks: stats.cached_blocks,
        counters: DiskCounters {
            read_requests: stats.read_requests,
            write_requests: stats.write_requests,
            flush_requests: stats.flush_requests,
            erase_requests: stats.erase_requests,
            failed_requests: served.failed_requests,
            read_bytes: stats.read_bytes,
            written_bytes: stats.written_bytes,
            read_block_hits: stats.read_block_hits,
            read_block_staged_hits: stats.read_block_staged_hits,
            read_block_hot_hits: stats.read_block_hot_hits,
            read_block_ahead_hits: stats.read_block_ahead_hits,
            read_block_misses: stats.read_block_misses,
            flash_written_bytes: stats.flash_written_bytes,
            origin_read_bytes: stats.origin_read_bytes,
            origin_written_bytes: stats.origin_written_bytes,
            origin_errors: stats.origin_errors,
            destaged_bytes: stats.destaged_bytes,
            stalled_writes: stats.stalled_writes,
        },
        latency: request_latency(&served.request_times()),
        ..bare
    }
}

fn limits(limits: Limits, throttled: Throttled) -> DiskLimits {
    DiskLimits {
        iops: limits.operations.map(NonZeroU64::get),
        bytes_per_second: limits.bytes.map(NonZeroU64::get),
        burst_seconds: seconds(limits.burst),
        waiting_requests: throttled.waiting as u64,
        throttled_requests: throttled.requests,
        throttled_seconds: seconds(throttled.time),
    }
}

/// Blocks read that were here, on flash or in memory.
pub(super) fn found(stats: &cache::DiskStats) -> u64 {
    let in_memory = stats.read_block_staged_hits + stats.read_block_hot_hits;
    stats.read_block_hits + in_memory + stats.read_block_ahead_hits
}

/// Whether a disk keeps something from its origin, or may.
pub(super) fn keeps(served: &shard::DiskStatus) -> bool {
    let is_locked = matches!(served.dirty.state, cache::DestageState::Locked(_));
    served.policy == cache::WritePolicy::Back || is_locked || !served.dirty.logged.is_zero()
}

/// What a disk keeps from its origin; none for one that keeps nothing.
fn write_back(served: &shard::DiskStatus, now: Instant) -> Option<WriteBackStatus> {
    if !keeps(served) {
        return None;
    }
    let (dirty, settings) = (&served.dirty, &served.write_back);
    let (state, reason, failing) = destage(dirty.state, now);
    Some(WriteBackStatus {
        settings: WriteBackSettings {
            order: settings.order.into(),
            dirty_max_bytes: settings.dirty_max.get(),
            age_max_seconds: seconds(settings.age_max),
            idle_after_seconds: seconds(settings.idle_after),
            rate_bytes_per_second: settings.rate.map(units::Bytes::get),
            stall_max_seconds: seconds(settings.stall_max),
        },
        state,
        reason,
        failing_seconds: failing.map(seconds),
        dirty_bytes: dirty.distinct.get(),
        log_bytes: dirty.logged.get(),
        oldest_seconds: dirty.oldest.map(seconds),
        intervals: dirty.intervals,
        destaged_bytes: dirty.destaged.get(),
        stalled_writes: dirty.stalls,
        epoch: dirty.epoch,
    })
}

/// What the transfer does, why, and for how long it has failed.
pub(super) fn destage(
    state: cache::DestageState,
    now: Instant,
) -> (DestageState, Option<String>, Option<Duration>) {
    let plain = |state| (state, None, None);
    match state {
        cache::DestageState::Idle => plain(DestageState::Idle),
        cache::DestageState::Running => plain(DestageState::Running),
        cache::DestageState::PausedByRate => plain(DestageState::PausedByRate),
        cache::DestageState::PausedByLatency => plain(DestageState::PausedByLatency),
        cache::DestageState::Draining => plain(DestageState::Draining),
        cache::DestageState::Failing { since, error } => {
            let reason = format!("the origin does not take what it lacks: {error}");
            (DestageState::Failing, Some(reason), Some(now.since(since)))
        }
        cache::DestageState::Locked(reason) => {
            (DestageState::Locked, Some(reason.to_string()), None)
        }
    }
}

fn dropped(reason: DropReason) -> &'static str {
    match reason {
        DropReason::SizeChanged => "the origin's size is not what it was",
        DropReason::OtherOwner => "another cache had the disk meanwhile",
        DropReason::LogDamaged => "its dirty log was damaged, after the origin had got all of it",
        DropReason::OriginChanged => "the origin was changed while the disk was detached",
        DropReason::KeyChanged => "they were encrypted by another key, or not encrypted",
    }
}

fn request_latency(times: &RequestTimes) -> DiskLatency {
    let RequestTimes { guest, origin } = times;
    DiskLatency {
        guest_read: latency(&guest.read),
        guest_write: latency(&guest.write),
        guest_flush: latency(&guest.flush),
        origin_read: latency(&origin.read),
        origin_write: latency(&origin.write),
    }
}

pub(super) fn latency(histogram: &Histogram) -> Latency {
    Latency {
        count: histogram.count(),
        sum_seconds: nanoseconds(histogram.sum_nanos()),
        p50_seconds: seconds(histogram.quantile(500)),
        p99_seconds: seconds(histogram.quantile(990)),
        max_seconds: seconds(histogram.longest()),
        buckets: histogram
            .buckets()
            .map(|bucket| LatencyBucket {
                to_seconds: seconds(bucket.to),
                count: bucket.count,
            })
            .collect(),
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    time.to_std().as_secs_f64()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a sum of times is not needed to the nanosecond"
)]
fn nanoseconds(time: u128) -> f64 {
    time as f64 / 1e9
}
