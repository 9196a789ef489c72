//! The metrics of time: of each cache in fine buckets; of each disk sums, and buckets only in detail.

use super::encode::{BUCKET_SECONDS, Buckets, DISK_BUCKET_SECONDS, Number};
use super::family::{Family, Read, caches, detailed_disks, some_disks};
use api::types::{CacheStatus, DiskStatus, Latency};

const CACHE_OP: &[&str] = &["cache", "op"];
const DISK_OP: &[&str] = &["disk", "vm", "cache", "op"];

/// A histogram of each cache, a line for each `op`.
macro_rules! of_cache {
    ($name:literal, $help:literal, $($op:literal: $($field:ident).+),+) => {
        Family { name: $name, unit: Some("seconds"), help: $help, labels: CACHE_OP, read: Read::Histogram(|snapshot, out| {
            $(caches(snapshot, out, Some(("op", $op)), |cache: &CacheStatus| {
                Buckets(&cache.$($field).+, &BUCKET_SECONDS)
            });)+
        }) }
    };
}

/// What each disk has of a histogram with something in it, a line for each `op`.
macro_rules! of_disk {
    ($kind:ident($name:literal, $unit:expr, $help:literal), $which:ident, $value:expr, $($op:literal: $field:ident),+) => {
        Family { name: $name, unit: $unit, help: $help, labels: DISK_OP, read: Read::$kind(|snapshot, out| {
            $($which(snapshot, out, Some(("op", $op)), |disk: &DiskStatus| {
                let latency = &disk.latency.$field;
                (latency.count > 0).then(|| $value(latency))
            });)+
        }) }
    };
}

fn count(latency: &Latency) -> Number {
    Number::Whole(latency.count)
}

fn sum(latency: &Latency) -> Number {
    Number::Real(latency.sum_seconds)
}

fn buckets(latency: &Latency) -> Buckets<'_> {
    Buckets(latency, &DISK_BUCKET_SECONDS)
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    of_cache!(
        "flash_request",
        "Time of flash operations by op: read, write (flushes included)",
        "read": flash_latency.read,
        "write": flash_latency.write
    ),
    of_cache!(
        "cache_guest_request",
        "Time of the requests of all guests by op: read, write (discards and write-zeroes included), flush",
        "read": request_latency.guest_read,
        "write": request_latency.guest_write,
        "flush": request_latency.guest_flush
    ),
    of_cache!(
        "cache_origin_request",
        "Time of the operations of all origins by op: read, write (flushes, discards and write-zeroes included)",
        "read": request_latency.origin_read,
        "write": request_latency.origin_write
    ),
    of_disk!(
        Counter(
            "disk_request",
            Some("seconds"),
            "Time of the disk's guests' requests added up, by op as of all guests; disk_requests counts them"
        ),
        some_disks,
        sum,
        "read": guest_read,
        "write": guest_write,
        "flush": guest_flush
    ),
    of_disk!(
        Counter(
            "disk_origin_request",
            Some("seconds"),
            "Time of the disk's origin operations added up, by op as of all origins"
        ),
        some_disks,
        sum,
        "read": origin_read,
        "write": origin_write
    ),
    of_disk!(
        Counter(
            "disk_origin_requests",
            None,
            "The disk's origin operations, by op as of all origins"
        ),
        some_disks,
        count,
        "read": origin_read,
        "write": origin_write
    ),
    of_disk!(
        Histogram(
            "guest_request",
            Some("seconds"),
            "Time of the disk's guests' requests, by op as of all guests; with daemon.metrics_disk_details"
        ),
        detailed_disks,
        buckets,
        "read": guest_read,
        "write": guest_write,
        "flush": guest_flush
    ),
    of_disk!(
        Histogram(
            "origin_request",
            Some("seconds"),
            "Time of the disk's origin operations, by op as of all origins; with daemon.metrics_disk_details"
        ),
        detailed_disks,
        buckets,
        "read": origin_read,
        "write": origin_write
    ),
];
