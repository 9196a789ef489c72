//! The metrics of the host's resources, as the resource monitor reads them; none without one.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};
use api::resources::VmUsage;
use monitor::{BlockReading, HostReading, VmFigures};

/// A series of the host, if a monitor says something of it.
fn host(
    snapshot: &Scrape,
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
fn vms<'a>(snapshot: &'a Scrape, out: &mut Vec<Series<'a>>, value: fn(&VmUsage) -> Number) {
    let last = snapshot.resources.samples.last();
    for vm in last.iter().flat_map(|sample| &sample.vms) {
        out.push(Series {
            labels: vec![("vm", vm.vm.as_str())],
            value: value(vm),
        });
    }
}

/// A series of each VM of which QEMU or libvirt says this.
fn told<'a>(snapshot: &'a Scrape, out: &mut Vec<Series<'a>>, value: fn(&VmFigures) -> Option<u64>) {
    let last = snapshot.resources.samples.last();
    for vm in last.iter().flat_map(|sample| &sample.vms) {
        out.extend(value(&vm.figures).map(|value| Series {
            labels: vec![("vm", vm.vm.as_str())],
            value: Number::Whole(value),
        }));
    }
}

/// A series of what each VM reads from its disks, and one of what it writes.
fn of_disks<'a>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    value: fn(&BlockReading) -> [u64; 2],
) {
    let last = snapshot.resources.samples.last();
    for vm in last.iter().flat_map(|sample| &sample.vms) {
        let both = vm.figures.block.iter().flat_map(value);
        out.extend(
            ["read", "write"]
                .into_iter()
                .zip(both)
                .map(|(op, value)| Series {
                    labels: vec![("vm", vm.vm.as_str()), ("op", op)],
                    value: Number::Whole(value),
                }),
        );
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
    Family {
        name: "vm_memory_weight",
        unit: None,
        help: "What the VM's reads weigh for frequency in memory, by its processors and memory: 1 if all VMs are equal",
        labels: &["vm"],
        read: Read::Gauge(|snapshot, out| vms(snapshot, out, |vm| Number::Real(vm.weight))),
    },
    Family {
        name: "vm_vcpus",
        unit: None,
        help: "Processors that the guest has, where QEMU or libvirt says so",
        labels: &["vm"],
        read: Read::Gauge(|snapshot, out| told(snapshot, out, |vm| vm.vcpus)),
    },
    Family {
        name: "vm_given_memory",
        unit: Some("bytes"),
        help: "Memory that the VM was given, where QEMU or libvirt says so",
        labels: &["vm"],
        read: Read::Gauge(|snapshot, out| told(snapshot, out, |vm| vm.given_memory_bytes)),
    },
    Family {
        name: "vm_balloon",
        unit: Some("bytes"),
        help: "Memory that the balloon leaves the guest, where QEMU or libvirt says so",
        labels: &["vm"],
        read: Read::Gauge(|snapshot, out| told(snapshot, out, |vm| vm.balloon_bytes)),
    },
    Family {
        name: "vm_block",
        unit: Some("bytes"),
        help: "Bytes that the VM's disks read and wrote, where QEMU or libvirt says so; a vhost-user disk is not among them",
        labels: &["vm", "op"],
        read: Read::Counter(|snapshot, out| {
            of_disks(snapshot, out, |block| {
                [block.read_bytes, block.written_bytes]
            });
        }),
    },
    Family {
        name: "vm_block_requests",
        unit: None,
        help: "Requests of the VM's disks, where QEMU or libvirt says so; a vhost-user disk is not among them",
        labels: &["vm", "op"],
        read: Read::Counter(|snapshot, out| {
            of_disks(snapshot, out, |block| [block.reads, block.writes]);
        }),
    },
];
