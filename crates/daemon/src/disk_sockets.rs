//! The sockets of disks, over vhost-user and over NBD: which there are, and where who connects to one
//! goes.
//!
//! ```text
//!   disk attached ─► settle_disk() ─► sockets opened and closed ◄─ settle() ◄─ VM's images changed
//!                                                        │ accepted
//!                              vhost-user ◄──────────────┴──────────────► NBD
//!                  ShardHandle::connect                   nbd::Server with this disk as its only export
//! ```
//!
//! A disk has its socket from the moment that its shard serves it until it begins to detach, so a
//! VM never finds one that leads nowhere. A disk that names a socket which cannot be opened is not
//! attached at run time; at a start it is, since it may be needed otherwise: that is logged, shown
//! with the disk, and tried again at the next change.
//!
//! A disk claims its path before it is opened ([`Paths`]), and one that comes to a path that is claimed has no socket
//! until it is attached anew. A change of one disk costs the same however many others there are.

mod accept;
mod paths;

use accept::{Guests, accept};
use paths::{Paths, of_disk};

use super::exports::DiskExports;
use super::registry::{Entry, Phase, Registry};
use super::resources::HostResources;
use super::shards::Shards;
use super::sockets::{Place, Sockets};
use super::vms::VmBook;
use api::front_ends::{NbdSocket, VhostSocket};
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{DiskConfig, Name, NbdConfig, VhostUserConfig, serial, vhost_socket};
use nbd_server::{self as nbd, Server, TlsOffer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use units::errors::chain;
use vhost_user::MappingLimits;

/// Permission bits of a directory of sockets that we make; the socket's own say who may reach it.
const DIRECTORY_MODE: u32 = 0o755;

/// What is spoken at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Protocol {
    VhostUser,
    Nbd,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VhostUser => "vhost-user",
            Self::Nbd => "NBD",
        })
    }
}

/// Which attachment of a disk, over which protocol, and of a base image for which VM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SocketKey {
    disk: Name,
    serial: u64,
    protocol: Protocol,
    reader: Option<Name>,
}

impl SocketKey {
    /// Before all sockets of a disk, in their order.
    fn first(disk: &Name) -> Self {
        Self {
            disk: disk.clone(),
            serial: 0,
            protocol: Protocol::VhostUser,
            reader: None,
        }
    }
}

/// An open socket, or why there is none.
struct DiskSocket {
    shown: VhostSocket,
    accepting: Option<Accepting>,
}

/// Who connects is let in as long as this is there.
struct Accepting {
    task: AbortHandle,
    /// Closes an NBD socket, and ends the handshakes that have begun there.
    _open: Option<watch::Sender<bool>>,
    _place: Place,
}

impl Drop for DiskSocket {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.task.abort();
        }
    }
}

impl DiskSocket {
    fn shut(path: &Path, vm: Name, error: String) -> Self {
        let path = path.display().to_string();
        let error = Some(error);
        let shown = VhostSocket { path, vm, error };
        Self {
            shown,
            accepting: None,
        }
    }
}

/// A socket that a disk is to have, now or when it has been opened.
struct Claim<'e> {
    key: SocketKey,
    entry: &'e Entry,
    path: PathBuf,
}

impl Claim<'_> {
    /// Whose VM connects there.
    fn vm(&self) -> Name {
        let reader = self.key.reader.clone();
        reader.unwrap_or_else(|| self.entry.vm())
    }
}

fn is_of(path: &Path, disk: &Name) -> String {
    format!("{} is the socket of the disk '{disk}'", path.display())
}

#[derive(Default)]
struct State {
    paths: Paths,
    open: BTreeMap<SocketKey, DiskSocket>,
    /// Disks with a socket that could not be opened.
    shut: BTreeSet<Name>,
    is_closed: bool,
}

/// The sockets of all disks.
pub(super) struct DiskSockets {
    config: VhostUserConfig,
    /// What may be mapped of guests' memory, by all VMs of the daemon together.
    mapping: MappingLimits,
    nbd: NbdSockets,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    vms: Arc<VmBook>,
    sockets: Arc<Sockets>,
    /// Held for the few system calls that a change takes; no request passes here.
    state: Mutex<State>,
}

/// What disks' own NBD sockets have in common.
pub(super) struct NbdSockets {
    pub(super) config: NbdConfig,
    /// That of the sockets that all disks share; each own socket has one beside it.
    pub(super) server: Server,
    pub(super) exports: Arc<DiskExports>,
}

impl DiskSockets {
    pub(super) fn new(
        (config, mapping): (VhostUserConfig, MappingLimits),
        nbd: NbdSockets,
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        vms: Arc<VmBook>,
        sockets: Arc<Sockets>,
    ) -> Self {
        Self {
            config,
            mapping,
            nbd,
            registry,
            shards,
            vms,
            sockets,
            state: Mutex::default(),
        }
    }

