//! What an operator can do: attach, detach, drop, flush, set; and what there is to see.
//!
//! Which disks there are after a restart: those of the configuration file, always, and those
//! that were attached at run time and not detached since. The latter are remembered in the
//! state directory before an attachment is answered.

use super::answers;
use super::disk_book::DiskBook;
use super::disk_sockets::DiskSockets;
use super::ledger::Ledger;
use super::policies::PolicyBook;
use super::problems::{not_ready, on_its_way};
use super::recording::{Recordings, plan};
use super::registry::{Entry, Phase, Registry, Taken};
use super::shards::{Pulse, Pulses, Shard, Shards};
use super::state::StateDir;
use super::vms::VmBook;
use api::problem::ProblemKind;
use api::types::{DiskSource, DiskStatus, Listener, Problem, RecordRequest, Recording, Status};
use api::write_back::OfDirty;
use configuration::{DiskConfig, Name};
use shard::{LockWatch, ShardStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use units::DiskId;
use units::errors::chain;

/// The daemon as an operator sees it.
pub struct Control {
    started: Instant,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    disk_sockets: DiskSockets,
    new_locks: UnboundedSender<(Entry, LockWatch)>,
    recordings: Arc<Recordings>,
    /// Held while the list of disks is written, so that a later list is not overwritten.
    state: Mutex<StateDir>,
    pub(super) vms: Arc<VmBook>,
    pub(super) policies: Arc<PolicyBook>,
    pub(super) disk_book: DiskBook,
    pub(super) ledger: Mutex<Ledger>,
    /// Held while settings are changed, so that two changes are checked one after the other.
    pub(super) changing: tokio::sync::Mutex<()>,
    listeners: Mutex<Vec<Listener>>,
    /// Told when something has changed for which a disk may wait.
    waiting: tokio::sync::Notify,
    stopping: AtomicBool,
}

impl Control {
    /// A daemon that has no disks yet, and the locks of the disks that it attaches.
    pub(super) fn new(
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        disk_sockets: DiskSockets,
        vms: Arc<VmBook>,
        policies: Arc<PolicyBook>,
        disk_book: DiskBook,
        state: StateDir,
    ) -> (Self, UnboundedReceiver<(Entry, LockWatch)>) {
        let (new_locks, attached) = unbounded_channel();
        let control = Self {
            started: Instant::now(),
            registry,
            shards,
            disk_sockets,
            new_locks,
            recordings: Arc::default(),
            state: Mutex::new(state),
            vms,
            policies,
            disk_book,
            ledger: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            listeners: Mutex::default(),
            waiting: tokio::sync::Notify::new(),
            stopping: AtomicBool::new(false),
        };
        (control, attached)
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// From now on nothing is attached or changed.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.disk_sockets.close();
    }

    pub(super) fn disk_sockets(&self) -> &DiskSockets {
        &self.disk_sockets
    }

    /// Has the lock of a disk that was attached watched.
    pub(super) fn watch_lock(&self, entry: &Entry, lock: LockWatch) {
        // Nobody watches any more when the daemon ends.
        let _ = self.new_locks.send((entry.clone(), lock));
    }

    /// What was recorded, and is being recorded.
    pub(super) fn recordings(&self) -> &Arc<Recordings> {
        &self.recordings
    }

    /// Begins to record.
    ///
    /// # Errors
    /// If the request makes no sense, names a disk that is not there or a file that is, or another
    /// recording is under way.
    pub async fn record(&self, request: RecordRequest) -> Result<Recording, Problem> {
        self.refuse_when_stopping()?;
        let plan = plan(&request)?;
        for name in &request.disks {
            self.entry(name)?;
        }
        self.recordings.begin(&plan, request)?;
        for entry in self.entries() {
            self.tap(&entry).await;
        }
        tracing::info!(path = %plan.output.display(), sample = plan.sample_one_in, "recording");
        self.recordings.last()
    }

    /// Taps a disk if it is to be recorded. Before its first client, so that nothing is missed.
    pub(super) async fn tap(&self, entry: &Entry) {
        if let Some(shard) = self.shards.get(&entry.cache) {
            self.recordings.tap(entry, shard).await;
        }
    }

    pub(super) fn set_listeners(&self, listeners: Vec<Listener>) {
        *self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = listeners;
    }

    /// The daemon, its listeners and its caches.
    pub async fn status(&self) -> Status {
        self.status_of(&self.shards.pulses().await)
    }

    pub(super) fn status_of(&self, pulses: &Pulses<'_>) -> Status {
        let (mut caches, mut nbd_connections, mut vhost_user_connections) = (Vec::new(), 0, 0);
        for (shard, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                for disk in &status.disks {
                    let over = |front_end| disk.over(front_end).connections as u64;
                    vhost_user_connections += over(vhost_user::FRONT_END);
                    nbd_connections += over(nbd_server::FRONT_END);
                }
            }
            caches.push(self.cache(shard, pulse));
        }
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            disks: self.registry.len(),
            nbd_connections,
            vhost_user_connections,
            listeners,
            caches,
            recording: self.recordings.show(),
            requests_traced: self.recordings.requests(),
        }
    }

    /// One disk.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn disk(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let entry = self.entry(name)?;
        Ok(self.look(&entry).await)
    }

    pub(super) async fn look(&self, entry: &Entry) -> DiskStatus {
        let status = match self.shards.get(&entry.cache) {
            Some(shard) => match shard.pulse().await {
                Pulse::Status(status) => Some(status),
                Pulse::Opening | Pulse::Silent => None,
            },
            None => None,
        };
        self.shown(entry, status.as_deref())
    }

    pub(super) fn shown(&self, entry: &Entry, shard: Option<&ShardStatus>) -> DiskStatus {
        let served = shard.and_then(|shard| {
            let disk = shard.disks.iter().find(|disk| disk.id == entry.id)?;
            Some((disk, shard.now))
        });
        let mut status = answers::disk(entry, served);
        if let Phase::Waiting { .. } | Phase::Forgetting { .. } = entry.phase {
            let folders = self.state().folders();
            status.kept = shard.and_then(|shard| answers::kept(entry, shard, &folders));
        }
        status.vhost_user.sockets = self.disk_sockets.of(&entry.config.name);
        status.nbd_socket = self.disk_sockets.nbd_of(&entry.config.name);
        if entry.source == DiskSource::Config {
            status.changed = self.disk_book.change_of(&entry.config.name).keys();
        }
        status
    }

    /// Attaches a disk and remembers it.
    ///
    /// # Errors
    /// If the request makes no sense, the disk is attached already, or its origin cannot be
    /// used: then nothing is remembered.
    pub async fn attach(&self, disk: DiskConfig) -> Result<DiskStatus, Problem> {
        let entry = self.reserve(disk, DiskSource::Runtime)?;
        let has_room = self.has_room(&entry);
        if let Err(problem) = has_room.and_then(|()| self.disk_sockets.may_attach(&entry)) {
            self.registry.remove(&entry);
            return Err(problem);
        }
        self.tell_vm_of(&entry.config, &entry.cache).await;
        let policy = entry.config.write_policy;
        let phase = match self.open_and_attach(&entry, policy).await {
            Ok(phase) => phase,
            Err(unattached) => {
                self.registry.remove(&entry);
                return Err(unattached.problem);
            }
        };
        self.registry.set_phase(&entry, phase);
        self.disk_sockets.settle();
        let opened = self.disk_sockets.is_open(&entry.config);
        if let Err(problem) = opened.and_then(|()| self.remember()) {
            // An attachment that its VM cannot reach, or that would not survive a restart, is none.
            self.let_go(&entry, OfDirty::Keep).await?;
            return Err(problem);
        }
        self.disk(&entry.config.name).await
    }

    /// Has every disk that waits tried again now.
    pub(super) fn try_waiting(&self) {
        self.waiting.notify_waiters();
    }

    /// Ends when something has changed for which a disk may wait.
    pub(super) fn change(&self) -> tokio::sync::futures::Notified<'_> {
        self.waiting.notified()
    }

    /// Enters a disk into the registry.
    ///
    /// # Errors
    /// If its name or identity is taken, or it names no cache.
    pub(super) fn reserve(
        &self,
        mut disk: DiskConfig,
        source: DiskSource,
    ) -> Result<Entry, Problem> {
        self.refuse_when_stopping()?;
        let faults = configuration::disk_faults(&disk);
        if let Some(fault) = faults.first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let cache = self.cache_of(&disk)?;
        disk.cache = Some(cache.clone());
        let entry = Entry {
            id: configuration::disk_id(&disk),
            cache,
            source,
            serial: 0,
            without_back: None,
            phase: Phase::Attaching,
            config: disk,
        };
        match self.registry.reserve(entry.clone()) {
            Ok(entry) => Ok(entry),
            Err(Taken::Name) => Err(Problem::new(
                ProblemKind::AlreadyAttached,
                format!("there is a disk '{}' already", entry.config.name),
            )
            .with_remedy(format!("hearth disk detach {}", entry.config.name))),
            Err(Taken::Id(other)) => Err(Problem::new(
                ProblemKind::AlreadyAttached,
                format!("the disk '{other}' has the id {} already", entry.id),
            )),
        }
    }

    fn cache_of(&self, disk: &DiskConfig) -> Result<Name, Problem> {
        let mut names = self.shards.all().map(|shard| shard.config().name.clone());
        match &disk.cache {
            Some(name) if self.shards.get(name).is_some() => Ok(name.clone()),
            Some(name) => Err(Problem::no_such_cache(name.as_str())),
            None => match (names.next(), names.next()) {
                (Some(only), None) => Ok(only),
                (None, _) => Err(Problem::new(
                    ProblemKind::NoSuchCache,
                    "the configuration has no cache",
                )),
                _ => Err(
                    Problem::new(ProblemKind::Invalid, "there are several caches; name one")
                        .with_remedy("--cache NAME, or the key cache"),
                ),
            },
        }
    }

    /// Changes the entry of an attachment, if it is still there.
    pub(super) fn change_entry(&self, of: &Entry, change: impl FnOnce(&mut Entry)) {
        self.registry.change(of, |entry| {
            change(entry);
            true
        });
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.registry.all()
    }

    pub(super) fn entry(&self, name: &Name) -> Result<Entry, Problem> {
        self.registry
            .get(name)
            .ok_or_else(|| Problem::no_such_disk(name.as_str()))
    }

    pub(super) fn attached(&self, name: &Name) -> Result<(Entry, DiskId), Problem> {
        self.refuse_when_stopping()?;
        let entry = self.entry(name)?;
        match &entry.phase {
            Phase::Attached { .. } => {
                let id = entry.id;
                Ok((entry, id))
            }
            Phase::Waiting { why } => Err(not_ready(name, why)),
            Phase::Attaching | Phase::Forgetting { .. } | Phase::Detaching { .. } => {
                Err(on_its_way(name))
            }
        }
    }

    pub(super) fn shard(&self, entry: &Entry) -> Result<&Shard, Problem> {
        self.shards.get(&entry.cache).ok_or_else(|| {
            let detail = format!("there is no cache '{}'", entry.cache);
            Problem::new(ProblemKind::NoSuchCache, detail)
        })
    }

    pub(super) fn refuse_when_stopping(&self) -> Result<(), Problem> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Problem::new(
                ProblemKind::Stopping,
                "the daemon is stopping",
            ));
        }
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, StateDir> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down the disks that were attached at run time.
    pub(super) fn remember(&self) -> Result<(), Problem> {
        let state = self.state();
        let entries = self.registry.all().into_iter();
        let runtime = entries.filter(|entry| {
            entry.source == DiskSource::Runtime && !matches!(entry.phase, Phase::Attaching)
        });
        let disks = runtime.map(|entry| entry.config).collect();
        state.set_disks(disks).map_err(|error| {
            Problem::new(ProblemKind::Failed, chain(&error))
                .with_remedy("make room or restore the state directory, then repeat the command")
        })
    }
}
