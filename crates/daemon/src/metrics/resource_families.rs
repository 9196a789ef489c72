//! The metrics of the host's resources, as the resource monitor reads them; none without one.

use super::encode::{Number, Snapshot};
use super::family::{Family, Read, Series};
use api::resources::VmUsage;
use monitor::HostReading;

/// A series of the host, if a monitor says something of it.
fn host(
    snapshot: &Snapshot,
    out: &mut Vec<Series<'_>>,
    extra: Option<(&'static str, &'static str)>,
    value: fn(&HostReading) -> Number,
) {
    if let Some(host) = &snapshot.resources.host {
        out.push(Series {
            labels: extra.into_iter().collect(),
            value: value(host),
        });
    }
}

/// A series of each VM of the last sample.
fn vms<'a>(snapshot: &'a Snapshot, out: &mut Vec<Series<'a>>, value: fn(&VmUsage) -> Number) {
    let last = snapshot.resources.samples.last();
    for vm in last.iter().flat_map(|sample| &sample.vms) {
        out.push(Series {
            labels: vec![("vm", vm.vm.as_str())],
            value: value(vm),
        });
    }
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "host_reading_age",
        unit: Some("seconds"),
        help: "How long ago hearth monitor has read the host; absent if it never has",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            if let Some(age) = snapshot.resources.age_seconds {
                out.push(Series {
                    labels: Vec::new(),
                    value: Number::Real(age),
                });
            }
        }),
    },
    Family {
        name: "host_cpu",
        unit: Some("seconds"),
        help: "Seconds that the host's processors were busy or idle, of all together, since its boot",
        labels: &["state"],
        read: Read::Counter(|snapshot, out| {
            host(snapshot, out, Some(("state", "busy")), |host| {
                Number::Real(host.cpu_busy_seconds)
            });
            host(snapshot, out, Some(("state", "idle")), |host| {
                Number::Real(host.cpu_seconds - host.cpu_busy_seconds)
            });
        }),
    },
    Family {
        name: "host_memory",
        unit: Some("bytes"),
        help: "The host's memory",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            host(snapshot, out, None, |host| Number::Whole(host.memory_bytes));
        }),
    },
    Family {
        name: "host_memory_available",
        unit: Some("bytes"),
        help: "What of the host's memory programs can have without swapping",
        labels: &[],
        read: Read::Gauge(|snapshot, out| {
            host(snapshot, out, None, |host| {
                Number::Whole(host.memory_available_bytes)
            });
        }),
    },
    Family {
        name: "host_network",
        unit: Some("bytes"),
        help: "Bytes that came and went over the host's interfaces, the loopback aside, since its boot",
        labels: &[],
        read: Read::Counter(|snapshot, out| {
            host(snapshot, out, None, |host| {
                Number::Whole(host.network_bytes)
            });
        }),
    },
    Family {
        name: "host_network_packets",
        unit: None,
        help: "Packets that came and went over the host's interfaces, the loopback aside, since its boot",
        labels: &[],
        read: Read::Counter(|snapshot, out| {
            host(snapshot, out, None, |host| {
                Number::Whole(host.network_packets)
            });
        }),
    },
    Family {
        name: "host_disk",
        unit: Some("bytes"),
        help: "Bytes read from and written to the host's disks since its boot",
        labels: &[],
        read: Read::Counter(|snapshot, out| {
            host(snapshot, out, None, |host| Number::Whole(host.disk_bytes));
        }),
    },
    Family {
        name: "vm_cpu",
        unit: Some("seconds"),
        help: "Seconds of a processor that the VM's processes used while hearth monitor ran",
        labels: &["vm"],
        read: Read::Counter(|snapshot, out| {
            for vm in &snapshot.resources.vm_cpu {
                out.push(Series {
                    labels: vec![("vm", vm.vm.as_str())],
                    value: Number::Real(vm.seconds),
                });
            }
        }),
    },
    Family {
        name: "vm_resident_memory",
        unit: Some("bytes"),
        help: "Memory of the host that the VM's processes have",
        labels: &["vm"],
        read: Read::Gauge(|snapshot, out| {
            vms(snapshot, out, |vm| Number::Whole(vm.memory_bytes));
        }),
    },
];
