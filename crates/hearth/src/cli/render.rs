//! Answers of the admin API as text.

use super::quantity;
use super::table::{Side, Table, facts};
use crate::api::types::{CacheState, CacheStatus, DiskState, DiskStatus, Disks, Latency, Status};
use std::fmt::{self, Write};

/// `hearth status`.
pub(crate) fn status(out: &mut String, status: &Status) -> fmt::Result {
    writeln!(
        out,
        "hearth {} (pid {}), up {}: {} disks, {} NBD connections",
        status.version,
        status.pid,
        quantity::uptime(status.uptime_seconds),
        status.disks,
        status.nbd_connections
    )?;
    for listener in &status.listeners {
        let tls = if listener.tls_required {
            " (TLS required)"
        } else {
            ""
        };
        writeln!(out, "listening on {}{tls}", listener.address)?;
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
    let mut lines = vec![(
        "  flash",
        format!("{} ({})", cache.path, quantity::bytes(cache.flash_bytes)),
    )];
    if let Some(reason) = &cache.reason {
        lines.push(("  reason", reason.clone()));
    }
    let segments = &cache.segments;
    lines.extend([
        (
            "  cached",
            format!(
                "{} blocks of {} ({})",
                cache.cached_blocks,
                cache.blocks_max,
                quantity::bytes(cache.cached_blocks.saturating_mul(units::BLOCK_BYTES))
            ),
        ),
        (
            "  recovered",
            format!(
                "{} blocks in {}",
                cache.recovered_blocks,
                quantity::seconds(cache.recovery_seconds)
            ),
        ),
        ("  memory", quantity::bytes(cache.memory_bytes)),
        (
            "  segments",
            format!(
                "{} free, {} open, {} closed; {} reclaimed ({})",
                segments.free,
                segments.open,
                segments.closed,
                cache.segments_reclaimed,
                policy_word(cache)
            ),
        ),
        ("  flash written", causes(cache)),
        (
            "  flash read",
            format!(
                "{} for guests, {} by reclaim",
                quantity::bytes(cache.flash_read_bytes),
                quantity::bytes(cache.reclaim_read_bytes)
            ),
        ),
        (
            "  flash latency",
            format!(
                "read {}; write {}",
                latency(&cache.flash_latency.read),
                latency(&cache.flash_latency.write)
            ),
        ),
        (
            "  flash trouble",
            format!(
                "{} errors, {} too slow, {} wrong checksums",
                cache.flash_errors, cache.flash_timeouts, cache.checksum_errors
            ),
        ),
    ]);
    facts(out, &lines)
}

fn policy_word(cache: &CacheStatus) -> &'static str {
    match cache.reclaim {
        crate::config::ReclaimPolicy::Clock => "clock",
        crate::config::ReclaimPolicy::Fifo => "fifo",
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
        quantity::seconds(latency.p50_seconds),
        quantity::seconds(latency.p99_seconds),
        quantity::seconds(latency.max_seconds)
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
        ("origin", Side::Left),
    ]);
    for disk in &disks.disks {
        let counters = &disk.counters;
        let blocks = counters.read_block_hits + counters.read_block_misses;
        table.row(vec![
            disk.name.to_string(),
            disk.vm.to_string(),
            disk.cache.to_string(),
            disk.size_bytes.map_or("?".to_owned(), quantity::bytes),
            policy(disk),
            state(disk).to_owned(),
            disk.connections.to_string(),
            quantity::bytes(disk.cached_blocks.saturating_mul(units::BLOCK_BYTES)),
            quantity::percent(counters.read_block_hits, blocks),
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
    match (disk.state, disk.origin_connected) {
        (DiskState::Attached, true) => "attached",
        (DiskState::Attached, false) => "origin lost",
        (DiskState::Waiting, _) => "waiting",
        (DiskState::Attaching, _) => "attaching",
        (DiskState::Detaching, _) => "detaching",
    }
}

/// `hearth disk show`.
pub(crate) fn disk(out: &mut String, disk: &DiskStatus) -> fmt::Result {
    let counters = &disk.counters;
    let times = &disk.latency;
    let blocks = counters.read_block_hits + counters.read_block_misses;
    let bytes = quantity::bytes;
    let source = match disk.source {
        crate::api::types::DiskSource::Config => "the configuration file",
        crate::api::types::DiskSource::Runtime => "the admin API, remembered over restarts",
    };
    let mut lines = vec![
        ("disk", disk.name.to_string()),
        ("id", disk.id.clone()),
        ("vm", disk.vm.to_string()),
        ("cache", disk.cache.to_string()),
        ("origin", disk.origin.clone()),
        ("size", disk.size_bytes.map_or("unknown".to_owned(), bytes)),
        ("writes", policy(disk)),
        ("attached by", source.to_owned()),
        ("state", state(disk).to_owned()),
    ];
    if let Some(reason) = &disk.reason {
        lines.push(("reason", reason.clone()));
    }
    if let Some(dropped) = &disk.dropped {
        lines.push(("not warm", dropped.clone()));
    }
    lines.extend([
        ("connections", disk.connections.to_string()),
        (
            "cached",
            format!(
                "{} blocks ({}), {} of them since before",
                disk.cached_blocks,
                bytes(disk.cached_blocks.saturating_mul(units::BLOCK_BYTES)),
                disk.warm_blocks
            ),
        ),
        (
            "reads",
            format!(
                "{} requests, {}",
                counters.read_requests,
                bytes(counters.read_bytes)
            ),
        ),
        (
            "writes done",
            format!(
                "{} requests, {}",
                counters.write_requests,
                bytes(counters.written_bytes)
            ),
        ),
        ("flushes", counters.flush_requests.to_string()),
        ("erasures", counters.erase_requests.to_string()),
        ("failed", counters.failed_requests.to_string()),
        (
            "hits",
            format!(
                "{} of {blocks} blocks ({})",
                counters.read_block_hits,
                quantity::percent(counters.read_block_hits, blocks)
            ),
        ),
        (
            "origin",
            format!(
                "{} read, {} written, {} errors",
                bytes(counters.origin_read_bytes),
                bytes(counters.origin_written_bytes),
                counters.origin_errors
            ),
        ),
        ("guest read", latency(&times.guest_read)),
        ("guest write", latency(&times.guest_write)),
        ("guest flush", latency(&times.guest_flush)),
        ("origin read", latency(&times.origin_read)),
        ("origin write", latency(&times.origin_write)),
    ]);
    facts(out, &lines)
}
