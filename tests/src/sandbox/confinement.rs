//! What a unit's settings ask for. A setting that is not known here is an error: a test that left
//! it out would not test the unit that is installed.

use anyhow::{Context, bail, ensure};
use rustix::thread::CapabilitySet;

use crate::unit::{Setting, Unit};

/// A folder of the service's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnFolder {
    /// Such as `/run/hearth`.
    pub(super) path: String,
    pub(super) mode: u32,
    /// The variable that tells the service its path.
    pub(super) variable: &'static str,
}

/// One line of `SystemCallFilter=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallList {
    pub(super) is_taken_away: bool,
    /// Names of system calls, and of groups of them.
    pub(super) names: Vec<String>,
}

/// Restrictions that are either on or not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Switch {
    NoNewPrivileges,
    MemoryDenyWriteExecute,
    LockPersonality,
    RestrictNamespaces,
    RestrictRealtime,
    RestrictSuidSgid,
    /// The whole file system is read-only, but for the service's own folders.
    ProtectSystem,
    ProtectHome,
    PrivateTmp,
    ProtectKernelTunables,
    ProtectKernelModules,
}

/// Those that change what the service sees of the file system.
pub(super) const OF_MOUNTS: [Switch; 5] = [
    Switch::ProtectSystem,
    Switch::ProtectHome,
    Switch::PrivateTmp,
    Switch::ProtectKernelTunables,
    Switch::ProtectKernelModules,
];

/// What a unit asks for.
#[derive(Clone, Debug)]
pub(super) struct Confinement {
    pub(super) user: String,
    pub(super) group: String,
    pub(super) folders: Vec<OwnFolder>,
    pub(super) writable: Vec<String>,
    pub(super) devices: Vec<String>,
    pub(super) proc_options: Vec<&'static str>,
    pub(super) calls: Vec<CallList>,
    pub(super) errno: Option<String>,
    pub(super) families: Vec<String>,
    /// What the service may come to have, and what it begins with.
    bounding: CapabilitySet,
    ambient: CapabilitySet,
    pub(super) switches: Vec<Switch>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) umask: Option<u32>,
    pub(super) files_max: Option<u64>,
    pub(super) locked_memory_is_unlimited: bool,
}

/// What only a service's manager sees: when it starts, ends, reloads and kills, and what its control group may use.
const OF_THE_MANAGER: &[&str] = &[
    "CPUQuota",
    "ExecReload",
    "ExecStart",
    "ExecStopPost",
    "FileDescriptorStoreMax",
    "KillMode",
    "MemoryMax",
    "NotifyAccess",
    "Restart",
    "RestartPreventExitStatus",
    "RestartSec",
    "RuntimeDirectoryPreserve",
    "TimeoutStartSec",
    "TimeoutStopSec",
    "Type",
    "WatchdogSec",
];

/// What takes away only capabilities, system calls and devices that the rest of the unit takes away
/// already; with values that a test would have to look at again if they changed.
const COVERED: &[(&str, &str)] = &[
    // Nothing of it is left without capabilities, which the bounding set has to be without.
    ("ProtectClock", "yes"),
    ("ProtectKernelLogs", "yes"),
    // /sys, with the control groups in it, is read-only in the sandbox.
    ("ProtectControlGroups", "yes"),
    // `unshare --uts` has done it.
    ("ProtectHostname", "yes"),
    // Nothing of it is seen by the daemon: IPC of System V that is removed when the unit stops.
    ("RemoveIPC", "yes"),
    // The filters kill what comes by another architecture's entry.
    ("SystemCallArchitectures", "native"),
    // The sandbox's /dev has the pseudo devices and those of DeviceAllow.
    ("DevicePolicy", "closed"),
    // It would only protect the test from the kernel.
    ("OOMScoreAdjust", "-900"),
    ("OOMScoreAdjust", "500"),
    // They take turns away, and nothing else.
    ("IOSchedulingClass", "idle"),
    ("Nice", "10"),
    ("ConfigurationDirectory", "hearth"),
];

