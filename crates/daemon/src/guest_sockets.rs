//! The sockets of the agents in guests: one for each VM that has a disk.
//!
//! ```text
//!   VM's QEMU (virtio-serial, connects again and again) ──► DIRECTORY/VM.sock ──► guest_channel::serve
//!                                                               │ one connection at a time
//!                                                          Heard ──► API, metrics
//! ```
//!
//! Which VM speaks is said by the socket, never by what comes over it.

use super::guest_channel::{Heard, hello, serve};
use super::guest_hints::GuestHints;
use super::registry::{Entry, Registry};
use super::shards::Shards;
use super::sockets::{Place, Sockets};
use api::guests::{GuestPeers, GuestStatus};
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{GuestConfig, Name, serial};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::AbortHandle;
use units::errors::chain;

/// How often it is looked which VMs there are: a socket that is a second late is found by the next attempt of its
/// VM's QEMU.
const SETTLE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after each connection, and after the system had no descriptor or memory for one: neither a QEMU that
/// connects again and again nor a lack of descriptors keeps us busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Permission bits of the directory if we make it; the sockets' own say who may use them.
const DIRECTORY_MODE: u32 = 0o755;

/// The sockets of all VMs' guests.
pub(super) struct GuestSockets {
    config: GuestConfig,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    sockets: Arc<Sockets>,
    /// What tells this daemon from those before it.
    boot: u128,
    /// Held for the few system calls that a change takes.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    channels: BTreeMap<Name, Channel>,
    is_closed: bool,
}

struct Channel {
    heard: Arc<Heard>,
    accepting: Result<Accepting, String>,
}

struct Accepting {
    task: AbortHandle,
    _place: Place,
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GuestSockets {
    pub(super) fn new(
        config: GuestConfig,
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        sockets: Arc<Sockets>,
    ) -> Self {
        Self {
            config,
            registry,
            shards,
            sockets,
            boot: new_id(),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the sockets those of the VMs that there are, until they are closed.
    pub(super) async fn keep(self: Arc<Self>) {
        while self.settle() {
            tokio::time::sleep(SETTLE_INTERVAL).await;
        }
    }

    /// Opens and closes sockets. Whether there will be any more to do.
    fn settle(&self) -> bool {
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        let entries = self.registry.all();
        let own = entries.iter().filter(|entry| !entry.config.shared);
        let vms: BTreeSet<Name> = own.map(Entry::vm).collect();
        state.channels.retain(|vm, _| vms.contains(vm));
        for vm in vms {
            let Some(path) = self.config.socket(&vm) else {
                continue;
            };
            let before = state.channels.get(&vm);
            if before.is_some_and(|channel| channel.accepting.is_ok()) {
                continue;
            }
            let heard = Arc::new(Heard::new(self.config.sockets));
            let accepting = self.open(&vm, &path, &heard);
            if let Err(reason) = &accepting
                && before.is_none()
            {
                tracing::error!(%vm, reason, "the VM has no socket for the agent in its guest");
            }
            state.channels.insert(vm, Channel { heard, accepting });
        }
        true
    }

    fn open(&self, vm: &Name, path: &Path, heard: &Arc<Heard>) -> Result<Accepting, String> {
        if let Some(directory) = path.parent() {
            make(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        let mode = self.config.socket_mode.0.get();
        let group = self.config.socket_group.as_deref();
        let opened = self.sockets.unix(path, mode, group);
        let (listener, place) = opened.map_err(|error| chain(&error))?;
        let listener = UnixListener::from_std(listener).map_err(|error| chain(&error))?;
        let (registry, shards) = (Arc::clone(&self.registry), Arc::clone(&self.shards));
        let hints = GuestHints::new(vm.clone(), registry, shards);
        let accepting = accept(listener, Arc::clone(heard), (vm.clone(), self.boot), hints);
        Ok(Accepting {
            task: tokio::spawn(accepting).abort_handle(),
            _place: place,
        })
    }

    /// Closes all of them, for good.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.channels.clear();
    }

    /// The channel of a VM's guest; none if there are no such sockets, or the VM has no disk of its own.
    ///
    /// Opens the socket of a VM that is newer than the last look at which VMs there are: whoever attaches a disk and
    /// asks for the channel at once is told where the channel is.
    pub(super) fn of(&self, vm: &Name) -> Option<GuestStatus> {
        let path = self.config.socket(vm)?;
        let path = path.display().to_string();
        if !self.lock().channels.contains_key(vm) {
            self.settle();
        }
        let state = self.lock();
        let channel = state.channels.get(vm)?;
        let error = channel.accepting.as_ref().err().cloned();
        Some(channel.heard.shown(path, error))
    }

    /// Whom a VM's guest speaks with, as its agent says.
    ///
    /// # Errors
    /// If the configuration does not let guests say it, or no VM of this name has a channel.
    pub(super) fn peers(&self, vm: &Name) -> Result<GuestPeers, Problem> {
        let state = self.lock();
        let refused = || {
            let detail = "what guests say of their sockets is not kept";
            let remedy = "set guest.directory and guest.sockets = true in the configuration, and restart the daemon";
            Problem::new(ProblemKind::Refused, detail).with_remedy(remedy)
        };
        match state.channels.get(vm) {
            _ if !self.config.sockets || self.config.socket(vm).is_none() => Err(refused()),
            None => Err(Problem::no_such_vm(vm.as_str())),
            Some(channel) => channel.heard.peers().ok_or_else(refused),
        }
    }
}

/// Serves who connects, one after the other: a VM has one QEMU.
async fn accept(
    listener: UnixListener,
    heard: Arc<Heard>,
    (vm, boot): (Name, u128),
    mut hints: GuestHints,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let own = hints.disks();
                let greeting = hello(boot, own.iter().map(|entry| serial(&entry.config)));
                serve(stream, Arc::clone(&heard), greeting, &mut hints).await;
            }
            Err(error) => {
                tracing::warn!(%vm, %error, "an agent in a guest could not be let in");
            }
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn make(directory: &Path) -> io::Result<()> {
    let made = std::fs::DirBuilder::new()
        .mode(DIRECTORY_MODE)
        .create(directory);
    match made {
        Ok(()) => {
            let permissions = std::fs::Permissions::from_mode(DIRECTORY_MODE);
            std::fs::set_permissions(directory, permissions)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// An id that no other start of a daemon has; 0 where the system gives none.
fn new_id() -> u128 {
    let path = PathBuf::from("/proc/sys/kernel/random/uuid");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    u128::from_str_radix(&text.trim_end().replace('-', ""), 16).unwrap_or(0)
}
