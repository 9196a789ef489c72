//! From a disk's configuration to a disk that its shard serves: reaching the origin and reading the
//! owner's record may take long, so both happen on a thread that may wait.

use super::dirty_room::room_for_dirty;
use super::keys;
use super::lock_watch::Watch;
use super::looking::{self, Places};
use super::problems::{owed, problem, refused};
use super::recording::Recordings;
use super::registry::{Entry, Phase, Registry};
use super::remembered::Remembered;
use super::settings;
use super::shards::{Pulse, Shards};
use super::traces::step;
use api::problem::ProblemKind;
use api::types::Problem;
use at_rest::DataKey;
use cache::{OwnerRecord, Tenure};
use configuration::{DiskConfig, Name, WritePolicy};
use events::EventKind;
use origin::{ImageFormat, Keeping, Opened, OriginSpec};
use shard::{DiskSpec, Holder, Owner, OwnerError, OwnerFile, ShardError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strategies::Place;
use tokio::sync::MutexGuard;
use tokio::sync::mpsc::UnboundedSender;
use units::Bytes;
use units::errors::chain;

/// Why a disk was not attached.
pub(super) struct Unattached {
    pub(super) problem: Problem,
    /// Its owner's record could not be written.
    pub(super) is_unrecorded: bool,
}

impl From<Problem> for Unattached {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            is_unrecorded: false,
        }
    }
}

fn failed(detail: String) -> Problem {
    Problem::new(ProblemKind::Origin, detail)
}

/// Opens an origin that another host has open.
async fn open_beside(spec: OriginSpec) -> Result<Opened, Problem> {
    let opening = tokio::task::spawn_blocking(move || origin::open_beside(&spec));
    let opened = opening.await.map_err(|error| failed(chain(&error)))?;
    opened.map_err(|error| failed(chain(&error)))
}

/// Refuses an origin that is not a raw disk, or that roams to a host which does not know of it.
fn refuse_others_origin(
    entry: &Entry,
    opened: &Opened,
    found: Option<&Owner>,
) -> Result<(), Problem> {
    let holder = found.and_then(|found| found.holder.as_ref());
    if let (Some(holder), false) = (holder, entry.config.moves()) {
        let host = &holder.host;
        let detail = format!("the origin's record says that the disk roams, and '{host}' has it");
        return Err(Problem::new(ProblemKind::Refused, detail)
            .with_remedy("roams = true in the disk's section"));
    }
    match settings::other_format(&entry.config, opened, found.is_some()) {
        Some((file, format)) => Err(not_raw(&entry.config.name, file, format)),
        None => Ok(()),
    }
}

/// The record of a disk that no cache has had.
const NOBODY: OwnerRecord = OwnerRecord {
    epoch: 0,
    cache: 0,
    open: false,
};

/// A disk that roams is taken.
#[derive(Clone)]
struct Taking {
    holder: Holder,
    /// What its clients were told.
    size: Bytes,
    tenure: Tenure,
    /// The record names another host, or a later period.
    is_others: Arc<AtomicBool>,
}

impl Taking {
    /// Writes who has it now, unless another one does.
    fn enter(&self, owner: &mut OwnerFile) -> Result<(), OwnerError> {
        let may_follow = |before: Option<&Holder>| {
            before.is_none_or(|before| {
                before.host == self.holder.host && before.epoch <= self.holder.epoch
            })
        };
        if owner.hand_to(self.holder.clone(), may_follow)? {
            return Ok(());
        }
        self.is_others.store(true, Ordering::Relaxed);
        Err(OwnerError::Overtaken)
    }
}

/// Opens disks' origins, and gives disks to their shards.
pub(super) struct Opener {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    remembered: Arc<Remembered>,
    recordings: Arc<Recordings>,
    new_locks: UnboundedSender<(Entry, Watch)>,
    /// Held while the cluster's store is told of a disk that was attached without it.
    settling: tokio::sync::Mutex<()>,
}