    /// What is known of who has connected, and of the host.
    pub(super) fn resources(&self) -> &Arc<HostResources> {
        self.nbd.exports.resources()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens and closes sockets until all are those that should be.
    pub(super) fn settle(&self) {
        let mut state = self.lock();
        let mut entries = self.registry.all();
        let there: BTreeSet<&Name> = entries.iter().map(|entry| &entry.config.name).collect();
        let with_sockets = state.open.keys().map(|key| &key.disk);
        let with_sockets: BTreeSet<&Name> = with_sockets.chain(state.paths.disks()).collect();
        let gone: Vec<Name> = with_sockets.difference(&there).copied().cloned().collect();
        // Closed first, so that who takes their place finds the paths free; then who was there first.
        for name in gone {
            self.settle_one(&mut state, &name, None);
        }
        entries.sort_by_key(|entry| entry.serial);
        for entry in &entries {
            self.settle_one(&mut state, &entry.config.name, Some(entry));
        }
    }

    /// Opens and closes sockets until those of this disk are the ones that should be. Sockets of others that could not
    /// be opened are tried again.
    pub(super) fn settle_disk(&self, name: &Name) {
        let mut state = self.lock();
        let mut names = mem::take(&mut state.shut);
        names.insert(name.clone());
        for name in names {
            let entry = self.registry.get(&name);
            self.settle_one(&mut state, &name, entry.as_ref());
        }
    }

    fn settle_one(&self, state: &mut State, name: &Name, entry: Option<&Entry>) {
        let claims = entry.map_or_else(Vec::new, |entry| self.claims(entry));
        self.claim(state, name, &claims);
        let is_served =
            |entry: &Entry| matches!(entry.phase, Phase::Attached { .. } | Phase::Standby { .. });
        let is_wanted = !state.is_closed && entry.is_some_and(is_served);
        let wanted = if is_wanted { claims.as_slice() } else { &[] };
        let stays = |key: &SocketKey, socket: &DiskSocket| {
            socket.accepting.is_some() && wanted.iter().any(|claim| claim.key == *key)
        };
        let closing: Vec<SocketKey> = of_disk(&state.open, name)
            .filter(|(key, socket)| !stays(key, socket))
            .map(|(key, _)| key.clone())
            .collect();
        // Closed first, so that a disk that was attached anew finds its path free.
        for key in closing {
            state.open.remove(&key);
        }
        state.shut.remove(name);
        for claim in wanted {
            if state.open.contains_key(&claim.key) {
                continue;
            }
            let socket = match state.paths.barred_by(&claim.key) {
                Some(other) => DiskSocket::shut(&claim.path, claim.vm(), is_of(&claim.path, other)),
                None => self.open(claim),
            };
            if socket.accepting.is_none() {
                state.shut.insert(name.clone());
            }
            state.open.insert(claim.key.clone(), socket);
        }
    }

    /// Lets a disk have these paths and no others; one that another disk has is told.
    fn claim(&self, state: &mut State, name: &Name, claims: &[Claim<'_>]) {
        let sockets: Vec<(SocketKey, PathBuf)> = claims
            .iter()
            .map(|claim| (claim.key.clone(), claim.path.clone()))
            .collect();
        let barred = state
            .paths
            .claim(name, &sockets, |owner| self.is_there(owner));
        for (key, owner) in barred {
            if let Some(claim) = claims.iter().find(|claim| claim.key == key) {
                let (reason, protocol) = (is_of(&claim.path, &owner), key.protocol);
                tracing::error!(disk = %name, reason, "the disk has no {protocol} socket");
            }
        }
    }

    fn is_there(&self, key: &SocketKey) -> bool {
        self.registry.has(&key.disk, key.serial)
    }

    /// Lets a disk that has been reserved claim the paths of its sockets.
    ///
    /// # Errors
    /// If another disk has claimed one of them.
    pub(super) fn may_attach(&self, entry: &Entry) -> Result<(), Problem> {
        let mut state = self.lock();
        let claims = self.claims(entry);
        for claim in &claims {
            let owner = state.paths.owner(&claim.path);
            let is_other =
                |owner: &&SocketKey| owner.disk != claim.key.disk && self.is_there(owner);
            if let Some(owner) = owner.filter(is_other) {
                let detail = is_of(&claim.path, &owner.disk);
                let remedy = match claim.key.protocol {
                    Protocol::VhostUser => {
                        "give it a path of its own: --vhost-socket PATH, or --vhost-socket off"
                    }
                    Protocol::Nbd => "give it a path of its own: --nbd-socket PATH",
                };
                return Err(Problem::new(ProblemKind::Invalid, detail).with_remedy(remedy));
            }
        }
        self.claim(&mut state, &entry.config.name, &claims);
        Ok(())
    }

    /// Why a disk that is attached lacks the socket that it names.
    ///
    /// # Errors
    /// If that could not be opened.
    pub(super) fn is_open(&self, disk: &DiskConfig) -> Result<(), Problem> {
        let refused =
            |reason, remedy| Err(Problem::new(ProblemKind::Invalid, reason).with_remedy(remedy));
        let mut vhost = self.of(&disk.name).into_iter();
        if disk.vhost_user.socket.is_some()
            && let Some(reason) = vhost.find_map(|socket| socket.error)
        {
            let remedy = "choose another path: --vhost-socket PATH, or --vhost-socket off";
            return refused(reason, remedy);
        }
        match self.nbd_of(&disk.name).and_then(|socket| socket.error) {
            Some(reason) => refused(reason, "choose another path: --nbd-socket PATH"),
            None => Ok(()),
        }
    }

    /// Closes all of them, for good.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.settle();
    }

    /// The sockets of a disk over vhost-user.
    pub(super) fn of(&self, disk: &Name) -> Vec<VhostSocket> {
        self.shown(disk, Protocol::VhostUser)
    }

    /// The NBD socket of a disk's own.
    pub(super) fn nbd_of(&self, disk: &Name) -> Option<NbdSocket> {
        let VhostSocket { path, error, .. } = self.shown(disk, Protocol::Nbd).pop()?;
        Some(NbdSocket { path, error })
    }

    fn shown(&self, disk: &Name, protocol: Protocol) -> Vec<VhostSocket> {
        let state = self.lock();
        let all = of_disk(&state.open, disk).filter(|(key, _)| key.protocol == protocol);
        all.map(|(_, socket)| socket.shown.clone()).collect()
    }

    /// The sockets that a disk is to have.
    fn claims<'e>(&self, entry: &'e Entry) -> Vec<Claim<'e>> {
        let disk = &entry.config;
        let readers: Vec<Option<Name>> = if disk.shared {
            let vms = self.vms.names().into_iter();
            vms.filter(|vm| self.vms.may_read(vm, &disk.name))
                .map(Some)
                .collect()
        } else {
            vec![None]
        };
        let claim = |protocol, reader: Option<Name>, path: PathBuf| Claim {
            key: SocketKey {
                disk: disk.name.clone(),
                serial: entry.serial,
                protocol,
                reader,
            },
            entry,
            path,
        };
        let vhost = readers.into_iter().filter_map(|reader| {
            let path = vhost_socket(&self.config, disk, reader.as_ref())?;
            Some(claim(Protocol::VhostUser, reader, path))
        });
        let nbd = disk.nbd.socket.clone();
        vhost
            .chain(nbd.map(|path| claim(Protocol::Nbd, None, path)))
            .collect()
    }

    fn open(&self, claim: &Claim<'_>) -> DiskSocket {
        let path = claim.path.as_path();
        let opened = match claim.key.protocol {
            Protocol::VhostUser => self.open_vhost(claim),
            Protocol::Nbd => self.open_nbd(claim),
        };
        match opened {
            Ok(accepting) => DiskSocket {
                shown: VhostSocket {
                    path: path.display().to_string(),
                    vm: claim.vm(),
                    error: None,
                },
                accepting: Some(accepting),
            },
            Err(error) => {
                let SocketKey { disk, protocol, .. } = &claim.key;
                tracing::error!(%disk, reason = error, "the disk has no {protocol} socket");
                DiskSocket::shut(path, claim.vm(), error)
            }
        }
    }

    fn open_vhost(&self, claim: &Claim<'_>) -> Result<Accepting, String> {
        let (disk, path) = (&claim.entry.config, claim.path.as_path());
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
        let guests = Guests {
            id: claim.entry.id,
            cache: claim.entry.cache.clone(),
            disk: disk.name.clone(),
            reader: claim.key.reader.clone(),
            serial: serial(disk),
            sector: disk.vhost_user.sector(),
            mapping: self.mapping.clone(),
            vm: claim.vm(),
            resources: Arc::clone(self.resources()),
        };
        let accepting = accept(listener, Arc::clone(&self.shards), guests);
        Ok(Accepting {
            task: tokio::spawn(accepting).abort_handle(),
            _open: None,
            _place: place,
        })
    }

    fn open_nbd(&self, claim: &Claim<'_>) -> Result<Accepting, String> {
        let NbdSockets {
            config,
            server,
            exports,
        } = &self.nbd;
        let (own, path) = (&claim.entry.config.nbd, claim.path.as_path());
        let mode = own.socket_mode.unwrap_or(config.unix_socket_mode).0.get();
        let group = own
            .socket_group
            .as_ref()
            .or(config.unix_socket_group.as_ref());
        let opened = self.sockets.unix(path, mode, group.map(String::as_str));
        let (listener, place) = opened.map_err(|error| chain(&error))?;
        let listener = nbd::Listener::of_unix(listener, path).map_err(|error| chain(&error))?;
        let SocketKey { disk, serial, .. } = &claim.key;
        let server = server.for_one_export(Arc::new(exports.only(disk.clone(), *serial)));
        let (open, closes) = watch::channel(false);
        // Who may connect is said by the file's permissions: there is nothing to prove by TLS.
        let serving = async move { server.serve(listener, TlsOffer::Off, closes).await };
        Ok(Accepting {
            task: tokio::spawn(serving).abort_handle(),
            _open: Some(open),
            _place: place,
        })
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
