//! The metrics of limits: what has waited for those of its disk. Only disks with limits have them; counters stay
//! when a disk has none any more.

use super::encode::Number;
use super::family::{Family, Read, some_disks};
use api::limits::DiskLimits;
use api::types::DiskStatus;

const DISK: &[&str] = &["disk", "vm", "cache"];

/// A number of a disk that has limits, or had some since it was attached.
fn of(disk: &DiskStatus, pick: fn(&DiskLimits) -> Number) -> Option<Number> {
    let limits = &disk.limits;
    let is_limited = limits.iops.is_some() || limits.bytes_per_second.is_some();
    (is_limited || limits.throttled_requests > 0).then(|| pick(limits))
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "disk_throttled_requests",
        unit: None,
        help: "Guests' requests that waited for a limit of their disk",
        labels: DISK,
        read: Read::Counter(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                of(disk, |limits| Number::Whole(limits.throttled_requests))
            });
        }),
    },
    Family {
        name: "disk_throttled",
        unit: Some("seconds"),
        help: "Time that guests' requests waited for a limit of their disk, all together",
        labels: DISK,
        read: Read::Counter(|snapshot, out| {
            some_disks(snapshot, out, None, |disk| {
                of(disk, |limits| Number::Real(limits.throttled_seconds))
            });
        }),
    },
];
