//! What a made-up monitor says.

use crate::resources::{ResourceSample, Resources, VmCpu, VmUsage};
use monitor::{BlockReading, HostReading, HostUsage, VmFigures};

/// A host with one VM at work.
pub fn resources() -> Resources {
    let sample = ResourceSample {
        uptime_seconds: 86_400.0,
        seconds: 10.0,
        host: HostUsage {
            cpu_share: 0.25,
            memory_share: 0.5,
            memory_bytes: 64 << 30,
            network_bits_per_second: 40e6,
            disk_bytes_per_second: 1e6,
        },
        vms: vec![VmUsage {
            vm: "web-1".to_owned(),
            processes: 1,
            cpu_share: 0.125,
            memory_share: 0.0625,
            memory_bytes: 4 << 30,
            weight: 1.0,
            figures: VmFigures {
                vcpus: Some(8),
                given_memory_bytes: Some(6 << 30),
                balloon_bytes: Some(3 << 30),
                block: Some(BlockReading {
                    read_bytes: 7 << 30,
                    written_bytes: 1 << 30,
                    reads: 90_000,
                    writes: 12_000,
                }),
            },
        }],
    };
    Resources {
        age_seconds: Some(2.0),
        host: Some(HostReading {
            cpu_busy_seconds: 7_200.0,
            cpu_seconds: 86_400.0,
            memory_bytes: 64 << 30,
            memory_available_bytes: 32 << 30,
            network_bytes: 5 << 30,
            network_packets: 1 << 20,
            disk_bytes: 9 << 30,
        }),
        samples: vec![sample],
        vm_cpu: vec![VmCpu {
            vm: "web-1".to_owned(),
            seconds: 12.5,
        }],
    }
}
