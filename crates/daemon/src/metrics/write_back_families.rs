//! The metrics of write-back: what waits on flash for its origin, and what keeps it there. Only disks
//! under write-back have them; counters stay when a disk leaves it.

use super::encode::Number;
use super::family::{Family, Read, detailed_disks, some_disks};
use api::types::{DiskCounters, DiskStatus};
use api::write_back::{DestageState, WriteBackStatus};

const DISK: &[&str] = &["disk", "vm", "cache"];

/// A number of a disk under write-back.
fn whole(disk: &DiskStatus, pick: fn(&WriteBackStatus) -> u64) -> Option<Number> {
    let now = disk.write_back.as_ref()?;
    Some(Number::Whole(pick(now)))
}

/// A time of a disk under write-back; zero if there is none.
fn seconds(disk: &DiskStatus, pick: fn(&WriteBackStatus) -> Option<f64>) -> Option<Number> {
    let now = disk.write_back.as_ref()?;
    Some(Number::Real(pick(now).unwrap_or(0.0)))
}

/// A count of a disk that is under write-back, or was since it was attached.
fn count(disk: &DiskStatus, pick: fn(&DiskCounters) -> u64) -> Option<Number> {
    let count = pick(&disk.counters);
    (disk.write_back.is_some() || count > 0).then_some(Number::Whole(count))
}

/// A gauge of each disk under write-back that is a number of its [`WriteBackStatus`].
macro_rules! write_back {
    ($which:ident, $name:literal, $unit:expr, $help:literal, $pick:expr) => {
        Family {
            name: $name,
            unit: $unit,
            help: $help,
            labels: DISK,
            read: Read::Gauge(|snapshot, out| {
                $which(snapshot, out, None, |disk| whole(disk, $pick));
            }),
        }
    };
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    write_back!(
        some_disks,
        "disk_dirty",
        Some("bytes"),
        "Bytes that the disk's origin lacks and that wait on flash",
        |now| now.dirty_bytes
    ),
    write_back!(
        some_disks,
        "disk_dirty_log",
        Some("bytes"),
        "Length of the disk's dirty log, blocks that were written again included",
        |now| now.log_bytes
    ),
    write_back!(
        some_disks,
        "disk_dirty_log_max",
        Some("bytes"),
        "The longest that the dirty log may be: writes wait at it",
        |now| now.settings.dirty_max_bytes
    ),
    Family {
        name: "disk_dirty_oldest",
        unit: Some("seconds"),
        help: "How long the oldest bytes have waited for the disk's origin",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                seconds(disk, |now| now.oldest_seconds)
            });
        }),
    },
    write_back!(
        detailed_disks,
        "disk_dirty_intervals",
        None,
        "Intervals between flushes that the disk's origin lacks, or lacks a part of; with daemon.metrics_disk_details",
        |now| now.intervals
    ),
    Family {
        name: "disk_destaged",
        unit: Some("bytes"),
        help: "Bytes that reached the disk's origin after they had waited on flash",
        labels: DISK,
        read: Read::Counter(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                count(disk, |of| of.destaged_bytes)
            });
        }),
    },
    Family {
        name: "disk_stalled_writes",
        unit: None,
        help: "Writes that waited for room in the dirty log",
        labels: DISK,
        read: Read::Counter(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                count(disk, |of| of.stalled_writes)
            });
        }),
    },
    Family {
        name: "disk_destage_failing",
        unit: Some("seconds"),
        help: "For how long the disk's origin has not taken what it lacks; 0 while it does",
        labels: DISK,
        read: Read::Gauge(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                seconds(disk, |now| now.failing_seconds)
            });
        }),
    },
    write_back!(
        some_disks,
        "disk_locked",
        None,
        "Whether bytes that the disk's origin lacks cannot be brought to it without the operator",
        |now| u64::from(now.state == DestageState::Locked)
    ),
];