impl Confinement {
    /// What this unit asks for.
    ///
    /// # Errors
    ///
    /// When a setting is not known, or has a value that is not.
    pub(super) fn of(unit: &Unit) -> anyhow::Result<Self> {
        let mut asked = Self {
            user: String::new(),
            group: String::new(),
            folders: Vec::new(),
            writable: Vec::new(),
            devices: Vec::new(),
            proc_options: Vec::new(),
            calls: Vec::new(),
            errno: None,
            families: Vec::new(),
            bounding: CapabilitySet::empty(),
            ambient: CapabilitySet::empty(),
            switches: Vec::new(),
            environment: Vec::new(),
            umask: None,
            files_max: None,
            locked_memory_is_unlimited: false,
        };
        for setting in unit.settings() {
            asked
                .take(setting)
                .with_context(|| format!("{}={} in the unit", setting.key, setting.value))?;
        }
        for (key, value) in [
            ("CapabilityBoundingSet", None),
            ("DevicePolicy", Some("closed")),
        ] {
            let is_there = |setting: &Setting| {
                setting.key == key && value.is_none_or(|value| setting.value == value)
            };
            ensure!(
                unit.settings().iter().any(is_there),
                "the unit has no {key}={}; the sandbox needs one",
                value.unwrap_or_default()
            );
        }
        if asked.group.is_empty() {
            // systemd-sysusers gives a user a group of its name.
            asked.group.clone_from(&asked.user);
        }
        Ok(asked)
    }

    /// Whether the service may come to have this.
    pub(super) fn may_have(&self, capability: CapabilitySet) -> bool {
        self.bounding.contains(capability)
    }

    /// What the service begins with.
    pub(super) fn begins_with(&self) -> CapabilitySet {
        self.ambient
    }

    /// Whether the service has the machine's own file system, with nothing hidden or read-only.
    pub(super) fn sees_the_system(&self) -> bool {
        !OF_MOUNTS.iter().any(|switch| self.has(*switch))
    }

    /// Whether a restriction is on.
    pub(super) fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }

    fn take(&mut self, setting: &Setting) -> anyhow::Result<()> {
        let Setting { key, value } = setting;
        let (key, value) = (key.as_str(), value.as_str());
        if OF_THE_MANAGER.contains(&key) || COVERED.contains(&(key, value)) {
            return Ok(());
        }
        match key {
            "User" => value.clone_into(&mut self.user),
            "Group" => value.clone_into(&mut self.group),
            "RuntimeDirectory" => self.own("/run", value, "RUNTIME_DIRECTORY"),
            "StateDirectory" => self.own("/var/lib", value, "STATE_DIRECTORY"),
            "CacheDirectory" => self.own("/var/cache", value, "CACHE_DIRECTORY"),
            "RuntimeDirectoryMode" | "StateDirectoryMode" | "CacheDirectoryMode" => {
                let folder = self
                    .folders
                    .last_mut()
                    .context("no folder before its mode")?;
                folder.mode = octal(value)?;
            }
            "ReadWritePaths" => self.writable.extend(list(value)),
            "CapabilityBoundingSet" => self.bounding = capabilities(value)?,
            "AmbientCapabilities" => self.ambient = capabilities(value)?,
            // Classes of devices are for control groups: who sees the system sees all, and needs rights to open them.
            "DeviceAllow" if CLASSES.iter().any(|class| value.starts_with(class)) => {}
            "DeviceAllow" => {
                let device = value.split_whitespace().next().unwrap_or_default();
                ensure!(device.starts_with("/dev/"), "only device nodes are known");
                self.devices.push(device.to_owned());
            }
            "ProtectProc" => self.proc_options.push(match value {
                "invisible" => "hidepid=invisible",
                _ => bail!("only 'invisible' is known"),
            }),
            "ProcSubset" => self.proc_options.push(match value {
                "pid" => "subset=pid",
                _ => bail!("only 'pid' is known"),
            }),
            "SystemCallFilter" => {
                let names = value.strip_prefix('~');
                self.calls.push(CallList {
                    is_taken_away: names.is_some(),
                    names: list(names.unwrap_or(value)),
                });
            }
            "SystemCallErrorNumber" => self.errno = Some(value.to_owned()),
            "RestrictAddressFamilies" => self.families.extend(list(value)),
            "Environment" => {
                let pair = value.split_once('=').context("no NAME=value")?;
                self.environment
                    .push((pair.0.to_owned(), pair.1.to_owned()));
            }
            "UMask" => self.umask = Some(octal(value)?),
            "LimitNOFILE" => self.files_max = Some(value.parse()?),
            "LimitMEMLOCK" => {
                ensure!(value == "infinity", "only 'infinity' is known");
                self.locked_memory_is_unlimited = true;
            }
            _ => self.switches.push(switch(key, value)?),
        }
        Ok(())
    }

    fn own(&mut self, below: &str, name: &str, variable: &'static str) {
        self.folders.push(OwnFolder {
            path: format!("{below}/{name}"),
            mode: 0o755,
            variable,
        });
    }
}

