//! The sockets of disks over vhost-user: which there are, and where who connects to one goes.
//!
//! ```text
//!   disk attached, VM's images changed ─► settle() ─► sockets opened and closed
//!                                                        │ accepted
//!                                                        ▼
//!                                        ShardHandle::connect_vhost
//! ```
//!
//! A disk has its socket from the moment that its shard serves it until it begins to detach, so a
//! VM never finds one that leads nowhere. A socket that cannot be opened is no reason to withhold
//! the disk: it is logged, shown with the disk, and tried again at the next change.

use super::registry::{Entry, Phase, Registry};
use super::shards::Shards;
use super::sockets::{Place, Sockets};
use super::vms::VmBook;
use crate::api::front_ends::VhostSocket;
use crate::cli::exit::chain;
use crate::config::{Name, VhostUserConfig, serial, vhost_socket};
use shard::VhostClient;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::AbortHandle;
use units::DiskId;

/// Permission bits of a directory of sockets that we make: whoever may reach a socket is said by
/// the socket's own.
const DIRECTORY_MODE: u32 = 0o755;

/// Pause after the system could not accept a connection (no descriptors, no memory): trying again
/// at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which attachment of a disk, and of a base image for which VM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Threshold {
    disk: Name,
    serial: u64,
    reader: Option<Name>,
}

/// An open socket, or why there is none.
struct Door {
    shown: VhostSocket,
    accepting: Option<(AbortHandle, Place)>,
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some((accepting, _)) = &self.accepting {
            accepting.abort();
        }
    }
}

#[derive(Default)]
struct State {
    open: BTreeMap<Threshold, Door>,
    is_closed: bool,
}

/// The sockets of all disks.
pub(super) struct Doors {
    config: VhostUserConfig,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    vms: Arc<VmBook>,
    sockets: Arc<Sockets>,
    /// Held for the few system calls that a change takes; no request passes here.
    state: Mutex<State>,
}

/// Who comes through a door, and as what.
struct Guests {
    id: DiskId,
    cache: Name,
    disk: Name,
    reader: Option<Name>,
    serial: String,
    sector: u32,
}

impl Doors {
    pub(super) fn new(
        config: VhostUserConfig,
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        vms: Arc<VmBook>,
        sockets: Arc<Sockets>,
    ) -> Self {
        Self {
            config,
            registry,
            shards,
            vms,
            sockets,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens and closes sockets until they are those that should be.
    pub(super) fn settle(&self) {
        let mut state = self.lock();
        let mut wanted = BTreeMap::new();
        if !state.is_closed {
            for entry in self.registry.all() {
                self.want(&entry, &mut wanted);
            }
        }
        // Closed first, so that a disk that was attached anew finds its path free.
        state
            .open
            .retain(|threshold, door| wanted.contains_key(threshold) && door.accepting.is_some());
        for (threshold, (entry, path)) in wanted {
            if let std::collections::btree_map::Entry::Vacant(vacant) = state.open.entry(threshold)
            {
                let door = self.open(&entry, vacant.key(), &path);
                vacant.insert(door);
            }
        }
    }

    /// Closes all of them, for good.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.settle();
    }

    /// The sockets of a disk.
    pub(super) fn of(&self, disk: &Name) -> Vec<VhostSocket> {
        let state = self.lock();
        let all = state.open.iter();
        let theirs = all.filter(|(threshold, _)| threshold.disk == *disk);
        theirs.map(|(_, door)| door.shown.clone()).collect()
    }

    fn want(&self, entry: &Entry, wanted: &mut BTreeMap<Threshold, (Entry, PathBuf)>) {
        if !matches!(entry.phase, Phase::Attached { .. }) {
            return;
        }
        let disk = &entry.config;
        let readers: Vec<Option<Name>> = if disk.shared {
            let vms = self.vms.names().into_iter();
            vms.filter(|vm| self.vms.may_read(vm, &disk.name))
                .map(Some)
                .collect()
        } else {
            vec![None]
        };
        for reader in readers {
            if let Some(path) = vhost_socket(&self.config, disk, reader.as_ref()) {
                let threshold = Threshold {
                    disk: disk.name.clone(),
                    serial: entry.serial,
                    reader,
                };
                wanted.insert(threshold, (entry.clone(), path));
            }
        }
    }

    fn open(&self, entry: &Entry, threshold: &Threshold, path: &Path) -> Door {
        let disk = &entry.config;
        let mut shown = VhostSocket {
            path: path.display().to_string(),
            vm: threshold.reader.clone().unwrap_or_else(|| entry.vm()),
            error: None,
        };
        let guests = Guests {
            id: entry.id,
            cache: entry.cache.clone(),
            disk: disk.name.clone(),
            reader: threshold.reader.clone(),
            serial: serial(disk),
            sector: disk.vhost_user.sector(),
        };
        let accepting = match self.listen(path) {
            Ok((listener, place)) => {
                let accepting = accept(listener, Arc::clone(&self.shards), guests);
                Some((tokio::spawn(accepting).abort_handle(), place))
            }
            Err(error) => {
                tracing::error!(disk = %disk.name, reason = error, "the disk has no vhost-user socket");
                shown.error = Some(error);
                None
            }
        };
        Door { shown, accepting }
    }

    fn listen(&self, path: &Path) -> Result<(UnixListener, Place), String> {
        if let Some(directory) = self.config.directory.0.as_ref()
            && path.parent() == Some(&directory.0)
        {
            make(&directory.0).map_err(|error| format!("{}: {error}", directory.0.display()))?;
        }
        let group = self.config.socket_group.as_deref();
        let mode = self.config.socket_mode.0.get();
        let opened = self.sockets.unix(path, mode, group);
        let (listener, place) = opened.map_err(|error| chain(&error))?;
        let listener = UnixListener::from_std(listener).map_err(|error| chain(&error))?;
        Ok((listener, place))
    }
}

fn make(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Ok(()) => {
            let permissions = std::fs::Permissions::from_mode(DIRECTORY_MODE);
            std::fs::set_permissions(directory, permissions)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Hands over who connects, one after the other.
async fn accept(listener: UnixListener, shards: Arc<Shards>, guests: Guests) {
    let Guests {
        id,
        cache,
        disk,
        reader,
        serial,
        sector,
    } = guests;
    let Some(shard) = shards.get(&cache) else {
        return;
    };
    // A QEMU that is turned away comes again every second: told once for each reason.
    let mut told = None;
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket.into_std().map(OwnedFd::from),
            Err(error) => Err(error),
        };
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%disk, %error, "a VM could not be let in");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let client = VhostClient {
            socket,
            serial: serial.clone(),
            sector,
        };
        let vm = reader.as_ref().map(ToString::to_string);
        let outcome = shard
            .ask(|handle, reply| handle.connect_vhost(id, client, vm, reply))
            .await;
        if let Err(error) = &outcome
            && told.as_ref() != Some(error)
        {
            tracing::warn!(%disk, %error, "VM turned away");
        }
        told = outcome.err();
    }
}
