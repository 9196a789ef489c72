//! The counters of a host and of processes, as the kernel's files have them (`proc(5)`).

use crate::vm::VmReading;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Clock ticks of a second in `/proc`: `USER_HZ`, the same on every Linux.
const TICKS_A_SECOND: f64 = 100.0;
/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own are.
const DISKSTATS_SECTOR: u64 = 512;
const KIB: u64 = 1024;

/// What was read of a host at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    /// The host's uptime then, in seconds.
    pub uptime_seconds: f64,
    /// The host.
    pub host: HostReading,
    /// Processes that were asked about and are there.
    pub processes: Vec<ProcessReading>,
    /// What QEMU or libvirt says of VMs, where the monitor may ask them.
    #[serde(default)]
    pub vms: Vec<VmReading>,
}

/// A host's counters since its boot, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostReading {
    /// Seconds that processors were busy, of all processors together.
    pub cpu_busy_seconds: f64,
    /// Seconds that processors were there, busy or idle.
    pub cpu_seconds: f64,
    /// Main memory.
    pub memory_bytes: u64,
    /// What of it programs can have without swapping.
    pub memory_available_bytes: u64,
    /// Bytes that came and went over all interfaces but the loopback.
    pub network_bytes: u64,
    /// The packets in which they did.
    pub network_packets: u64,
    /// Bytes read from and written to whole disks.
    pub disk_bytes: u64,
}

/// The counters of a process since its start, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProcessReading {
    /// Its number.
    pub pid: i32,
    /// When it was started, in ticks since the boot: a number that is used again has another start.
    pub started_ticks: u64,
    /// Seconds that its threads ran.
    pub cpu_seconds: f64,
    /// Memory that it has.
    pub resident_bytes: u64,
}

/// The texts of the kernel's files about a host.
#[derive(Clone, Copy, Debug)]
pub struct HostTexts<'a> {
    /// `/proc/uptime`.
    pub uptime: &'a str,
    /// `/proc/stat`.
    pub stat: &'a str,
    /// `/proc/meminfo`.
    pub meminfo: &'a str,
    /// `/proc/net/dev`.
    pub net_dev: &'a str,
    /// `/proc/diskstats`.
    pub diskstats: &'a str,
}

/// A text is not what `proc(5)` says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} does not have {what}")]
pub struct Unreadable {
    /// The file.
    pub file: &'static str,
    /// What was looked for.
    pub what: &'static str,
}

const fn lacks(file: &'static str, what: &'static str) -> Unreadable {
    Unreadable { file, what }
}

impl Reading {
    /// What the texts say of a host, and processes beside it; nothing of what QEMU or libvirt says.
    ///
    /// # Errors
    /// If a text lacks what `proc(5)` says of it.
    pub fn new(texts: &HostTexts<'_>, processes: Vec<ProcessReading>) -> Result<Self, Unreadable> {
        let uptime = texts.uptime.split_whitespace().next();
        let uptime = uptime.and_then(|seconds| seconds.parse().ok());
        Ok(Self {
            uptime_seconds: uptime.ok_or(lacks("/proc/uptime", "the uptime"))?,
            host: HostReading::new(texts)?,
            processes,
            vms: Vec::new(),
        })
    }
}

impl HostReading {
    fn new(texts: &HostTexts<'_>) -> Result<Self, Unreadable> {
        let (cpu_busy_seconds, cpu_seconds) = cpu(texts.stat)?;
        let memory = |key, what| {
            let kib = keyed(texts.meminfo, key).ok_or(lacks("/proc/meminfo", what))?;
            Ok(kib * KIB)
        };
        let (network_bytes, network_packets) = network(texts.net_dev);
        Ok(Self {
            cpu_busy_seconds,
            cpu_seconds,
            memory_bytes: memory("MemTotal:", "MemTotal")?,
            memory_available_bytes: memory("MemAvailable:", "MemAvailable")?,
            network_bytes,
            network_packets,
            disk_bytes: disks(texts.diskstats),
        })
    }
}

/// Busy seconds and all, of the first line: user, nice, system, idle, iowait, irq, softirq, steal. What guests of KVM used is in
/// user and nice already.
fn cpu(stat: &str) -> Result<(f64, f64), Unreadable> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let line = line.ok_or(lacks("/proc/stat", "a line of all processors"))?;
    let ticks = line.split_whitespace().take(8).map(str::parse::<u64>);
    let ticks: Vec<u64> = ticks
        .collect::<Result<_, _>>()
        .map_err(|_| lacks("/proc/stat", "numbers of ticks"))?;
    let [.., idle, iowait, _, _, _] = ticks[..] else {
        return Err(lacks("/proc/stat", "eight kinds of ticks"));
    };
    let all: u64 = ticks.iter().sum();
    Ok((seconds(all - idle - iowait), seconds(all)))
}

fn seconds(ticks: u64) -> f64 {
    units::number::real(ticks) / TICKS_A_SECOND
}

