//! What a bundle has in it, and where each of it comes from.

/// A file of the bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its name.
    pub(super) name: &'static str,
    /// What is in it.
    pub(super) about: &'static str,
    /// Where that comes from.
    pub(super) from: From,
}

/// Where a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The program itself.
    Version,
    /// The configuration and the environment.
    Configuration,
    /// An answer of the daemon, as JSON.
    Answer(&'static str),
    /// An answer of the daemon, as text.
    Text(&'static str),
    /// What a program prints.
    Program(&'static [&'static str]),
    /// A file of the system.
    File(&'static str),
    /// What each disk of the host says of its health.
    Health,
}

const fn item(name: &'static str, about: &'static str, from: From) -> Item {
    Item { name, about, from }
}

/// Everything, in the order in which it is collected.
#[rustfmt::skip]
pub(super) const ITEMS: &[Item] = &[
    item("version.txt", "version of hearth", From::Version),
    item("configuration.json", "each key, its value and where it is written; or what is wrong with it", From::Configuration),
    item("overview.json", "what is wrong and what to do", From::Answer("/v1/overview")),
    item("status.json", "the daemon and its caches", From::Answer("/v1/status")),
    item("disks.json", "every disk, and what is the matter with it", From::Answer("/v1/disks")),
    item("vms.json", "every VM and base image", From::Answer("/v1/vms")),
    item("roaming.json", "disks that roam", From::Answer("/v1/roaming")),
    item("events.json", "what has happened lately", From::Answer("/v1/events")),
    item("advice.json", "what the caches would gain from", From::Answer("/v1/advice")),
    item("drives.json", "the drives under the caches", From::Answer("/v1/drives")),
    item("resources.json", "what the host and its VMs use", From::Answer("/v1/resources")),
    item("cluster.json", "the cluster, if the host is in one", From::Answer("/v1/cluster")),
    item("metrics.txt", "every metric", From::Text("/metrics")),
    item("journal.txt", "the last 5000 lines of the unit's journal", From::Program(
        &["journalctl", "--unit=hearth.service", "--lines=5000", "--no-pager", "--output=short-iso-precise"])),
    item("unit.txt", "state of the unit", From::Program(
        &["systemctl", "show", "hearth.service", "--property=ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainStartTimestamp,MemoryCurrent,FragmentPath,DropInPaths"])),
    item("kernel.txt", "version of the kernel", From::File("/proc/version")),
    item("system.txt", "the distribution", From::File("/etc/os-release")),
    item("memory.txt", "the host's memory", From::File("/proc/meminfo")),
    item("processors.txt", "the host's processors", From::Program(&["lscpu"])),
    item("mounts.txt", "what is mounted", From::File("/proc/self/mounts")),
    item("room.txt", "how full file systems are", From::Program(&["df", "--human-readable", "--print-type"])),
    item("devices.txt", "block devices", From::Program(
        &["lsblk", "--output=NAME,TYPE,SIZE,ROTA,RO,MODEL,MOUNTPOINTS"])),
    item("health.txt", "what smartctl says of each disk of the host; needs root", From::Health),
];
