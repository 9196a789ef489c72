//! Answers of the admin API as text.

use super::{caches, front_ends, vms};
use crate::terminal::quantity;
use crate::terminal::{Side, Table, facts};
use crate::top::dirty_cells;
use api::types::{
    CacheState, CacheStatus, DiskCounters, DiskSource, DiskState, DiskStatus, Disks, Latency,
    RecordingState, Status,
};
use api::write_back::{Barrier, KeptOnFlash, WriteBackStatus};
use std::fmt::{self, Write};

/// `hearth status`.
pub(crate) fn status(out: &mut String, status: &Status) -> fmt::Result {
    writeln!(
        out,
        "hearth {} (pid {}), up {}: {}, {} NBD and {} vhost-user connections",
        status.version,
        status.pid,
        quantity::time(status.uptime_seconds),
        quantity::counted(status.disks, "disk"),
        status.nbd_connections,
        status.vhost_user_connections
    )?;
    for listener in &status.listeners {
        let tls = if listener.tls_required {
            " (TLS required)"
        } else {
            ""
        };
        writeln!(out, "listening on {}{tls}", listener.address)?;
    }
    if let Some(recording) = &status.recording
        && recording.state == RecordingState::Recording
    {
        writeln!(
            out,
            "recording to {}: {} requests, {} lost",
            recording.output, recording.requests, recording.lost_requests
        )?;
    }
    for cache in &status.caches {
        writeln!(out)?;
        cache_status(out, cache)?;
    }
    Ok(())
}

fn cache_status(out: &mut String, cache: &CacheStatus) -> fmt::Result {
    let state = match cache.state {
        CacheState::Serving => "serving",
        CacheState::Opening => "opening its flash",
        CacheState::Silent => "SILENT: its thread does not answer",
        CacheState::Bypassed => "BYPASSED: requests go to the origin",
    };
    writeln!(out, "cache {}: {state}", cache.name)?;
    let bytes = quantity::bytes;
    let mut lines = vec![(
        "  flash",
        format!("{} ({})", cache.path, bytes(cache.flash_bytes)),
    )];
    if let Some(reason) = &cache.reason {
        lines.push(("  reason", reason.clone()));
    }
    lines.extend([
        ("  cached", cached(cache)),
        ("  recovered", recovered(cache)),
        (
            "  memory",
            format!(
                "{}, and {} waiting to be written",
                bytes(cache.memory_bytes),
                bytes(cache.waiting_bytes)
            ),
        ),
        ("  requests", front_ends::memory(&cache.request_memory)),
        ("  segments", segments(cache)),
        ("  flash written", causes(cache)),
        (
            "  flash read",
            format!(
                "{} for guests, {} by reclaim",
                bytes(cache.flash_read_bytes),
                bytes(cache.reclaim_read_bytes)
            ),
        ),
        ("  read latency", latency(&cache.flash_latency.read)),
        ("  write latency", latency(&cache.flash_latency.write)),
        (
            "  trouble",
            format!(
                "{} errors, {} too slow, {} wrong checksums",
                cache.flash_errors, cache.flash_timeouts, cache.checksum_errors
            ),
        ),
    ]);
    lines.extend(super::scrub::words(&cache.scrub).map(|words| ("  scrub", words)));
    lines.extend(dividing(cache));
    facts(out, &lines)
}

/// What may enter it and how it is divided.
fn dividing(cache: &CacheStatus) -> Vec<(&'static str, String)> {
    let Some(policy) = &cache.policy else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Some(error) = &policy.error {
        lines.push(("  CLOSED", format!("nothing enters the flash: {error}")));
    }
    lines.push(("  policy", caches::words(&policy.settings, &policy.changed)));
    let divided = quantity::bytes(policy.capacity_blocks.saturating_mul(units::BLOCK_BYTES));
    let wanted = 100.0 * policy.load;
    lines.push(("  demand", format!("{wanted:.0}% of {divided} to divide")));
    if let Some(left) = &policy.write_budget {
        let day = quantity::bytes(policy.flash_written_day_bytes);
        let left = vms::budget(left);
        lines.push(("  budget", format!("{left}; {day} written in the last day")));
    }
    lines
}

