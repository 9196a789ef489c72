//! Every metric: name, unit, kind, meaning, labels, and where its values come from.

use super::encode::Number;
use super::family::{Family, Read, Series, caches, disks, disks_here};
use api::types::{CacheState, DiskCounters, DiskState, RecordingState};

/// Picks one of a disk's counters.
type Pick = fn(&DiskCounters) -> u64;

const CACHE: &[&str] = &["cache"];
const DISK: &[&str] = &["disk", "vm", "cache"];
const DISK_OP: &[&str] = &["disk", "vm", "cache", "op"];

/// A counter of each cache that is a field of [`api::types::CacheStatus`].
macro_rules! cache_counter {
    ($name:literal, $unit:expr, $help:literal, $($field:ident).+) => {
        Family { name: $name, unit: $unit, help: $help, labels: CACHE, read: Read::Counter(|snapshot, out| {
            caches(snapshot, out, None, |cache| Number::Whole(cache.$($field).+));
        }) }
    };
}

/// A gauge of each cache that is a field of [`api::types::CacheStatus`].
macro_rules! cache_gauge {
    ($name:literal, $unit:expr, $help:literal, $($field:ident).+) => {
        Family { name: $name, unit: $unit, help: $help, labels: CACHE, read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, None, |cache| Number::Whole(cache.$($field).+));
        }) }
    };
}

/// A counter of each disk that is a field of [`DiskCounters`].
macro_rules! disk_counter {
    ($name:literal, $unit:expr, $help:literal, $field:ident) => {
        Family {
            name: $name,
            unit: $unit,
            help: $help,
            labels: DISK,
            read: Read::Counter(|snapshot, out| {
                disks(snapshot, out, None, |disk| {
                    Number::Whole(disk.counters.$field)
                });
            }),
        }
    };
}