/// Classes of devices by the names of their drivers.
const CLASSES: [&str; 4] = [
    "char-virtio-portsdev ",
    "block-virtblk ",
    "block-sd ",
    "block-blkext ",
];

fn capabilities(value: &str) -> anyhow::Result<CapabilitySet> {
    let names = value.split_whitespace();
    let found = names.map(|name| match name {
        "CAP_SYS_ADMIN" => Ok(CapabilitySet::SYS_ADMIN),
        "CAP_DAC_READ_SEARCH" => Ok(CapabilitySet::DAC_READ_SEARCH),
        _ => bail!("the sandbox does not know {name}"),
    });
    found.collect()
}

fn switch(key: &str, value: &str) -> anyhow::Result<Switch> {
    Ok(match (key, value) {
        ("NoNewPrivileges", "yes") => Switch::NoNewPrivileges,
        ("MemoryDenyWriteExecute", "yes") => Switch::MemoryDenyWriteExecute,
        ("LockPersonality", "yes") => Switch::LockPersonality,
        ("RestrictNamespaces", "yes") => Switch::RestrictNamespaces,
        ("RestrictRealtime", "yes") => Switch::RestrictRealtime,
        ("RestrictSUIDSGID", "yes") => Switch::RestrictSuidSgid,
        ("ProtectSystem", "strict") => Switch::ProtectSystem,
        ("ProtectHome", "yes") => Switch::ProtectHome,
        ("PrivateTmp", "yes") => Switch::PrivateTmp,
        ("ProtectKernelTunables", "yes") => Switch::ProtectKernelTunables,
        ("ProtectKernelModules", "yes") => Switch::ProtectKernelModules,
        _ => bail!("the sandbox does not know this setting: teach it what systemd does then"),
    })
}

fn octal(text: &str) -> anyhow::Result<u32> {
    u32::from_str_radix(text, 8).context("no octal number")
}

fn list(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[Service]\nUser=x\nCapabilityBoundingSet=\nDevicePolicy=closed\n";

    fn confinement(more: &str) -> anyhow::Result<Confinement> {
        Confinement::of(&Unit::parse(&format!("{LEAST}{more}\n"))?)
    }

    #[test]
    fn a_setting_that_is_not_known_is_an_error() {
        assert_eq!(confinement("UMask=0077").unwrap().umask, Some(0o077));
        for unknown in [
            "PrivateUsers=yes",
            "ProtectSystem=full",
            "DeviceAllow=block-* rw",
        ] {
            let error = confinement(unknown).unwrap_err();
            assert!(error.to_string().contains(unknown), "{error}");
        }
        let unit = Unit::parse("[Service]\nUser=x\nDevicePolicy=closed\n").unwrap();
        assert!(
            Confinement::of(&unit).is_err(),
            "it would keep capabilities"
        );
    }
}
