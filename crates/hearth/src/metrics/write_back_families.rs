//! The metrics of write-back: what waits on flash for its origin, and what keeps it there.

use super::encode::Value;
use super::family::{Family, counter, disks, gauge};
use crate::api::types::DiskStatus;
use crate::api::write_back::{DestageState, WriteBackStatus};

const DISK: &[&str] = &["disk", "vm", "cache"];

/// A number of a disk under write-back; 0 for any other.
fn whole(disk: &DiskStatus, pick: fn(&WriteBackStatus) -> u64) -> Value<'_> {
    Value::Whole(disk.write_back.as_ref().map_or(0, pick))
}

/// A gauge or counter of each disk that is a number of its [`WriteBackStatus`].
macro_rules! write_back {
    ($kind:ident, $name:literal, $unit:expr, $help:literal, $pick:expr) => {
        $kind($name, $unit, $help, DISK, |snapshot, out| {
            disks(snapshot, out, None, |disk| whole(disk, $pick));
        })
    };
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    write_back!(
        gauge,
        "disk_dirty",
        Some("bytes"),
        "Bytes that the disk's origin lacks and that wait on flash",
        |now| now.dirty_bytes
    ),
    write_back!(
        gauge,
        "disk_dirty_log",
        Some("bytes"),
        "Length of the disk's dirty log, blocks that were written again included",
        |now| now.log_bytes
    ),
    write_back!(
        gauge,
        "disk_dirty_log_max",
        Some("bytes"),
        "The longest that the dirty log may be: writes wait at it",
        |now| now.settings.dirty_max_bytes
    ),
    gauge(
        "disk_dirty_oldest",
        Some("seconds"),
        "How long the oldest bytes have waited for the disk's origin",
        DISK,
        |snapshot, out| {
            disks(snapshot, out, None, |disk| {
                let now = disk.write_back.as_ref();
                Value::Real(now.and_then(|now| now.oldest_seconds).unwrap_or(0.0))
            });
        },
    ),
    write_back!(
        gauge,
        "disk_dirty_intervals",
        None,
        "Intervals between flushes that the disk's origin lacks, or lacks a part of",
        |now| now.intervals
    ),
    write_back!(
        counter,
        "disk_destaged",
        Some("bytes"),
        "Bytes that reached the disk's origin after they had waited on flash",
        |now| now.destaged_bytes
    ),
    write_back!(
        counter,
        "disk_stalled_writes",
        None,
        "Writes that waited for room in the dirty log",
        |now| now.stalled_writes
    ),
    gauge(
        "disk_destage_failing",
        Some("seconds"),
        "For how long the disk's origin has not taken what it lacks; 0 while it does",
        DISK,
        |snapshot, out| {
            disks(snapshot, out, None, |disk| {
                let now = disk.write_back.as_ref();
                Value::Real(now.and_then(|now| now.failing_seconds).unwrap_or(0.0))
            });
        },
    ),
    write_back!(
        gauge,
        "disk_locked",
        None,
        "Whether bytes that the disk's origin lacks cannot be brought to it without the operator",
        |now| u64::from(now.state == DestageState::Locked)
    ),
];