fn cached(cache: &CacheStatus) -> String {
    format!(
        "{} blocks of {} ({})",
        cache.cached_blocks,
        cache.blocks_max,
        quantity::bytes(cache.cached_blocks.saturating_mul(units::BLOCK_BYTES))
    )
}

fn recovered(cache: &CacheStatus) -> String {
    format!(
        "{} blocks in {}, {} lost",
        cache.recovered_blocks,
        quantity::time(cache.recovery_seconds),
        cache.recovery_lost_blocks
    )
}

fn segments(cache: &CacheStatus) -> String {
    let segments = &cache.segments;
    format!(
        "{} free, {} open, {} closed, {} in reclaim ({}; {} so far)",
        segments.free,
        segments.open,
        segments.closed,
        segments.reclaiming,
        policy_word(cache),
        cache.segments_reclaimed
    )
}

fn policy_word(cache: &CacheStatus) -> &'static str {
    match cache.reclaim {
        configuration::ReclaimPolicy::TwinClock => "twin-clock",
        configuration::ReclaimPolicy::Clock => "clock",
        configuration::ReclaimPolicy::Fifo => "fifo",
    }
}

fn causes(cache: &CacheStatus) -> String {
    let written = &cache.flash_written_bytes;
    let parts: Vec<String> = written
        .causes()
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(cause, bytes)| format!("{cause} {}", quantity::bytes(*bytes)))
        .collect();
    if parts.is_empty() {
        return "nothing".to_owned();
    }
    format!(
        "{} ({})",
        quantity::bytes(written.total()),
        parts.join(", ")
    )
}

fn latency(latency: &Latency) -> String {
    if latency.count == 0 {
        return "-".to_owned();
    }
    format!(
        "p50 {} p99 {} max {}",
        quantity::time(latency.p50_seconds),
        quantity::time(latency.p99_seconds),
        quantity::time(latency.max_seconds)
    )
}

/// `hearth disk list`.
pub(crate) fn disks(out: &mut String, disks: &Disks) -> fmt::Result {
    let mut table = Table::new(&[
        ("disk", Side::Left),
        ("vm", Side::Left),
        ("cache", Side::Left),
        ("size", Side::Right),
        ("policy", Side::Left),
        ("state", Side::Left),
        ("conns", Side::Right),
        ("cached", Side::Right),
        ("hits", Side::Right),
        ("dirty", Side::Right),
        ("age", Side::Right),
        ("destage", Side::Left),
        ("origin", Side::Left),
    ]);
    for disk in &disks.disks {
        let counters = &disk.counters;
        let (found, blocks) = (counters.found_blocks(), counters.read_blocks());
        let back = disk.write_back.as_ref();
        let [dirty, age, destage] = dirty_cells(
            back.map(|back| back.dirty_bytes),
            back.and_then(|back| back.oldest_seconds),
            back.map(|back| back.state),
        );
        table.row(vec![
            disk.name.to_string(),
            disk.vm.to_string(),
            disk.cache.to_string(),
            disk.size_bytes.map_or("?".to_owned(), quantity::bytes),
            policy(disk),
            state(disk).to_owned(),
            disk.connections.to_string(),
            quantity::bytes(disk.cached_blocks.saturating_mul(units::BLOCK_BYTES)),
            quantity::percent(found, blocks),
            dirty,
            age,
            destage,
            disk.origin.clone(),
        ]);
    }
    write!(out, "{table}")
}

fn policy(disk: &DiskStatus) -> String {
    if disk.read_only {
        "read-only".to_owned()
    } else {
        disk.write_policy.to_string()
    }
}