/// Every metric, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "build_info",
        unit: None,
        help: "The version that runs; always 1",
        labels: &["version"],
        read: Read::Gauge(|snapshot, out| {
            out.push(Series {
                labels: vec![("version", &snapshot.status.version)],
                value: Number::Whole(1),
            });
        }),
    },
    Family {
        name: "uptime",
        unit: Some("seconds"),
        help: "How long the daemon has run",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            out.push(Series {
                labels: Vec::new(),
                value: Number::Real(snapshot.status.uptime_seconds),
            });
        }),
    },
    Family {
        name: "nbd_connections",
        unit: None,
        help: "NBD connections to disks",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            out.push(Series {
                labels: Vec::new(),
                value: Number::Whole(snapshot.status.nbd_connections),
            });
        }),
    },
    Family {
        name: "trace_recording",
        unit: None,
        help: "1 while a recording of guests' requests is under way",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            let recording = snapshot.status.recording.as_ref();
            let is_on = recording.is_some_and(|one| one.state == RecordingState::Recording);
            out.push(Series {
                labels: Vec::new(),
                value: Number::Whole(u64::from(is_on)),
            });
        }),
    },
    Family {
        name: "trace_requests",
        unit: None,
        help: "Requests that recordings took in, and lost because they could not keep up, by result: recorded, lost",
        labels: &["result"],
        read: Read::Counter(|snapshot, out| {
            let traced = snapshot.status.requests_traced;
            for (result, count) in [("recorded", traced.recorded), ("lost", traced.lost)] {
                out.push(Series {
                    labels: vec![("result", result)],
                    value: Number::Whole(count),
                });
            }
        }),
    },
    Family {
        name: "cache_bypassed",
        unit: None,
        help: "1 if the flash cannot be used and requests go to the origin",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, None, |cache| {
                Number::Whole(u64::from(cache.state == CacheState::Bypassed))
            });
        }),
    },
    cache_gauge!(
        "cache_flash_size",
        Some("bytes"),
        "Size of the flash",
        flash_bytes
    ),
    cache_gauge!(
        "cache_cached_blocks",
        None,
        "Blocks of 4096 bytes on flash",
        cached_blocks
    ),
    cache_gauge!(
        "cache_blocks_max",
        None,
        "Blocks that the segments can hold",
        blocks_max
    ),
    cache_gauge!(
        "cache_memory",
        Some("bytes"),
        "Main memory for all that is remembered of blocks on flash",
        memory_bytes
    ),
    Family {
        name: "memory_frames",
        unit: None,
        help: "Blocks in main memory, by why they are there: staged, ahead (prefetched), hot",
        labels: &["cache", "kind"],
        read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, Some(("kind", "staged")), |cache| {
                Number::Whole(cache.memory_frames.staged)
            });
            caches(snapshot, out, Some(("kind", "ahead")), |cache| {
                Number::Whole(cache.memory_frames.ahead)
            });
            caches(snapshot, out, Some(("kind", "hot")), |cache| {
                Number::Whole(cache.memory_frames.hot)
            });
        }),
    },
    Family {
        name: "cache_segments",
        unit: None,
        help: "Segments by state: free, open, closed, reclaiming",
        labels: &["cache", "state"],
        read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, Some(("state", "free")), |cache| {
                Number::Whole(cache.segments.free)
            });
            caches(snapshot, out, Some(("state", "open")), |cache| {
                Number::Whole(cache.segments.open)
            });
            caches(snapshot, out, Some(("state", "closed")), |cache| {
                Number::Whole(cache.segments.closed)
            });
            caches(snapshot, out, Some(("state", "reclaiming")), |cache| {
                Number::Whole(cache.segments.reclaiming)
            });
        }),
    },
    Family {
        name: "cache_recovery",
        unit: Some("seconds"),
        help: "How long recovery took at the start",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            caches(snapshot, out, None, |cache| {
                Number::Real(cache.recovery_seconds)
            });
        }),
    },
    cache_gauge!(
        "cache_recovered_blocks",
        None,
        "Blocks that recovery found",
        recovered_blocks
    ),
    Family {
        name: "flash_written",
        unit: Some("bytes"),
        help: "Bytes written to flash by cause: fill, update, reclaim, dirty, descriptors, journal, checkpoint",
        labels: &["cache", "cause"],
        read: Read::Counter(|snapshot, out| {
            for cache in &snapshot.status.caches {
                for (cause, bytes) in cache.flash_written_bytes.causes() {
                    out.push(Series {
                        labels: vec![("cache", cache.name.as_str()), ("cause", cause)],
                        value: Number::Whole(bytes),
                    });
                }
            }
        }),
    },
    Family {
        name: "flash_read",
        unit: Some("bytes"),
        help: "Bytes read from flash by cause: guest, reclaim",
        labels: &["cache", "cause"],
        read: Read::Counter(|snapshot, out| {
            caches(snapshot, out, Some(("cause", "guest")), |cache| {
                Number::Whole(cache.flash_read_bytes)
            });
            caches(snapshot, out, Some(("cause", "reclaim")), |cache| {
                Number::Whole(cache.reclaim_read_bytes)
            });
        }),
    },
    cache_counter!(
        "flash_errors",
        None,
        "Flash operations that failed",
        flash_errors
    ),
    cache_counter!(
        "flash_timeouts",
        None,
        "Flash operations that took too long",
        flash_timeouts
    ),
    cache_counter!(
        "flash_taken_back",
        None,
        "Times that the flash was taken back, warm, after writes of it had been late",
        flash_taken_back
    ),
    cache_counter!(
        "flash_checksum_errors",
        None,
        "Blocks read from flash whose checksum was wrong; they came from the origin",
        checksum_errors
    ),
    cache_counter!(
        "cache_reclaimed_segments",
        None,
        "Segments that were reclaimed",
        segments_reclaimed
    ),
    cache_counter!(
        "cache_kept_blocks",
        None,
        "Blocks that reclaim wrote again",
        kept_blocks
    ),
    cache_counter!(
        "cache_evicted_blocks",
        None,
        "Blocks that reclaim dropped",
        evicted_blocks
    ),
    Family {
        name: "cache_refused_blocks",
        unit: None,
        help: "Blocks that were fetched and not kept, by reason: no_segment, write_buffer, index_full, settings",
        labels: &["cache", "reason"],
        read: Read::Counter(|snapshot, out| {
            for cache in &snapshot.status.caches {
                for (reason, blocks) in cache.refused_blocks.reasons() {
                    out.push(Series {
                        labels: vec![("cache", cache.name.as_str()), ("reason", reason)],
                        value: Number::Whole(blocks),
                    });
                }
            }
        }),
    },
    cache_counter!(
        "cache_journal_commits",
        None,
        "Journal commits",
        inside.journal_commits
    ),
    cache_counter!(
        "cache_waited_writes",
        None,
        "Guest writes that waited for a journal commit",
        inside.writes_waited
    ),
    cache_counter!(
        "cache_contended_writes",
        None,
        "Writes that found another write to the same block in flight",
        inside.contended_writes
    ),
    cache_counter!(
        "cache_checkpoints",
        None,
        "Complete checkpoints",
        inside.checkpoints
    ),
    cache_counter!(
        "cache_shared_fills",
        None,
        "Reads that shared a fetch that was under way",
        inside.shared_fills
    ),
    cache_counter!(
        "cache_killed_fills",
        None,
        "Fetches whose blocks were written meanwhile and therefore not kept",
        inside.killed_fills
    ),
    cache_counter!(
        "cache_retrusted_blocks",
        None,
        "Rewritten blocks that came to rest and are trusted again after a crash",
        inside.retrusted_blocks
    ),
    cache_counter!(
        "cache_landed",
        Some("bytes"),
        "Bytes read from flash directly into the memory of VMs, verified there; of flash_read_bytes",
        inside.landed_bytes
    ),
    cache_counter!(
        "cache_repeated_reads",
        None,
        "Reads from flash done again, since what lay in the VM's memory was not what was written",
        inside.reads_repeated
    ),
    Family {
        name: "disk_attached",
        unit: None,
        help: "1 if VMs can attach, 0 while the origin cannot be opened; no series of a disk that another host has",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            disks_here(snapshot, out, |disk| {
                Number::Whole(u64::from(disk.state == DiskState::Attached))
            });
        }),
    },
    Family {
        name: "disk_size",
        unit: Some("bytes"),
        help: "Size of the disk",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            disks(snapshot, out, None, |disk| {
                Number::Whole(disk.size_bytes.unwrap_or(0))
            });
        }),
    },
    Family {
        name: "disk_cached_blocks",
        unit: None,
        help: "Blocks of 4096 bytes of the disk on flash",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            disks(snapshot, out, None, |disk| {
                Number::Whole(disk.cached_blocks)
            });
        }),
    },
    Family {
        name: "disk_requests",
        unit: None,
        help: "Guests' requests by op: read, write, flush, erase (discard and write-zeroes)",
        labels: DISK_OP,
        read: Read::Counter(|snapshot, out| {
            let ops: [(&str, Pick); 4] = [
                ("read", |counters| counters.read_requests),
                ("write", |counters| counters.write_requests),
                ("flush", |counters| counters.flush_requests),
                ("erase", |counters| counters.erase_requests),
            ];
            for (op, of) in ops {
                disks(snapshot, out, Some(("op", op)), |disk| {
                    Number::Whole(of(&disk.counters))
                });
            }
        }),
    },
    disk_counter!(
        "disk_failed_requests",
        None,
        "Guests' requests that ended with an error",
        failed_requests
    ),
    disk_counter!(
        "disk_read",
        Some("bytes"),
        "Bytes that guests read",
        read_bytes
    ),
    disk_counter!(
        "disk_written",
        Some("bytes"),
        "Bytes that guests wrote",
        written_bytes
    ),
    Family {
        name: "disk_read_blocks",
        unit: None,
        help: "Blocks, or parts of one, that guests read",
        labels: DISK,
        read: Read::Counter(|snapshot, out| {
            disks(snapshot, out, None, |disk| {
                Number::Whole(disk.counters.read_blocks())
            });
        }),
    },
    disk_counter!(
        "disk_read_block_hits",
        None,
        "Blocks, or parts of one, that guests read and that were on flash",
        read_block_hits
    ),
    Family {
        name: "disk_read_block_memory_hits",
        unit: None,
        help: "Blocks, or parts of one, that guests read from memory, by why they were there: staged, hot, ahead (prefetched)",
        labels: &["disk", "vm", "cache", "kind"],
        read: Read::Counter(|snapshot, out| {
            disks(snapshot, out, Some(("kind", "staged")), |disk| {
                Number::Whole(disk.counters.read_block_staged_hits)
            });
            disks(snapshot, out, Some(("kind", "hot")), |disk| {
                Number::Whole(disk.counters.read_block_hot_hits)
            });
            disks(snapshot, out, Some(("kind", "ahead")), |disk| {
                Number::Whole(disk.counters.read_block_ahead_hits)
            });
        }),
    },
    disk_counter!(
        "disk_flash_written",
        Some("bytes"),
        "Bytes of the disk's blocks written to flash by fills and updates",
        flash_written_bytes
    ),
    Family {
        name: "origin_connected",
        unit: None,
        help: "1 if the origin can be reached, as far as is known; no series of a disk that another host has",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            disks_here(snapshot, out, |disk| {
                Number::Whole(u64::from(disk.origin_connected))
            });
        }),
    },
    Family {
        name: "origin_late_write",
        unit: Some("bytes"),
        help: "Bytes of writes that were given up and that the origin may still carry out; requests of their ranges wait",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            disks(snapshot, out, None, |disk| {
                Number::Whole(disk.late_write_bytes)
            });
        }),
    },
    disk_counter!(
        "origin_read",
        Some("bytes"),
        "Bytes read from the origin",
        origin_read_bytes
    ),
    disk_counter!(
        "origin_written",
        Some("bytes"),
        "Bytes written to the origin",
        origin_written_bytes
    ),
    disk_counter!(
        "origin_errors",
        None,
        "Origin operations that failed",
        origin_errors
    ),
];