impl Opener {
    /// The locks of the disks that are attached are sent to who watches them.
    pub(super) fn new(
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        remembered: Arc<Remembered>,
        recordings: Arc<Recordings>,
        new_locks: UnboundedSender<(Entry, Watch)>,
    ) -> Self {
        Self {
            registry,
            shards,
            remembered,
            recordings,
            new_locks,
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// Waits until the cluster's store is told of no other disk that was attached without it.
    pub(super) async fn settling_alone(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().await
    }

    /// Opens a disk's origin, looks who had it last, and gives it to its shard, which does this with
    /// writes.
    pub(super) async fn open_and_attach(
        &self,
        entry: &Entry,
        policy: WritePolicy,
    ) -> Result<Phase, Unattached> {
        self.open_as(entry, policy, None).await
    }

    /// Lets the cache of a disk that roams, of this size, go ahead of it while another host has it.
    ///
    /// Its reads go to that host, or to the origin beside it. The cache, if there is room in it for what the origin
    /// lacks.
    pub(super) async fn stand_by(
        &self,
        entry: &Entry,
        size: Bytes,
        reads: Place,
    ) -> Result<Option<u128>, Problem> {
        let key = self.key_of(entry).await?;
        let folders = self.remembered.dir().folders();
        let origin = settings::origin(&entry.config.origin);
        let beside = match reads {
            Place::Lender => None,
            Place::Origin => Some(open_beside(origin).await?),
        };
        // Nothing is written there while the disk is another host's.
        let owner = looking::owner_file(entry, folders).await?;
        let loaded = owner.clone();
        let loading = tokio::task::spawn_blocking(move || loaded.load());
        let found = loading.await.map_err(|error| failed(chain(&error)))?;
        let found = found.map_err(|error| problem(&entry.config.name, &error.into()))?;
        let room = self.room_for_dirty(entry, &entry.config).ok();
        let spec = DiskSpec {
            policy: WritePolicy::Through.into(),
            size: Some(size),
            // What is cached from when the disk was here last does not count, unless this cache should have what the
            // origin lacks.
            owned_by: Some(found.map_or(NOBODY, |owner| owner.record)),
            tenure: Tenure::Standby,
            ..settings::disk(&entry.config, owner, None, key, room.unwrap_or(Bytes::ZERO))
        };
        let shard = self.shards.of(entry)?;
        let standing = shard.ask(|handle, reply| handle.stand(spec, beside, reply));
        standing
            .await
            .map_err(|error| refused(&entry.config.name, &error, None))?;
        let Pulse::Status(status) = shard.pulse().await else {
            return Ok(None);
        };
        Ok(room.map(|_| status.cache.uuid))
    }

    /// The data key of a disk; none if it is not encrypted. Waits for whatever gives the key.
    pub(super) async fn key_of(&self, entry: &Entry) -> Result<Option<Arc<DataKey>>, Problem> {
        keys::may_fetch(&entry.config, entry.source)?;
        let (id, keys_dir) = (entry.id, self.remembered.dir().folders().state.clone());
        let encryption = entry.config.encryption.clone();
        let fetching =
            tokio::task::spawn_blocking(move || keys::data_key(&encryption, id, &keys_dir));
        fetching.await.map_err(|error| failed(chain(&error)))?
    }

    /// Takes a disk that roams for this host. `None`: the record names another one.
    pub(super) async fn take_roaming(
        &self,
        entry: &Entry,
        policy: WritePolicy,
        holder: Holder,
        tenure: Tenure,
        size: Bytes,
    ) -> Result<Option<Phase>, Problem> {
        let taking = Taking {
            holder,
            size,
            tenure,
            is_others: Arc::default(),
        };
        match self.open_as(entry, policy, Some(taking.clone())).await {
            Ok(phase) => Ok(Some(phase)),
            Err(_) if taking.is_others.load(Ordering::Relaxed) => Ok(None),
            Err(unattached) => Err(unattached.problem),
        }
    }

    async fn open_as(
        &self,
        entry: &Entry,
        policy: WritePolicy,
        taking: Option<Taking>,
    ) -> Result<Phase, Unattached> {
        keys::may_fetch(&entry.config, entry.source)?;
        let folders = self.remembered.dir().folders();
        let Places { origin, record } = looking::places(entry, folders).await?;
        self.registry
            .update(entry, |entry| entry.record = Some(record));
        self.registry.claim_origin(entry, origin)?;
        let attached = self.open_claimed(entry, policy, taking).await;
        if attached.is_err() {
            self.registry.give_origin_back(entry);
            if !entry.config.moves() {
                self.release(entry).await;
            }
        }
        attached
    }

    async fn open_claimed(
        &self,
        entry: &Entry,
        policy: WritePolicy,
        taking: Option<Taking>,
    ) -> Result<Phase, Unattached> {
        let dirty_max = self.room_for_dirty(entry, &entry.config)?;
        let key = step("key fetch", self.key_of(entry)).await?;
        let tenure = taking
            .as_ref()
            .map_or(Tenure::Owner, |taking| taking.tenure);
        let size = taking.as_ref().map(|taking| taking.size);
        let opening = step("origin open", self.open_origin(entry, taking));
        let (opened, found, owner, owes) = opening.await?;
        let name = &entry.config.name;
        refuse_others_origin(entry, &opened, found.as_ref())?;
        if !self.registry.begin(entry) {
            // Forgotten, or given other settings, while its origin was being opened.
            let detail = "its settings were changed while its origin was being opened";
            return Err(Problem::new(ProblemKind::Busy, detail).into());
        }
        let beside = owner.watch().map(Watch::Beside);
        let lock = beside.or_else(|| opened.lock_watch().map(Watch::OnFile));
        let spec = DiskSpec {
            policy: policy.into(),
            size: size.or(entry.config.size.map(|size| size.0)),
            tenure,
            ..settings::disk(&entry.config, owner, found.as_ref(), key, dirty_max)
        };
        let shard = self.shards.of(entry)?;
        let attaching = shard.ask(|handle, reply| handle.attach(spec, opened, reply));
        let attached = step("cache attach", attaching)
            .await
            .map_err(|error| Unattached {
                problem: refused(name, &error, found.as_ref()),
                is_unrecorded: matches!(
                    error,
                    ShardError::Owner(
                        OwnerError::Io { .. }
                            | OwnerError::Late { .. }
                            | OwnerError::Unreached { .. }
                    )
                ),
            })?;
        self.registry.owe(entry, owes.then(|| owed(name)));
        if let Some(lock) = lock {
            self.watch_lock(entry, lock);
        }
        self.tap(entry).await;
        Ok(Phase::Attached {
            geometry: attached.geometry,
        })
    }

    /// Opens a disk's origin, locked for this host, and reads the owner's record; says whether the cluster's store has yet to
    /// get that.
    async fn open_origin(
        &self,
        entry: &Entry,
        taking: Option<Taking>,
    ) -> Result<(Opened, Option<Owner>, OwnerFile, bool), Problem> {
        let spec = settings::origin(&entry.config.origin);
        let read_only = entry.config.is_only_read();
        let (id, cache) = (entry.id, entry.cache.to_string());
        let folders = self.remembered.dir().folders();
        let keeping = self.remembered.dir().keeping();
        let opening = tokio::task::spawn_blocking(move || {
            let opened = match &keeping {
                Some(keeping) => origin::open_keeping(&spec, read_only, keeping),
                None => origin::open(&spec, read_only),
            };
            opened.map(|opened| {
                let owner = OwnerFile::new(id, &spec, &folders, &cache);
                let mut owner = owner.of_file(opened.identity());
                // Only when it is ours.
                let found = owner.lock(read_only);
                let found = found.and_then(|()| match &taking {
                    Some(taking) => taking.enter(&mut owner),
                    None => Ok(()),
                });
                let found = found.and_then(|()| {
                    let found = owner.load()?;
                    Ok((found, owner.owes()?))
                });
                (opened, found, owner)
            })
        });
        let opened = opening.await.map_err(|error| failed(chain(&error)))?;
        let (opened, found, owner) = opened.map_err(|error| failed(chain(&error)))?;
        let opened = settings::fits(&entry.config, opened).map_err(failed)?;
        let found = found.map_err(|error| problem(&entry.config.name, &error.into()));
        let (found, owes) = found?;
        Ok((opened, found, owner, owes))
    }

    /// Remembers which writes a disk's server may still carry out, once the disk has left its shard.
    /// `is_leaving`: the next daemon gets the connections.
    pub(super) async fn settle_origin(&self, entry: &Entry, is_leaving: bool) {
        let keeping = self.remembered.dir().keeping();
        let Some(keeping) = keeping else {
            return;
        };
        let spec = settings::origin(&entry.config.origin);
        if entry.config.is_only_read() {
            return;
        }
        let settling =
            tokio::task::spawn_blocking(move || origin::settle(&spec, &keeping, is_leaving));
        let outcome = match settling.await {
            Ok(outcome) => outcome,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = outcome {
            tracing::error!(event = EventKind::RecordFailed.word(),
                disk = %entry.config.name, %error,
                "writes that may still land are not recorded over a restart of the host");
        }
    }

    /// Asks a disk's owner's record, on a thread that may wait.
    pub(super) async fn ask_record<T: Send + 'static>(
        &self,
        entry: &Entry,
        ask: impl FnOnce(&OwnerFile) -> Result<T, OwnerError> + Send + 'static,
    ) -> Result<T, Problem> {
        let folders = self.remembered.dir().folders();
        let owner = looking::owner_file(entry, folders).await?;
        let asking = tokio::task::spawn_blocking(move || ask(&owner));
        let asked = asking.await.map_err(|error| failed(chain(&error)))?;
        asked.map_err(|error| problem(&entry.config.name, &error.into()))
    }

    /// Says in the cluster's store that a disk is not attached here any more.
    pub(super) async fn release(&self, entry: &Entry) {
        let has_store = self.remembered.dir().folders().cluster.is_some();
        if entry.config.is_only_read() || !has_store {
            return;
        }
        let released = self.ask_record(entry, OwnerFile::release).await;
        let Err(problem) = released else {
            return;
        };
        let problem = problem.in_a_line();
        tracing::error!(event = EventKind::RecordFailed.word(),
            disk = %entry.config.name, reason = problem,
            "the cluster's store still says that the disk is attached here: attach and detach it once more when the store answers");
    }

    /// The same for all disks, when the daemon ends.
    pub(super) async fn settle_origins(&self) {
        for entry in self.registry.all() {
            self.settle_origin(&entry, true).await;
        }
    }

    /// What the names of the connections begin with that are kept for disks' origins.
    pub(super) fn origins_wanted(&self) -> Vec<String> {
        let entries = self.registry.all().into_iter();
        let prefixes = entries.filter_map(|entry| {
            let OriginSpec::Nbd(spec) = settings::origin(&entry.config.origin) else {
                return None;
            };
            Some(Keeping::prefix(&spec))
        });
        prefixes.collect()
    }

    /// How long the dirty log of a disk may be, beside those of the disks of its cache that have their
    /// place before it.
    ///
    /// # Errors
    /// If the disk is under write-back and its cache has no room for it.
    pub(super) fn room_for_dirty(
        &self,
        entry: &Entry,
        wanted: &DiskConfig,
    ) -> Result<Bytes, Problem> {
        room_for_dirty((&self.registry, &self.shards), entry, wanted)
    }

    /// Has the lock of a disk that was attached watched.
    fn watch_lock(&self, entry: &Entry, lock: Watch) {
        // Nobody watches any more when the daemon ends.
        let _ = self.new_locks.send((entry.clone(), lock));
    }

    /// Taps a disk if it is to be recorded. Before its first client, so that nothing is missed.
    pub(super) async fn tap(&self, entry: &Entry) {
        if let Some(shard) = self.shards.get(&entry.cache) {
            self.recordings.tap(entry, shard).await;
        }
    }
}

/// The origin is an image, and Hearth serves bytes as they lie.
fn not_raw(name: &Name, file: &Path, format: ImageFormat) -> Problem {
    let file = file.display();
    let detail = format!(
        "the origin {file} of '{name}' begins like an image of the format {format}, and Hearth serves a file's bytes as they lie"
    );
    Problem::new(ProblemKind::Refused, detail).with_remedy(format!(
        "qemu-nbd --persistent --format={format} --export-name={name} --socket=/run/{name}.sock {file}, and the origin nbd+unix:///{name}?socket=/run/{name}.sock; if the disk's own bytes begin so: format = \"raw\" in disk.origin, or --raw"
    ))
}
