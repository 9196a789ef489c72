//! Answers of a made-up daemon, for tests of what reads them.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only tests ask for these"
)]

mod guests;
mod resources;
mod roaming;
mod scrub;

pub use resources::resources;
pub use roaming::{roaming, roaming_disk};

use super::front_ends::{RequestMemory, VhostSocket, VhostUser};
use super::limits::DiskLimits;
use super::types::{
    CacheInside, CacheState, CacheStatus, DiskCounters, DiskLatency, DiskSource, DiskState,
    DiskStatus, Disks, FlashLatency, FlashWrittenBytes, Latency, LatencyBucket, Listener,
    MemoryFrames, Recording, RecordingState, RefusedBlocks, RequestsTraced, SegmentCounts, Status,
};
use super::vms::{
    Admission, BlockCounts, Curve, CurvePoint, Demand, FlashWritten, ImageRead, ImageReader,
    ImageStatus, ImageUse, ImageUser, PolicyStatus, Prefetch, Share, Sharing, VmCounters,
    VmSettings, VmStatus, Vms, WriteBudget,
};
use super::write_back::{DestageState, WriteBackSettings, WriteBackStatus};
use configuration::DestageOrder;
use configuration::{Name, PolicyChange, ReclaimPolicy, Staging, Switch, Text, WritePolicy};
use guests::guest;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn latency(count: u64) -> Latency {
    Latency {
        count,
        sum_seconds: 0.000_1 * units::number::real(count),
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

fn request_latency() -> DiskLatency {
    DiskLatency {
        guest_read: latency(12_000),
        guest_write: latency(3000),
        guest_flush: latency(40),
        origin_read: latency(1500),
        origin_write: latency(3040),
    }
}

/// A daemon with a cache.
pub fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid: 4711,
        uptime_seconds: 93_784.5,
        disks: 2,
        nbd_connections: 3,
        vhost_user_connections: 1,
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

/// A recording under way.
pub fn recording() -> Recording {
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
        memory_frames: MemoryFrames {
            staged: 3_000,
            ahead: 0,
            hot: 20_000,
        },
        waiting_bytes: 1 << 20,
        recovery_seconds: 0.41,
        recovered_blocks: 990_000,
        recovery_lost_blocks: 3,
        request_memory: RequestMemory {
            limit_bytes: 1 << 30,
            taken_bytes: 3 << 20,
            waits: 2,
            ..RequestMemory::default()
        },
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
            dirty: 0,
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
        flash_taken_back: 0,
        scrub: scrub::scrub(),
        flash_latency: FlashLatency {
            read: latency(5000),
            write: latency(900),
        },
        request_latency: request_latency(),
        policy: Some(policy()),
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
        owes_record: false,
        size_bytes: Some(20 << 30),
        write_policy: WritePolicy::Through,
        write_back: None,
        limits: DiskLimits {
            burst_seconds: 0.1,
            ..DiskLimits::default()
        },
        kept: None,
        changed: Vec::new(),
        read_only: false,
        shared: false,
        connections: 1,
        nbd_socket: None,
        vhost_user: VhostUser {
            sockets: vec![VhostSocket {
                path: format!("/run/hearth/vhost/{text}.sock"),
                vm: name(text),
                error: None,
            }],
            sector_bytes: 512,
            serial: text.to_owned(),
            connections: 1,
            waiting: 0,
            queues: 4,
            requests_in_flight: 7,
            requests_taken: 15_040,
            kicks: 9000,
            interrupts: 8000,
            requests_resumed: 5,
            queues_broken: 0,
        },
        origin_connected: true,
        late_write_bytes: 0,
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
        latency: request_latency(),
    }
}

/// Its disks.
pub fn disks() -> Disks {
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
    waiting.vhost_user = VhostUser::default();
    let mut back = disk("web-1");
    back.write_policy = WritePolicy::Back;
    back.limits = DiskLimits {
        iops: Some(500),
        bytes_per_second: Some(50 << 20),
        burst_seconds: 2.0,
        waiting_requests: 4,
        throttled_requests: 1_234,
        throttled_seconds: 31.5,
    };
    back.write_back = Some(write_back());
    back.changed = vec!["write_policy".to_owned()];
    Disks {
        disks: vec![back, waiting],
    }
}

fn write_back() -> WriteBackStatus {
    WriteBackStatus {
        settings: WriteBackSettings {
            order: DestageOrder::Ordered,
            dirty_max_bytes: 1 << 30,
            age_max_seconds: 30.0,
            idle_after_seconds: 2.0,
            rate_bytes_per_second: Some(50 << 20),
            stall_max_seconds: 60.0,
        },
        state: DestageState::Failing,
        reason: Some("the origin does not take what it lacks: out of space".to_owned()),
        failing_seconds: Some(12.0),
        dirty_bytes: 200 << 20,
        log_bytes: 240 << 20,
        oldest_seconds: Some(31.5),
        intervals: 17,
        destaged_bytes: 9 << 30,
        stalled_writes: 3,
        epoch: 4,
    }
}

/// The policy of its cache.
pub fn policy() -> PolicyStatus {
    PolicyStatus {
        settings: PolicyChange {
            enabled: Some(true),
            admission: Some(Text("always".parse().unwrap())),
            staging: Some(Text(Staging::Fixed(units::Bytes::mib(64)))),
            frames: Some(Text("2GiB".parse().unwrap())),
            hot: Some(Text("s3-fifo".parse().unwrap())),
            prefetch: Some(Text("readahead".parse().unwrap())),
            write_budget: Some(Text(Switch::On("1DWPD".parse().unwrap()))),
            allocation: Some(Text("equal".parse().unwrap())),
            window: Some(Text("5min".parse().unwrap())),
            prediction: Some(Text("exp-self".parse().unwrap())),
            ..PolicyChange::default()
        },
        changed: vec!["write_budget".to_owned()],
        error: None,
        capacity_blocks: 2_500_000,
        load: 0.8,
        flash_written_day_bytes: 4 << 30,
        write_budget: Some(WriteBudget {
            bytes_per_day: 10 << 30,
            burst_bytes: 1 << 30,
            left_bytes: 1 << 30,
            debt_bytes: 0,
        }),
        memory_bytes: 20 << 20,
        saved_blocks: 150_000,
    }
}

fn admission() -> Admission {
    let refused = [
        ("budget", 0),
        ("first-touch", 12_300),
        ("sequential", 40_000),
    ];
    Admission {
        policy: "larc".to_owned(),
        staging_bytes: 16 << 20,
        admitted_blocks: 1_200_000,
        filled_blocks: 500_000,
        staged_blocks: 50_000,
        dropped_blocks: 30_000,
        withheld_blocks: 0,
        refused_blocks: refused
            .into_iter()
            .map(|(reason, blocks)| (reason.to_owned(), blocks))
            .collect(),
    }
}

/// What a VM has of its cache.
pub fn share() -> Share {
    const GIB: u64 = 1 << 18;
    let point = |size_blocks: u64, read_hit_ratio: f64| CurvePoint {
        size_blocks,
        read_hit_ratio,
        hit_ratio: read_hit_ratio * 0.9,
    };
    Share {
        prefetch: Some(Prefetch {
            fetched_blocks: 500_000,
            used_blocks: 470_000,
            told_blocks: 0,
            wasted_blocks: 29_000,
            precision: Prefetch::precision_of(470_000, 29_000),
            refused_guesses: 12_000,
            dropped_guesses: 300,
            memory_bytes: 40 << 10,
        }),
        cache: name("main"),
        error: None,
        share_blocks: 4 * GIB,
        target_blocks: 5 * GIB,
        held_blocks: 1_000_000,
        demand: Demand {
            window_seconds: 300.0,
            working_set_blocks: 3 * GIB,
            reused_blocks: 2 * GIB,
            predicted_blocks: Some(600_000.0),
            prediction_error: Some(0.08),
            reads_per_second: 1200.0,
        },
        admission: admission(),
        blocks: BlockCounts {
            reads: 4_000_000,
            flash_hits: 3_300_000,
            memory_hits: 60_000,
            writes: 700_000,
            image_reads: 100_000,
            image_hits: 90_000,
            evicted: 80_000,
        },
        flash_written_bytes: FlashWritten {
            admitted: 5 << 30,
            reclaim: 400 << 20,
            metadata: 50 << 20,
        },
        flash_written_day_bytes: 3 << 30,
        write_budget: Some(WriteBudget {
            bytes_per_day: 200 << 30,
            burst_bytes: 8 << 30,
            left_bytes: 6 << 30,
            debt_bytes: 0,
        }),
        curve: Curve {
            sampled_rate: 0.01,
            present_read_hit_ratio: 0.80,
            target_read_hit_ratio: 0.84,
            knee_blocks: Some(3 * GIB),
            points: vec![
                point(GIB, 0.4),
                point(2 * GIB, 0.65),
                point(4 * GIB, 0.8),
                point(8 * GIB, 0.9),
            ],
        },
        sharing: None,
        memory_bytes: 2 << 20,
        memory_weight: 0.5,
    }
}

fn vm_counters() -> VmCounters {
    VmCounters {
        read_requests: 12_000,
        write_requests: 3000,
        read_block_hits: 22_000,
        read_block_staged_hits: 400,
        read_block_hot_hits: 1500,
        read_block_ahead_hits: 2100,
        read_block_misses: 2000,
        origin_read_bytes: 2000 * 4096,
        flash_written_bytes: 300 << 20,
        cached_blocks: 600_000,
    }
}

/// Its VMs and base images.
pub fn vms() -> Vms {
    let read = ImageRead {
        read_requests: 900,
        read_bytes: 400 << 20,
        read_block_hits: 90_000,
        read_block_misses: 10_000,
        seen_blocks: 80_000,
        saved_blocks: 70_000,
    };
    let counters = vm_counters();
    let image = Share {
        share_blocks: 300_000,
        target_blocks: 300_000,
        held_blocks: 120_000,
        write_budget: None,
        sharing: Some(Sharing {
            shared_blocks: 60_000,
            saved_blocks: 150_000,
            users: vec![ImageUser {
                vm: "web".to_owned(),
                used_blocks: 80_000,
                shared_blocks: 60_000,
                portion_blocks: 35_000.0,
            }],
        }),
        ..share()
    };
    Vms {
        vms: vec![VmStatus {
            name: name("web"),
            disks: vec![name("web-1")],
            images: vec![ImageUse {
                image: name("debian-12"),
                export: "debian-12@web".to_owned(),
                read,
            }],
            settings: VmSettings {
                weight: 100,
                floor_bytes: 2 << 30,
                ceiling_bytes: None,
                write_budget: Some("200GiB/day".to_owned()),
                admission: None,
                high_priority: false,
            },
            changed: vec!["floor".to_owned()],
            counters,
            shares: vec![share()],
            guest: Some(guest()),
        }],
        images: vec![ImageStatus {
            name: name("debian-12"),
            cache: name("main"),
            readers: vec![ImageReader {
                vm: name("web"),
                read,
            }],
            cached_blocks: 120_000,
            saved_blocks: 70_000,
            counters,
            share: Some(image),
        }],
    }
}
