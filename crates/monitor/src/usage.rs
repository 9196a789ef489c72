//! What was used between two readings.

use crate::reading::{ProcessReading, Reading};
use serde::{Deserialize, Serialize};
use units::number::real;
use utoipa::ToSchema;

/// Bytes of a packet beside what interfaces count: preamble, gap and checksum of an Ethernet frame. (`MultiCache`'s formula
/// prints 20 bytes a packet added to bits; here they are bytes.)
const PACKET_BYTES: f64 = 20.0;
const BITS: f64 = 8.0;

/// What a host and processes used between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The host's uptime at the later reading, in seconds.
    pub uptime_seconds: f64,
    /// Time between the readings.
    pub seconds: f64,
    /// The host.
    pub host: HostUsage,
    /// Processes that are there.
    pub processes: Vec<ProcessUsage>,
}

/// What a host used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostUsage {
    /// Share of its processors.
    pub cpu_share: f64,
    /// Share of its memory at the later reading: what programs could not have without swapping.
    pub memory_share: f64,
    /// Its memory.
    pub memory_bytes: u64,
    /// Bits that went over its wires, what frames the packets included.
    pub network_bits_per_second: f64,
    /// Bytes read from and written to its disks.
    pub disk_bytes_per_second: f64,
}

/// What a process used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProcessUsage {
    /// Its number.
    pub pid: i32,
    /// Share of the host's processors.
    pub cpu_share: f64,
    /// Seconds of a processor that it used between the readings.
    pub cpu_seconds: f64,
    /// Share of the host's memory that it has.
    pub memory_share: f64,
    /// The memory.
    pub memory_bytes: u64,
}

impl Usage {
    /// What was used between two readings of one boot; none if no time has passed.
    pub fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let seconds = now.uptime_seconds - before.uptime_seconds;
        let cpu_seconds = now.host.cpu_seconds - before.host.cpu_seconds;
        if seconds <= 0.0 || cpu_seconds <= 0.0 {
            return None;
        }
        let memory = real(now.host.memory_bytes.max(1));
        let host = HostUsage {
            cpu_share: share(
                now.host.cpu_busy_seconds - before.host.cpu_busy_seconds,
                cpu_seconds,
            ),
            memory_share: share(memory - real(now.host.memory_available_bytes), memory),
            memory_bytes: now.host.memory_bytes,
            network_bits_per_second: {
                let bytes = real(
                    now.host
                        .network_bytes
                        .saturating_sub(before.host.network_bytes),
                );
                let packets = now
                    .host
                    .network_packets
                    .saturating_sub(before.host.network_packets);
                BITS * (bytes + PACKET_BYTES * real(packets)) / seconds
            },
            disk_bytes_per_second: real(now.host.disk_bytes.saturating_sub(before.host.disk_bytes))
                / seconds,
        };
        let process = |of: &ProcessReading| {
            let same =
                |one: &&ProcessReading| one.pid == of.pid && one.started_ticks == of.started_ticks;
            let earlier = before.processes.iter().find(same);
            // One that nobody had asked about before: what it used until then is of no time that is known.
            let used = earlier.map_or(0.0, |earlier| of.cpu_seconds - earlier.cpu_seconds);
            let used = used.max(0.0);
            ProcessUsage {
                pid: of.pid,
                cpu_share: share(used, cpu_seconds),
                cpu_seconds: used,
                memory_share: share(real(of.resident_bytes), memory),
                memory_bytes: of.resident_bytes,
            }
        };
        Some(Self {
            uptime_seconds: now.uptime_seconds,
            seconds,
            host,
            processes: now.processes.iter().map(process).collect(),
        })
    }
}

fn share(part: f64, of: f64) -> f64 {
    (part / of).clamp(0.0, 1.0)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the figures are chosen to be exact")]
mod tests {
    use super::*;
    use crate::reading::HostReading;

    fn process(pid: i32, started_ticks: u64, cpu_seconds: f64) -> ProcessReading {
        ProcessReading {
            pid,
            started_ticks,
            cpu_seconds,
            resident_bytes: 1 << 30,
        }
    }

    fn readings() -> (Reading, Reading) {
        let before = Reading {
            uptime_seconds: 100.0,
            host: HostReading {
                cpu_busy_seconds: 40.0,
                cpu_seconds: 400.0,
                memory_bytes: 8 << 30,
                memory_available_bytes: 8 << 30,
                network_bytes: 1_000,
                network_packets: 10,
                disk_bytes: 0,
            },
            processes: vec![process(1, 5, 7.0), process(2, 6, 9.0)],
            vms: Vec::new(),
        };
        let now = Reading {
            uptime_seconds: 110.0,
            host: HostReading {
                cpu_busy_seconds: 50.0,
                cpu_seconds: 440.0,
                memory_available_bytes: 6 << 30,
                network_bytes: 11_000,
                network_packets: 60,
                disk_bytes: 40_960,
                ..before.host
            },
            // The second number is another process's now, and the third process is new.
            processes: vec![
                process(1, 5, 17.0),
                process(2, 99, 12.0),
                process(3, 7, 8.0),
            ],
            vms: Vec::new(),
        };
        (before, now)
    }

    #[test]
    fn what_was_used_is_the_difference() {
        let (before, now) = readings();
        let usage = Usage::between(&before, &now).unwrap();
        assert_eq!((usage.seconds, usage.uptime_seconds), (10.0, 110.0));
        let expected = HostUsage {
            cpu_share: 0.25,
            memory_share: 0.25,
            memory_bytes: 8 << 30,
            network_bits_per_second: 8.0 * (10_000.0 + 20.0 * 50.0) / 10.0,
            disk_bytes_per_second: 4_096.0,
        };
        assert_eq!(usage.host, expected);
        let cpu: Vec<_> = usage
            .processes
            .iter()
            .map(|of| (of.pid, of.cpu_seconds))
            .collect();
        assert_eq!(cpu, [(1, 10.0), (2, 0.0), (3, 0.0)]);
        assert_eq!(usage.processes[0].cpu_share, 0.25);
        assert_eq!(usage.processes[0].memory_share, 0.125);
    }

    #[test]
    fn nothing_is_said_of_no_time() {
        let (before, now) = readings();
        assert_eq!(Usage::between(&now, &now), None);
        assert_eq!(
            Usage::between(&now, &before),
            None,
            "the host was started anew"
        );
    }
}