fn state(disk: &DiskStatus) -> &'static str {
    let mut sockets = disk.vhost_user.sockets.iter();
    let lacks_one = sockets.any(|socket| socket.error.is_some())
        || disk
            .nbd_socket
            .as_ref()
            .is_some_and(|socket| socket.error.is_some());
    match (disk.state, disk.origin_connected) {
        (DiskState::Attached, true) if lacks_one => "no socket",
        (DiskState::Attached, true) if disk.late_write_bytes > 0 => "late writes",
        (DiskState::Attached, true) if disk.owes_record => "without store",
        (DiskState::Attached, true) if disk.reason.is_some() => "no write-back",
        (DiskState::Attached, true) => "attached",
        (DiskState::Attached, false) => "origin lost",
        (DiskState::Waiting, _) => "waiting",
        (DiskState::Standby, _) => "standby",
        (DiskState::Attaching, _) => "attaching",
        (DiskState::Detaching, _) => "detaching",
    }
}

/// `hearth disk barrier`.
pub(crate) fn barrier(out: &mut String, barrier: &Barrier) -> fmt::Result {
    writeln!(
        out,
        "the origin of {} is consistent as of {:.3} (seconds since 1970); it took {}",
        barrier.disk,
        barrier.asked_at_seconds,
        quantity::time(barrier.reached_at_seconds - barrier.asked_at_seconds)
    )
}

/// `hearth disk show`.
pub(crate) fn disk(out: &mut String, disk: &DiskStatus) -> fmt::Result {
    let bytes = quantity::bytes;
    let source = match disk.source {
        DiskSource::Config => "the configuration file",
        DiskSource::Runtime => "the admin API, remembered over restarts",
    };
    let mut lines = vec![
        ("disk", disk.name.to_string()),
        ("id", disk.id.clone()),
        ("vm", disk.vm.to_string()),
        ("cache", disk.cache.to_string()),
        ("origin", disk.origin.clone()),
        ("size", disk.size_bytes.map_or("unknown".to_owned(), bytes)),
        ("policy", policy(disk)),
        ("attached by", source.to_owned()),
        ("state", state(disk).to_owned()),
    ];
    if let Some(reason) = &disk.reason {
        lines.push(("reason", reason.clone()));
    }
    if let Some(dropped) = &disk.dropped {
        lines.push(("not warm", dropped.clone()));
    }
    if let Some(kept) = &disk.kept {
        lines.push(("on flash", self::kept(kept)));
    }
    if disk.late_write_bytes > 0 {
        let late = bytes(disk.late_write_bytes);
        let what =
            format!("{late} may still be written by the origin's server; requests there wait");
        lines.push(("late writes", what));
    }
    lines.push(("connections", disk.connections.to_string()));
    lines.extend(disk.nbd_socket.as_ref().map(front_ends::nbd));
    lines.extend(front_ends::vhost_user(&disk.vhost_user));
    lines.push((
        "cached",
        format!(
            "{} blocks ({}); {} were there when it was attached",
            disk.cached_blocks,
            bytes(disk.cached_blocks.saturating_mul(units::BLOCK_BYTES)),
            disk.warm_blocks
        ),
    ));
    lines.push(("limits", super::limits::words(&disk.limits)));
    if !disk.changed.is_empty() {
        lines.push(("changed", disk.changed.join(", ")));
    }
    facts(out, &lines)?;
    if let Some(write_back) = &disk.write_back {
        writeln!(out)?;
        facts(out, &self::write_back(write_back))?;
    }
    writeln!(out)?;
    facts(out, &disk_counters(&disk.counters))?;
    writeln!(out)?;
    let times = &disk.latency;
    facts(
        out,
        &[
            ("guest read", latency(&times.guest_read)),
            ("guest write", latency(&times.guest_write)),
            ("guest flush", latency(&times.guest_flush)),
            ("origin read", latency(&times.origin_read)),
            ("origin write", latency(&times.origin_write)),
        ],
    )
}

/// What the flash has of a disk that waits.
fn kept(kept: &KeptOnFlash) -> String {
    let mut text = format!(
        "{} cached blocks, {} that its origin may lack",
        kept.cached_blocks,
        quantity::bytes(kept.dirty_bytes)
    );
    if let Some(reason) = &kept.locked {
        text = format!("{text}; LOCKED: {reason}");
    }
    text
}

