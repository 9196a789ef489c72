//! What must survive outside the flash: the state directory.
//!
//! ```text
//!   state_dir/
//!     lock                one daemon or offline command at a time
//!     disks.json          disks that were attached at run time
//!     settings.json       what was changed of VMs, caches and disks at run time
//!     scrubs.json         how far scrubs of caches' flash are
//!     owners/             who has the disks whose origin is no file: see `shard::OwnerFile`
//!     late-writes/        what servers may still write that was asked before: see `origin::Keeping`
//!     ...                 what each shard records of its cache
//! ```
//!
//! A file is replaced whole: written beside, synced, renamed over, directory synced. So after
//! a crash it holds either the old or the new list.

use super::scrub_records::ScrubRecords;
use api::write_back::DiskChange;
use configuration::{DiskConfig, Name, PolicyChange, VmChange};
use durable_file::Readers;
use origin::{KeepSockets, Keeping};
use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shard::{ClusterRecords, Folders};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of `disks.json` that this program writes and reads.
const DISKS_VERSION: u32 = 1;
/// The same of `settings.json`.
const SETTINGS_VERSION: u32 = 1;
/// The same of `scrubs.json`.
const SCRUBS_VERSION: u32 = 1;
const LOCK: &str = "lock";
/// A file that is written and removed at a start, to see whether that is possible.
const PROBE: &str = "probe";
/// Its size: more than any record has.
const PROBE_BYTES: usize = 8192;
const DISKS: &str = "disks.json";
const SETTINGS: &str = "settings.json";
const SCRUBS: &str = "scrubs.json";

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another daemon, or an offline command, uses it.
    #[error("another hearth uses the state directory {}", dir.display())]
    InUse {
        /// Which directory.
        dir: PathBuf,
    },
    /// A file of it cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of it is not what this program writes.
    #[error("{} is not what this version writes and reads", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The state directory of this daemon, held until it is dropped.
#[derive(Debug)]
pub struct StateDir {
    dir: PathBuf,
    /// Where owner's records of what is no file are, for all hosts that use it.
    owners_dir: Option<PathBuf>,
    /// Where they are if this host is in a cluster.
    cluster: Option<Arc<dyn ClusterRecords>>,
    /// What outlives sessions with origins' servers; none before it is told.
    keeping: Option<Keeping>,
    /// Held for its lock, which the system lets go when the process ends, however it ends.
    _lock: File,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskList {
    version: u32,
    disks: Vec<DiskConfig>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsList {
    version: u32,
    vms: BTreeMap<Name, VmChange>,
    #[serde(default)]
    caches: BTreeMap<Name, PolicyChange>,
    #[serde(default)]
    disks: BTreeMap<Name, DiskChange>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScrubList {
    version: u32,
    caches: ScrubRecords,
}

/// The settings that were changed at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// Of VMs.
    pub vms: BTreeMap<Name, VmChange>,
    /// Of caches' policies.
    pub caches: BTreeMap<Name, PolicyChange>,
    /// Of disks of the configuration file.
    pub disks: BTreeMap<Name, DiskChange>,
}

impl StateDir {
    /// Takes the directory for this daemon; makes it if it is missing.
    ///
    /// # Errors
    /// If another daemon or an offline command has it, or it cannot be written.
    pub fn open(dir: &Path) -> Result<Self, StateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        std::fs::create_dir_all(dir).map_err(failed(dir))?;
        let path = dir.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed(&path))?;
        let lock = locked(lock, dir)?;
        // A full or read-only file system opens and locks a file as any other does, and then no disk
        // could be attached: what protects its bytes could not be written down.
        let probe = dir.join(PROBE);
        durable_file::replace(&probe, Readers::Owner, &[0; PROBE_BYTES])
            .and_then(|()| std::fs::remove_file(&probe))
            .map_err(failed(&probe))?;
        Ok(Self {
            _lock: lock,
            dir: dir.to_owned(),
            owners_dir: None,
            cluster: None,
            keeping: None,
        })
    }

    /// The same, with a folder for owner's records that hosts share.
    #[must_use]
    pub fn sharing(mut self, owners_dir: Option<PathBuf>) -> Self {
        self.owners_dir = owners_dir;
        self
    }

    /// The same, for a host of a cluster whose store has these records.
    #[must_use]
    pub(super) fn in_cluster(mut self, cluster: Option<Arc<dyn ClusterRecords>>) -> Self {
        self.cluster = cluster;
        self
    }

