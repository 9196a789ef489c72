//! Answers of a made-up daemon, for tests of what reads them.

use super::types::{
    CacheInside, CacheState, CacheStatus, DiskCounters, DiskLatency, DiskSource, DiskState,
    DiskStatus, Disks, FlashLatency, FlashWrittenBytes, Latency, LatencyBucket, Listener,
    Recording, RecordingState, RefusedBlocks, RequestsTraced, SegmentCounts, Status,
};
use crate::config::{Name, ReclaimPolicy, WritePolicy};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn latency(count: u64) -> Latency {
    Latency {
        count,
        sum_seconds: 0.000_1 * crate::cli::quantity::approximate(count),
        p50_seconds: 0.000_08,
        p99_seconds: 0.002,
        max_seconds: 0.011,
        buckets: vec![
            LatencyBucket {
                to_seconds: 0.000_08,
                count: count - 2,
            },
            LatencyBucket {
                to_seconds: 0.002,
                count: 2,
            },
        ],
    }
}

pub(crate) fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid: 4711,
        uptime_seconds: 93_784.5,
        disks: 2,
        nbd_connections: 3,
        listeners: vec![Listener {
            address: "nbd+unix:///?socket=/run/hearth/nbd.sock".to_owned(),
            tls_required: false,
        }],
        caches: vec![cache()],
        recording: Some(recording()),
        requests_traced: RequestsTraced {
            recorded: 12_345,
            lost: 6,
        },
    }
}

pub(crate) fn recording() -> Recording {
    Recording {
        output: "/var/lib/hearth/monday.csv.zst".to_owned(),
        state: RecordingState::Recording,
        reason: None,
        disks: vec![name("web-1")],
        sample_one_in: 100,
        size_bytes_max: 1 << 30,
        duration_seconds_max: Some(600.0),
        duration_seconds: 42.5,
        requests: 12_300,
        rows: 160,
        lost_requests: 6,
        written_bytes: 2048,
    }
}

fn cache() -> CacheStatus {
    CacheStatus {
        name: name("main"),
        path: "/var/cache/hearth/main.flash".to_owned(),
        state: CacheState::Serving,
        reason: None,
        reclaim: ReclaimPolicy::Clock,
        flash_bytes: 10 << 30,
        cached_blocks: 1_000_000,
        blocks_max: 2_600_000,
        memory_bytes: 30 << 20,
        waiting_bytes: 1 << 20,
        recovery_seconds: 0.41,
        recovered_blocks: 990_000,
        recovery_lost_blocks: 3,
        segments: SegmentCounts {
            free: 40,
            open: 2,
            closed: 1200,
            reclaiming: 1,
        },
        flash_written_bytes: FlashWrittenBytes {
            fill: 5 << 30,
            update: 1 << 30,
            reclaim: 300 << 20,
            descriptors: 30 << 20,
            journal: 2 << 20,
            checkpoint: 0,
        },
        flash_read_bytes: 60 << 30,
        reclaim_read_bytes: 900 << 20,
        segments_reclaimed: 12,
        kept_blocks: 700,
        evicted_blocks: 9000,
        refused_blocks: RefusedBlocks::default(),
        checksum_errors: 0,
        flash_errors: 1,
        flash_timeouts: 0,
        flash_latency: FlashLatency {
            read: latency(5000),
            write: latency(900),
        },
        inside: CacheInside {
            journal_commits: 77,
            ..CacheInside::default()
        },
    }
}

fn disk(text: &str) -> DiskStatus {
    DiskStatus {
        name: name(text),
        id: "00112233445566778899aabbccddeeff".to_owned(),
        vm: name(text),
        cache: name("main"),
        origin: format!("nbd://storage:10809/{text}"),
        source: DiskSource::Config,
        state: DiskState::Attached,
        reason: None,
        size_bytes: Some(20 << 30),
        write_policy: WritePolicy::Through,
        read_only: false,
        connections: 1,
        origin_connected: true,
        warm_blocks: 500_000,
        dropped: None,
        cached_blocks: 600_000,
        counters: DiskCounters {
            read_requests: 12_000,
            write_requests: 3000,
            flush_requests: 40,
            read_bytes: 12_000 * 8192,
            written_bytes: 3000 * 4096,
            read_block_hits: 22_000,
            read_block_misses: 2000,
            origin_read_bytes: 2000 * 4096,
            origin_written_bytes: 3000 * 4096,
            ..DiskCounters::default()
        },
        latency: DiskLatency {
            guest_read: latency(12_000),
            guest_write: latency(3000),
            guest_flush: latency(40),
            origin_read: latency(1500),
            origin_write: latency(3040),
        },
    }
}

pub(crate) fn disks() -> Disks {
    let mut waiting = disk("db");
    waiting.state = DiskState::Waiting;
    waiting.reason =
        Some("cannot reach origin nbd://storage:10809/db: connection refused".to_owned());
    waiting.size_bytes = None;
    waiting.source = DiskSource::Runtime;
    waiting.vm = name("database");
    waiting.counters = DiskCounters::default();
    waiting.latency = DiskLatency::default();
    waiting.cached_blocks = 0;
    waiting.connections = 0;
    Disks {
        disks: vec![disk("web-1"), waiting],
    }
}