/// The number behind a key at the start of a line.
fn keyed(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes and packets of all interfaces but the loopback: received are columns 1 and 2, sent 9 and 10.
fn network(net_dev: &str) -> (u64, u64) {
    let interfaces = net_dev.lines().filter_map(|line| line.split_once(':'));
    let others = interfaces.filter(|(name, _)| name.trim() != "lo");
    let counts = others.map(|(_, columns)| {
        let columns: Vec<u64> = columns
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        let at = |place: usize| columns.get(place).copied().unwrap_or(0);
        (at(0) + at(8), at(1) + at(9))
    });
    counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Bytes read and written of whole disks. What a partition, a RAID, a loop device or a mapped one did is in the disk below it.
fn disks(diskstats: &str) -> u64 {
    let disks = diskstats.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (name, read, written) = (columns.get(2)?, columns.get(5)?, columns.get(9)?);
        let sectors = read.parse::<u64>().ok()? + written.parse::<u64>().ok()?;
        is_whole_disk(name).then_some(sectors * DISKSTATS_SECTOR)
    });
    disks.sum()
}

/// Whether a name is of a disk: `sda`, `vdb`, `xvda`, `nvme0n1`, `mmcblk0`.
fn is_whole_disk(name: &str) -> bool {
    if name.starts_with("nvme") || name.starts_with("mmcblk") {
        return !name.contains('p');
    }
    let letters = ["sd", "vd", "xvd", "hd"]
        .iter()
        .find_map(|kind| name.strip_prefix(kind));
    letters.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase()))
}

impl ProcessReading {
    /// What `/proc/PID/stat` says of a process on a host with pages of so many bytes.
    ///
    /// # Errors
    /// If the text is not one of those.
    pub fn new(pid: i32, stat: &str, page_bytes: u64) -> Result<Self, Unreadable> {
        // The name is in parentheses and may have anything in it, such as parentheses.
        let columns = stat.rsplit_once(')').map_or("", |(_, columns)| columns);
        let columns: Vec<&str> = columns.split_whitespace().collect();
        // The state, which comes first, is column 3 of the manual.
        let at = |column: usize| {
            columns
                .get(column - 3)
                .and_then(|text| text.parse::<u64>().ok())
        };
        let read = || {
            Some(Self {
                pid,
                started_ticks: at(22)?,
                cpu_seconds: seconds(at(14)? + at(15)?),
                resident_bytes: at(24)? * page_bytes,
            })
        };
        read().ok_or(lacks("/proc/PID/stat", "24 columns"))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the figures are chosen to be exact")]
mod tests {
    use super::*;

    const TEXTS: HostTexts<'_> = HostTexts {
        uptime: "350735.47 234388.90\n",
        stat: "cpu  1000 50 450 8000 200 100 100 100 30 0\ncpu0 500 25 225 4000 100 50 50 50 15 0\nintr 1\n",
        meminfo: "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\n",
        net_dev: "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
            lo: 900 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n  eth0: 1000 10 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n",
        diskstats: " 259 0 nvme0n1 10 0 100 5 20 0 300 9 0 8 14\n 259 1 nvme0n1p1 9 0 90 5 20 0 300 9 0 8 14\n   \
            8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n   8 1 sda1 1 0 8 1 1 0 8 1 0 1 2\n 253 0 dm-0 1 0 8 1 1 0 8 1 0 1 2\n   \
            7 0 loop0 1 0 8 1 0 0 0 0 0 1 1\n",
    };

    #[test]
    fn the_files_of_a_host_are_read_as_the_manual_has_them() {
        let reading = Reading::new(&TEXTS, Vec::new()).unwrap();
        assert_eq!(reading.uptime_seconds, 350_735.47);
        let expected = HostReading {
            cpu_busy_seconds: 18.0,
            cpu_seconds: 100.0,
            memory_bytes: 16 << 20,
            memory_available_bytes: 8 << 20,
            network_bytes: 1500,
            network_packets: 15,
            disk_bytes: (400 + 16) * 512,
        };
        assert_eq!(reading.host, expected);
    }

    #[test]
    fn the_name_of_a_process_may_have_anything_in_it() {
        let stat = "4711 (qemu) x) 1 (y) S 1 4711 4711 0 -1 4194560 5 0 0 0 250 150 0 0 20 0 7 0 98765 1000000 2048 \
            18446744073709551615 1 1\n";
        let read = ProcessReading::new(4711, stat, 4096).unwrap();
        let expected = ProcessReading {
            pid: 4711,
            started_ticks: 98_765,
            cpu_seconds: 4.0,
            resident_bytes: 2048 * 4096,
        };
        assert_eq!(read, expected);
        for wrong in ["", "1 (x) S 1", "1 x S"] {
            assert!(ProcessReading::new(1, wrong, 4096).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_text_that_lacks_something_says_what() {
        let without = HostTexts {
            meminfo: "MemTotal: 1 kB\n",
            ..TEXTS
        };
        let wrong = Reading::new(&without, Vec::new()).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "/proc/meminfo does not have MemAvailable"
        );
        for stat in ["", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"] {
            assert!(
                Reading::new(&HostTexts { stat, ..TEXTS }, Vec::new()).is_err(),
                "{stat}"
            );
        }
    }
}