    /// The same, for a daemon with this folder for memory that outlives it, whose connections these
    /// keep.
    #[must_use]
    pub(super) fn keeping_in(mut self, runtime_dir: &Path, sockets: Arc<dyn KeepSockets>) -> Self {
        self.keeping = Some(Keeping {
            runtime_dir: runtime_dir.to_owned(),
            state_dir: self.dir.clone(),
            sockets,
        });
        self
    }

    /// What outlives sessions with origins' servers.
    pub(super) fn keeping(&self) -> Option<Keeping> {
        self.keeping.clone()
    }

    /// Where owner's records are that are not beside their origins.
    pub fn folders(&self) -> Folders {
        Folders {
            state: self.dir.clone(),
            shared: self.owners_dir.clone(),
            cluster: self.cluster.clone(),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The disks that were attached at run time and not detached since.
    ///
    /// # Errors
    /// If the list is there and cannot be read.
    pub fn disks(&self) -> Result<Vec<DiskConfig>, StateError> {
        remembered_disks(&self.dir)
    }

    /// Replaces the list of disks, durably.
    ///
    /// # Errors
    /// If it cannot be written; then the old list stands.
    pub fn set_disks(&self, disks: Vec<DiskConfig>) -> Result<(), StateError> {
        let version = DISKS_VERSION;
        self.write(DISKS, &DiskList { version, disks })
    }

    /// The settings that were changed at run time and not taken back since.
    ///
    /// # Errors
    /// If they are there and cannot be read.
    pub fn settings(&self) -> Result<Changed, StateError> {
        let known = |list: &SettingsList| list.version == SETTINGS_VERSION;
        let list: Option<SettingsList> = read(&self.dir, SETTINGS, known)?;
        Ok(list.map_or_else(Changed::default, |list| Changed {
            vms: list.vms,
            caches: list.caches,
            disks: list.disks,
        }))
    }

    /// Replaces the changed settings, durably.
    ///
    /// # Errors
    /// If they cannot be written; then the old ones stand.
    pub fn set_settings(&self, changed: Changed) -> Result<(), StateError> {
        let list = SettingsList {
            version: SETTINGS_VERSION,
            vms: changed.vms,
            caches: changed.caches,
            disks: changed.disks,
        };
        self.write(SETTINGS, &list)
    }

    /// What is remembered of scrubs.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub(super) fn scrubs(&self) -> Result<ScrubRecords, StateError> {
        let known = |list: &ScrubList| list.version == SCRUBS_VERSION;
        let list: Option<ScrubList> = read(&self.dir, SCRUBS, known)?;
        Ok(list.map_or_else(ScrubRecords::new, |list| list.caches))
    }

    /// Replaces what is remembered of scrubs, durably.
    ///
    /// # Errors
    /// If it cannot be written; then the old one stands.
    pub(super) fn set_scrubs(&self, caches: ScrubRecords) -> Result<(), StateError> {
        let version = SCRUBS_VERSION;
        self.write(SCRUBS, &ScrubList { version, caches })
    }

    fn write<T: Serialize>(&self, name: &str, content: &T) -> Result<(), StateError> {
        let path = self.dir.join(name);
        let write = || {
            let mut text = serde_json::to_vec_pretty(content)?;
            text.push(b'\n');
            durable_file::replace(&path, Readers::Anybody, &text)
        };
        write().map_err(|source| StateError::Io {
            path: path.clone(),
            source,
        })
    }
}

/// Keeps every daemon from using a state directory, for as long as it is held.
#[derive(Debug)]
pub struct NoDaemon {
    /// None if no daemon ever used the directory.
    _lock: Option<File>,
}

impl NoDaemon {
    /// Locks a state directory as its daemon does. A directory that is missing stays so: no daemon
    /// uses it.
    ///
    /// # Errors
    /// [`StateError::InUse`] if a daemon runs, or the directory cannot be looked at.
    pub fn on(dir: &Path) -> Result<Self, StateError> {
        let path = dir.join(LOCK);
        let lock = match File::open(&path) {
            Ok(lock) => Some(locked(lock, dir)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(StateError::Io { path, source }),
        };
        Ok(Self { _lock: lock })
    }
}

/// Whether a daemon, or an offline command, uses a state directory.
pub(crate) fn is_running(dir: &Path) -> bool {
    matches!(NoDaemon::on(dir), Err(StateError::InUse { .. }))
}

/// The file, locked for whoever holds it; the system lets go of it when the process ends.
fn locked(lock: File, dir: &Path) -> Result<File, StateError> {
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StateError::InUse {
            dir: dir.to_owned(),
        }),
        Err(errno) => Err(StateError::Io {
            path: dir.join(LOCK),
            source: errno.into(),
        }),
    }
}

