//! The metrics of front ends: how VMs reach their disks.

use super::encode::Number;
use super::family::{Family, Read, Series, caches, detailed_disks, disks, some_disks};

const DISK: &[&str] = &["disk", "vm", "cache"];
const DISK_FRONT_END: &[&str] = &["disk", "vm", "cache", "front_end"];

/// A gauge or counter of each disk that a VM has used over vhost-user: a field of
/// [`api::front_ends::VhostUser`].
macro_rules! vhost {
    ($which:ident, $kind:ident, $name:literal, $help:literal, $field:ident) => {
        Family {
            name: $name,
            unit: None,
            help: $help,
            labels: DISK,
            read: Read::$kind(|snapshot, out| {
                $which(snapshot, out, None, |disk| {
                    let vhost = &disk.vhost_user;
                    let is_used = vhost.connections > 0 || vhost.requests_taken > 0;
                    is_used.then_some(Number::Whole(vhost.$field))
                });
            }),
        }
    };
}

/// A gauge or counter of each cache that is a field of [`api::front_ends::RequestMemory`].
macro_rules! memory {
    ($kind:ident, $name:literal, $unit:expr, $help:literal, $field:ident) => {
        Family {
            name: $name,
            unit: $unit,
            help: $help,
            labels: &["cache"],
            read: Read::$kind(|snapshot, out| {
                caches(snapshot, out, None, |cache| {
                    Number::Whole(cache.request_memory.$field)
                });
            }),
        }
    };
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "vhost_user_connections",
        unit: None,
        help: "Connections to disks over vhost-user",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            out.push(Series {
                labels: Vec::new(),
                value: Number::Whole(snapshot.status.vhost_user_connections),
            });
        }),
    },
    memory!(
        Gauge,
        "cache_request_memory_limit",
        Some("bytes"),
        "Memory that the cache's clients may have allocated",
        limit_bytes
    ),
    memory!(
        Gauge,
        "cache_request_memory",
        Some("bytes"),
        "Memory that the cache's clients have allocated",
        taken_bytes
    ),
    memory!(
        Gauge,
        "cache_request_memory_waiting",
        None,
        "Connections whose next request waits for memory",
        waiting
    ),
    memory!(
        Counter,
        "cache_request_memory_waits",
        None,
        "Requests that had to wait for memory",
        waits
    ),
    memory!(
        Counter,
        "cache_request_memory_refused",
        None,
        "Connections refused for want of memory, or cut off because they kept what others waited for",
        refused
    ),
    Family {
        name: "disk_connections",
        unit: None,
        help: "Connections to the disk, by front end: nbd or vhost-user",
        labels: DISK_FRONT_END,
        read: Read::Gauge(|snapshot, out| {
            disks(snapshot, out, Some(("front_end", "nbd")), |disk| {
                let others = disk.vhost_user.connections;
                Number::Whole(disk.connections.saturating_sub(others))
            });
            disks(snapshot, out, Some(("front_end", "vhost-user")), |disk| {
                Number::Whole(disk.vhost_user.connections)
            });
        }),
    },
    vhost!(
        some_disks,
        Gauge,
        "disk_vhost_user_queues",
        "Queues of the disk's VM that run",
        queues
    ),
    vhost!(
        some_disks,
        Gauge,
        "disk_vhost_user_requests_in_flight",
        "Requests of the disk's VM that are not answered yet",
        requests_in_flight
    ),
    vhost!(
        detailed_disks,
        Counter,
        "disk_vhost_user_requests",
        "Requests taken from the queues of the disk's VM; with daemon.metrics_disk_details",
        requests_taken
    ),
    vhost!(
        detailed_disks,
        Counter,
        "disk_vhost_user_kicks",
        "Kicks of the disk's VM that were received; one serves every request that is there; with daemon.metrics_disk_details",
        kicks
    ),
    vhost!(
        detailed_disks,
        Counter,
        "disk_vhost_user_interrupts",
        "Interrupts that the disk's VM wanted; one serves every answer of a turn; with daemon.metrics_disk_details",
        interrupts
    ),
    vhost!(
        detailed_disks,
        Counter,
        "disk_vhost_user_requests_resumed",
        "Requests taken up that had been begun before the daemon was started anew; with daemon.metrics_disk_details",
        requests_resumed
    ),
    vhost!(
        some_disks,
        Counter,
        "disk_vhost_user_queues_broken",
        "Queues that the disk's VM broke: its driver makes no sense",
        queues_broken
    ),
];
