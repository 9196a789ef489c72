//! Hosts and VMs of unit tests, sizes in GiB.

use crate::{Fleet, HostLoad, HostReport, Name, Resources, VmReport};

/// A VM of so many GiB. Its curve bends at its working set.
pub(crate) fn vm(name: &str, gib: u64) -> VmReport {
    let size = gib.max(1) << 30;
    VmReport {
        vm: name.to_owned(),
        rwss_bytes: gib << 30,
        dirty_bytes: 0,
        needs: Resources {
            cpu_millis: 1_000,
            memory_bytes: 1 << 30,
        },
        curve: vec![(size / 2, 0.5), (size, 0.2), (size * 4, 0.15)],
        reads_per_second: 500.0,
        hits: None,
        moved_at_s: None,
        pinned: false,
        group: None,
        origins: Vec::new(),
    }
}

/// A host of so many GiB of flash, above its bound for long if it is above it.
pub(crate) fn host(name: &str, gib: u64, vms: &[VmReport]) -> HostReport {
    let demand: u64 = vms.iter().map(|vm| vm.rwss_bytes).sum();
    HostReport {
        version: crate::limits::REPORT_VERSION,
        host: name.to_owned(),
        capacity_bytes: gib << 30,
        reserve: 0.1,
        demand_before_bytes: vec![demand; 3],
        free: Resources {
            cpu_millis: 64_000,
            memory_bytes: 1 << 40,
        },
        origins: Vec::new(),
        hit_us: 100.0,
        miss_us: 2_000.0,
        bandwidth_bytes: 1 << 30,
        slowdown: 0.2,
        vms: vms.to_vec(),
    }
}

/// The fleet of these hosts, with nothing under way.
pub(crate) fn fleet(reports: &[HostReport]) -> Fleet {
    let loads = reports
        .iter()
        .map(|report| HostLoad::try_from(report.clone()).unwrap());
    Fleet::new(loads.collect(), Vec::new(), Vec::new()).unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}