/// What a disk's origin lacks.
fn write_back(now: &WriteBackStatus) -> Vec<(&'static str, String)> {
    let (bytes, settings) = (quantity::bytes, &now.settings);
    let oldest = now.oldest_seconds.map(quantity::time);
    let mut state = now.state.word().to_owned();
    if let Some(reason) = &now.reason {
        state = format!("{}: {reason}", state.to_uppercase());
    }
    if let Some(since) = now.failing_seconds {
        state = format!("{state}, for {}", quantity::time(since));
    }
    let rate = settings.rate_bytes_per_second;
    vec![
        (
            "dirty",
            match oldest {
                Some(oldest) => format!(
                    "{} in {} intervals, the oldest for {oldest}",
                    bytes(now.dirty_bytes),
                    now.intervals
                ),
                None => bytes(now.dirty_bytes),
            },
        ),
        (
            "dirty log",
            format!(
                "{} of {}",
                bytes(now.log_bytes),
                bytes(settings.dirty_max_bytes)
            ),
        ),
        ("destage", state),
        (
            "destaged",
            format!(
                "{}; {} writes stalled",
                bytes(now.destaged_bytes),
                now.stalled_writes
            ),
        ),
        (
            "write-back",
            format!(
                "{}, within {}, when idle for {}, {}; a write waits {} at most",
                settings.order,
                quantity::time(settings.age_max_seconds),
                quantity::time(settings.idle_after_seconds),
                rate.map_or("at any rate".to_owned(), |rate| format!(
                    "at most {}/s",
                    bytes(rate)
                )),
                quantity::time(settings.stall_max_seconds)
            ),
        ),
        ("epoch", now.epoch.to_string()),
    ]
}

fn disk_counters(counters: &DiskCounters) -> [(&'static str, String); 8] {
    let bytes = quantity::bytes;
    let (found, blocks) = (counters.found_blocks(), counters.read_blocks());
    let requests = |count: u64, moved: u64| format!("{count} requests, {}", bytes(moved));
    [
        (
            "reads",
            requests(counters.read_requests, counters.read_bytes),
        ),
        (
            "writes",
            requests(counters.write_requests, counters.written_bytes),
        ),
        ("flushes", counters.flush_requests.to_string()),
        ("erasures", counters.erase_requests.to_string()),
        ("failed", counters.failed_requests.to_string()),
        (
            "hits",
            format!(
                "{found} of {blocks} blocks read ({})",
                quantity::percent(found, blocks)
            ),
        ),
        ("to flash", bytes(counters.flash_written_bytes)),
        (
            "origin",
            format!(
                "{} read, {} written, {} errors",
                bytes(counters.origin_read_bytes),
                bytes(counters.origin_written_bytes),
                counters.origin_errors
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    fn text<T>(render: fn(&mut String, &T) -> fmt::Result, answer: &T) -> String {
        let mut out = String::new();
        render(&mut out, answer).unwrap();
        out
    }

    #[test]
    fn status_looks_as_agreed() {
        assert_eq!(
            text(status, &samples::status()),
            include_str!("snapshots/status.txt")
        );
    }

    #[test]
    fn the_list_of_disks_looks_as_agreed() {
        assert_eq!(
            text(disks, &samples::disks()),
            include_str!("snapshots/disk_list.txt")
        );
    }

    #[test]
    fn a_disk_without_its_socket_is_seen_among_many() {
        let mut all = samples::disks();
        assert!(!text(disks, &all).contains("no socket"));
        all.disks[0].vhost_user.sockets[0].error = Some("somebody else listens there".to_owned());
        assert!(text(disks, &all).contains("  no socket  "));
    }

    #[test]
    fn a_disk_looks_as_agreed() {
        let disks = samples::disks().disks;
        assert_eq!(
            text(disk, &disks[0]),
            include_str!("snapshots/disk_show.txt")
        );
        assert_eq!(
            text(disk, &disks[1]),
            include_str!("snapshots/disk_show_waiting.txt")
        );
    }
}
