//! What an operator can do: attach, detach, drop, flush, set.
//!
//! Which disks there are after a restart: those of the configuration file, always, and those
//! that were attached at run time and not detached since. The latter are remembered in the
//! state directory before an attachment is answered.

use super::disk_sockets::DiskSockets;
use super::observer::Observer;
use super::opening::Opener;
use super::problems::{not_ready, on_its_way, stands_by};
use super::recording::{Recordings, plan};
use super::registry::{Entry, Phase, Registry, Taken};
use super::remembered::Remembered;
use super::shards::Shards;
use super::tenancies::Tenancies;
use super::vouching::Vouching;
use api::problem::ProblemKind;
use api::types::{DiskSource, DiskStatus, Problem, RecordRequest, Recording};
use api::write_back::OfDirty;
use configuration::{DiskConfig, Name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::MutexGuard;
use units::DiskId;

/// What an operator can do, and what does it.
pub struct Control {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    disk_sockets: Arc<DiskSockets>,
    recordings: Arc<Recordings>,
    remembered: Arc<Remembered>,
    tenancies: Tenancies,
    opener: Opener,
    observer: Observer,
    /// Held while settings are changed, so that two changes are checked one after the other.
    changing: tokio::sync::Mutex<()>,
    /// Told when something has changed for which a disk may wait.
    waiting: tokio::sync::Notify,
    stopping: AtomicBool,
}

impl Control {
    /// A daemon that has no disks yet.
    pub(super) fn new(
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        disk_sockets: Arc<DiskSockets>,
        recordings: Arc<Recordings>,
        remembered: Arc<Remembered>,
        parts: (Tenancies, Opener, Observer),
    ) -> Self {
        let (tenancies, opener, observer) = parts;
        Self {
            registry,
            shards,
            disk_sockets,
            recordings,
            remembered,
            tenancies,
            opener,
            observer,
            changing: tokio::sync::Mutex::default(),
            waiting: tokio::sync::Notify::new(),
            stopping: AtomicBool::new(false),
        }
    }

    /// What there is to see.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    pub(super) fn tenancies(&self) -> &Tenancies {
        &self.tenancies
    }

    pub(super) fn opener(&self) -> &Opener {
        &self.opener
    }

    pub(super) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Waits until no other settings are being changed, and keeps others waiting meanwhile.
    pub(super) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
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
            self.registry.entry(name)?;
        }
        self.recordings.begin(&plan, request)?;
        for entry in self.registry.all() {
            self.opener.tap(&entry).await;
        }
        tracing::info!(path = %plan.output.display(), sample = plan.sample_one_in, "recording");
        self.recordings.last()
    }

    /// Attaches a disk and remembers it; if the cluster's store is away by an operator's word, `without_store`.
    ///
    /// # Errors
    /// If the request makes no sense, the disk is attached already, or its origin cannot be
    /// used: then nothing is remembered.
    pub async fn attach(
        &self,
        disk: DiskConfig,
        without_store: bool,
    ) -> Result<DiskStatus, Problem> {
        if disk.roams {
            let detail = "a disk roams only if the configuration file has it";
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let entry = self.reserve(disk, DiskSource::Runtime)?;
        let has_room = self.tenancies.has_room(&entry);
        if let Err(problem) = has_room.and_then(|()| self.disk_sockets.may_attach(&entry)) {
            self.registry.remove(&entry);
            return Err(problem);
        }
        self.tenancies.tell_of(&entry.config, &entry.cache).await;
        let attached = if without_store {
            let vouching = Vouching {
                opener: &self.opener,
                shards: &self.shards,
                remembered: &self.remembered,
            };
            vouching.attach(&entry).await
        } else {
            let policy = entry.config.write_policy;
            let attached = self.opener.open_and_attach(&entry, policy).await;
            let phase = attached.map_err(|unattached| unattached.problem);
            phase.map(|phase| (phase, None))
        };
        let (phase, without_back) = match attached {
            Ok(attached) => attached,
            Err(problem) => {
                self.registry.remove(&entry);
                return Err(problem);
            }
        };
        self.registry.update(&entry, |entry| {
            entry.phase = phase;
            entry.without_back = without_back;
        });
        self.disk_sockets.settle_disk(&entry.config.name);
        let opened = self.disk_sockets.is_open(&entry.config);
        if let Err(problem) = opened.and_then(|()| self.remembered.write_disks(&self.registry)) {
            // An attachment that its VM cannot reach, or that would not survive a restart, is none.
            self.let_go(&entry, OfDirty::Keep).await?;
            return Err(problem);
        }
        self.observer.disk(&entry.config.name).await
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
            owes: None,
            record: None,
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

    pub(super) fn attached(&self, name: &Name) -> Result<(Entry, DiskId), Problem> {
        self.refuse_when_stopping()?;
        let entry = self.registry.entry(name)?;
        match &entry.phase {
            Phase::Attached { .. } => {
                let id = entry.id;
                Ok((entry, id))
            }
            Phase::Waiting { why } => Err(not_ready(name, why)),
            Phase::Standby { .. } => Err(stands_by(name)),
            Phase::Attaching | Phase::Forgetting { .. } | Phase::Detaching { .. } => {
                Err(on_its_way(name))
            }
        }
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
}