/// The disks that were attached at run time and not detached since, as a state directory has them.
///
/// # Errors
/// If the list is there and cannot be read.
pub fn remembered_disks(dir: &Path) -> Result<Vec<DiskConfig>, StateError> {
    let known = |list: &DiskList| list.version == DISKS_VERSION;
    let list: Option<DiskList> = read(dir, DISKS, known)?;
    Ok(list.map_or_else(Vec::new, |list| list.disks))
}

fn read<T: DeserializeOwned>(
    dir: &Path,
    name: &str,
    is_known: impl FnOnce(&T) -> bool,
) -> Result<Option<T>, StateError> {
    let path = dir.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StateError::Io { path, source }),
    };
    match serde_json::from_str::<T>(&text) {
        Ok(list) if is_known(&list) => Ok(Some(list)),
        Ok(_) => Err(StateError::Foreign {
            path,
            source: serde::de::Error::custom("another version"),
        }),
        Err(source) => Err(StateError::Foreign { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::parse;

    fn disk() -> DiskConfig {
        let text = "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='d'\nsize='1GiB'\n\
                    origin={ nbd='nbd://h/e', request_timeout='5s' }\n";
        parse(text).unwrap().disks.remove(0)
    }

    #[test]
    fn a_state_directory_has_one_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        let first = StateDir::open(&state).unwrap();
        assert!(matches!(
            StateDir::open(&state),
            Err(StateError::InUse { .. })
        ));
        drop(first);
        StateDir::open(&state).unwrap();
    }

    #[test]
    fn a_state_directory_has_a_daemon_or_an_offline_command() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a");
        drop(NoDaemon::on(&state).unwrap());
        assert!(!state.exists());
        let daemon = StateDir::open(&state).unwrap();
        let refused = NoDaemon::on(&state);
        assert!(matches!(refused, Err(StateError::InUse { .. })));
        drop(daemon);
        let command = NoDaemon::on(&state).unwrap();
        let refused = StateDir::open(&state);
        assert!(matches!(refused, Err(StateError::InUse { .. })));
        drop(command);
        StateDir::open(&state).unwrap();
    }

    #[test]
    fn the_list_of_disks_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.disks().unwrap(), []);
        state.set_disks(vec![disk()]).unwrap();
        assert_eq!(state.disks().unwrap(), [disk()]);
        state.set_disks(Vec::new()).unwrap();
        assert_eq!(state.disks().unwrap(), []);
    }

    #[test]
    fn changed_settings_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.settings().unwrap(), Changed::default());
        let change = VmChange {
            floor: Some(configuration::Text(units::Bytes::gib(3))),
            ..VmChange::default()
        };
        let vms = BTreeMap::from([("web".parse().unwrap(), change)]);
        let policy = PolicyChange {
            reuses: Some(2),
            ..PolicyChange::default()
        };
        let caches = BTreeMap::from([("main".parse().unwrap(), policy)]);
        let disk = DiskChange {
            write_policy: Some(configuration::WritePolicy::Back),
            ..DiskChange::default()
        };
        let disks = BTreeMap::from([("web-1".parse().unwrap(), disk)]);
        let changed = Changed { vms, caches, disks };
        state.set_settings(changed.clone()).unwrap();
        assert_eq!(state.settings().unwrap(), changed);
        std::fs::write(
            dir.path().join("settings.json"),
            "{\"version\":9,\"vms\":{}}",
        )
        .unwrap();
        assert!(matches!(state.settings(), Err(StateError::Foreign { .. })));
    }

    #[test]
    fn a_list_of_another_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        for text in [
            "",
            "{",
            "{\"version\":2,\"disks\":[]}",
            "{\"version\":1,\"disks\":[],\"x\":1}",
        ] {
            std::fs::write(dir.path().join("disks.json"), text).unwrap();
            assert!(
                matches!(state.disks(), Err(StateError::Foreign { .. })),
                "{text}"
            );
        }
    }
}
