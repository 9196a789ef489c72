//! The owner's record of a disk: which cache had it last, in which period, and whether that cache
//! may still have bytes that the origin lacks.
//!
//! ```text
//!   /srv/images/web.raw             the origin, a file
//!   /srv/images/web.raw.hearth      its owner's record
//!   OWNERS_DIR/HASH.hearth          the record of an origin that is no file, where hosts share a folder
//!   OWNERS_DIR/HASH.hearth.lock     locked while a disk on that origin is attached
//!   STATE_DIR/owners/ID.hearth      the record of a disk whose origin is no file, where they do not
//!   disks/ID/owner                  the record of such a disk in the store of a cluster: see `cluster`
//!   STATE_DIR/owners/ID.owed        one that the store has yet to get
//!   STATE_DIR/owners/ID.next        the last one that said that the disk may come here
//! ```
//!
//! While nothing is at an origin's path, the record is taken to be where the shared folder has one, and
//! beside that path if the folder has none: a file that is missing for a moment is a file.
//! HASH is of the origin's address, so hosts that share a folder have to spell that alike. A file is
//! locked itself; what is no file cannot be, or only on one host, hence the lock beside the record.
//!
//! The record is a JSON object that a person can read; what the fields mean is in
//! [`cache::OwnerRecord`]:
//!
//! ```text
//!   { "version": 2, "disk": "47b8...", "epoch": 3, "state": "open",
//!     "cache": "0123...", "cache_name": "main", "host": "node-7",
//!     "origin": { "inode": 131, "born": 1700000000000000000 }, "check": "9f86d081884c7d65" }
//! ```
//!
//! Rules:
//! - The file is replaced whole (written beside, synced, renamed, folder synced): after a crash
//!   there is the old record or the new one. Where there is no room for another file it is
//!   overwritten in place, for which it has the size of a sector.
//! - `origin` says which file the origin was. If another one has taken its place a record that is open
//!   is an error, and one that is closed is nobody's: whoever put the file there may have written it.
//! - A record that is damaged, or of another disk that is open, is an error and never "none": that
//!   would be permission to write an origin that lacks bytes.
//! - `open` goes beside the origin (or into the shared folder, which stands for that) or nowhere, so
//!   that another host that reaches the origin sees it. `closed` may go to the state directory when
//!   nothing can be written beside the origin, which has no open record.
//! - The epoch of a record only rises, and only the cache that it names writes another one of the same epoch.
//! - If both places have a record the one with the later epoch counts, of equals the open one, and
//!   then the one beside the origin: that may be of another host which knew nothing of ours.
//! - Read and written under the origin's lock only, by threads that may wait. A lock in a shared folder
//!   can be lost (a lease of NFS that ran out, a file that was removed): nothing is written then, and
//!   whoever holds it has to ask from time to time ([`LockWatch`]).

mod beside;
mod cluster;
mod error;
mod handing;
mod lock;
mod text;

pub use cluster::{ClusterRecords, Replaced, Settled, StoredRecord, Unreached, Vouched};
pub use error::{OwnerError, SystemError};
pub use lock::LockWatch;

use beside::{Beside, beside};
use cache::OwnerRecord;
use cluster::InCluster;
use durable_file::Readers;
use events::EventKind;
use lock::OriginLock;
use origin::{Identity, OriginSpec};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
pub use text::host as host_name;
use text::{RECORD_BYTES_MAX, Said};
use units::DiskId;
use xxhash_rust::xxh3::xxh3_128;

/// What is added to the name of an origin's file.
const SUFFIX: &str = ".hearth";
/// What is added to the name of a record that stands for an origin which cannot be locked.
const LOCK_SUFFIX: &str = ".lock";
/// The folder in the state directory.
const FOLDER: &str = "owners";

/// A record with what people call its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What the cache is told.
    pub record: OwnerRecord,
    /// What the cache was called.
    pub cache_name: String,
    /// The host that it was on.
    pub host: String,
    /// Where the record is.
    pub path: PathBuf,
    /// Which file the origin was, if that is known.
    pub identity: Option<Identity>,
    /// Which host has the disk, if it roams.
    pub holder: Option<Holder>,
    /// Which host has it attached, if the record is in the store of a cluster.
    pub attachment: Option<Attachment>,
}

impl Owner {
    /// Refuses a record that may not replace this one.
    fn may_be_followed_by(self, record: OwnerRecord) -> Result<(), OwnerError> {
        let is_same = self.record.epoch == record.epoch && self.record.cache == record.cache;
        if record.epoch > self.record.epoch || is_same {
            return Ok(());
        }
        Err(OwnerError::Superseded {
            path: self.path,
            epoch: self.record.epoch,
            cache_name: self.cache_name,
            host: self.host,
        })
    }
}

/// Which host of a cluster has a disk attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// How often the record was replaced.
    pub serial: u64,
    /// The host's name in the cluster; none if the disk is detached.
    pub host: Option<String>,
    /// Which host it may go to, also while the store does not answer, if that is foreseen.
    pub may_go_to: Option<String>,
}

/// Which of the hosts that list a disk has it: the register of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The host's name on the link.
    pub host: String,
    /// Since which period; it only rises.
    pub epoch: u64,
}

/// What the bytes of a record in the store of a cluster say; none if they are no record.
pub fn read_record(bytes: &[u8]) -> Option<Owner> {
    text::decode(bytes, Path::new("")).map(|(_, owner)| owner)
}

/// Where records are that are not beside their origins.
#[derive(Clone, Debug)]
pub struct Folders {
    /// This host's own: the state directory.
    pub state: PathBuf,
    /// One that all hosts with the same origins share, if there is such.
    pub shared: Option<PathBuf>,
    /// The store of the cluster, if there is one: it stands for a shared folder.
    pub cluster: Option<Arc<dyn ClusterRecords>>,
}

impl Folders {
    /// None is shared.
    pub fn alone(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
            shared: None,
            cluster: None,
        }
    }
}

/// Where the record of a disk is kept, and who writes it.
#[derive(Clone, Debug)]
pub struct OwnerFile {
    disk: DiskId,
    /// Beside the origin, if that is a file, or in the folder that hosts share.
    beside: Option<PathBuf>,
    /// Where to lock the origin if that is no file; and the lock, as long as anybody has this.
    lock_path: Option<PathBuf>,
    lock: Option<Arc<OriginLock>>,
    /// In the store of the cluster, if the origin is no file and there is a store.
    cluster: Option<InCluster>,
    /// The same for a record that is owed, also while a device is missing that might be a file.
    debtor: Option<InCluster>,
    /// In the state directory.
    kept: PathBuf,
    cache_name: String,
    /// Which file the origin is, as it was opened.
    identity: Option<Identity>,
    /// Which host has the disk, if it roams: goes into every record.
    holder: Option<Holder>,
    /// The number of the last record that was written or tried.
    last: Arc<Mutex<u64>>,
}

impl OwnerFile {
    /// Where the record of this disk is, as the cache with this name writes it.
    pub fn new(disk: DiskId, origin: &OriginSpec, folders: &Folders, cache_name: &str) -> Self {
        let hash = xxh3_128(origin.to_string().as_bytes());
        let shared = folders.shared.as_ref();
        let shared = shared.map(|shared| shared.join(format!("{hash:032x}{SUFFIX}")));
        let is_shared = |path: &PathBuf| path.is_file();
        let beside = match beside(origin) {
            // A device that is missing has its record where it was.
            Beside::Missing(_) if shared.as_ref().is_some_and(is_shared) => None,
            Beside::File(path) | Beside::Missing(path) => Some(path),
            Beside::Nothing => None,
        };
        let kept = folders.state.join(FOLDER).join(format!("{disk}{SUFFIX}"));
        let cluster = folders.cluster.as_ref();
        let debtor = cluster.map(|store| InCluster::new(store, disk, &kept));
        let cluster = debtor.clone().filter(|_| beside.is_none());
        let shared = shared.filter(|_| beside.is_none() && cluster.is_none());
        Self {
            disk,
            cluster,
            debtor,
            lock_path: shared.as_deref().map(|path| added(path, LOCK_SUFFIX)),
            lock: None,
            beside: beside.or(shared),
            kept,
            cache_name: cache_name.to_owned(),
            identity: None,
            holder: None,
            last: Arc::default(),
        }
    }

    /// The same for an origin that was opened and is this file: records of another one do not count,
    /// and those that are written name it.
    #[must_use]
    pub fn of_file(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Where a record that is open is, or would be.
    pub fn path(&self) -> &Path {
        match (&self.cluster, &self.beside) {
            (Some(cluster), _) => cluster.path(),
            (None, Some(beside)) => beside,
            (None, None) => &self.kept,
        }
    }

    /// Whether other hosts that reach the origin see the record.
    pub fn is_seen_by_others(&self) -> bool {
        self.beside.is_some() || self.cluster.is_some()
    }

    /// Whether [`Self::lock`] keeps other hosts away, and not the origin itself while it is open.
    pub fn is_locked_apart(&self) -> bool {
        self.lock_path.is_some() || self.cluster.is_some()
    }

    /// Locks an origin that is no file: if hosts share a folder of records, until this and all its clones are gone;
    /// in the store of a cluster, until the disk is given away or [`Self::release`]d. Readers share it. May block.
    ///
    /// # Errors
    /// [`OwnerError::InUse`], or [`OwnerError::Io`] if nothing can be locked there; [`OwnerError::AttachedElsewhere`] or
    /// [`OwnerError::Unreached`] in a cluster.
    pub fn lock(&mut self, read_only: bool) -> Result<(), OwnerError> {
        if let Some(cluster) = &self.cluster {
            return if read_only { Ok(()) } else { cluster.attach() };
        }
        let Some(path) = &self.lock_path else {
            return Ok(());
        };
        self.lock = Some(Arc::new(OriginLock::take(path, read_only)?));
        Ok(())
    }

    /// By what it can be asked whether the lock is still held; `None` if there is none.
    pub fn watch(&self) -> Option<LockWatch> {
        self.lock.as_ref().map(LockWatch::on)
    }

    /// Says in the store of the cluster that the disk is not attached here any more. Nothing where there is no store,
    /// where another host has the disk, and while its cache may have bytes that the origin lacks. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`]; then no other host takes the disk before this one has said so.
    pub fn release(&self) -> Result<(), OwnerError> {
        self.cluster.as_ref().map_or(Ok(()), InCluster::release)
    }

    /// Asks the store of the cluster, if the record is there, whether it answers. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`].
    pub fn reach(&self) -> Result<(), OwnerError> {
        self.cluster.as_ref().map_or(Ok(()), InCluster::reach)
    }

    /// The record, or `None` if there is none. May block.
    ///
    /// # Errors
    /// [`OwnerError`]; then the disk must not be attached.
    pub fn load(&self) -> Result<Option<Owner>, OwnerError> {
        if let Some(cluster) = &self.cluster {
            return cluster.load();
        }
        let beside = match &self.beside {
            Some(path) => self.read(path)?,
            None => None,
        };
        let kept = self.read(&self.kept)?;
        let rank = |owner: &Owner| (owner.record.epoch, owner.record.open);
        let latest = kept.into_iter().chain(beside).max_by_key(rank);
        latest.map(|owner| self.of_this_file(owner)).transpose()
    }

    /// What a record says if the origin may not be the file that it was.
    fn of_this_file(&self, owner: Owner) -> Result<Owner, OwnerError> {
        let (then, now) = match (owner.identity, self.identity) {
            (Some(then), Some(now)) if then.differs_from(now) => (then, now),
            _ => return Ok(owner),
        };
        if owner.record.open {
            let path = owner.path;
            return Err(OwnerError::OtherFile { path, then, now });
        }
        tracing::warn!(event = EventKind::OriginChanged.word(),
            record = %owner.path.display(), %then, %now,
            "the origin is another file than it was: what is cached of the disk does not count");
        let record = OwnerRecord {
            cache: 0,
            ..owner.record
        };
        Ok(Owner { record, ..owner })
    }

    /// Replaces the record, durably. Of two that are under way at once the one with the higher
    /// `number` counts. May block.
    ///
    /// # Errors
    /// [`OwnerError::Superseded`] if the record there is a later one, or another cache's of the same epoch. Such a
    /// record is not ours to close, so a closed one is no error then, and not written.
    /// Any other [`OwnerError`]; then the old record stands, or the new one does.
    pub fn store(&self, record: OwnerRecord, number: u64) -> Result<(), OwnerError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if number < *last {
            return Err(OwnerError::Overtaken);
        }
        *last = number;
        let here = text::host();
        let said = Said {
            record,
            cache_name: &self.cache_name,
            host: &here,
            identity: self.identity,
            holder: self.holder.as_ref(),
            attachment: None,
        };
        if let Some(cluster) = &self.cluster {
            return cluster.store(said);
        }
        let mut is_ours = self.lock.as_ref().map_or(Ok(()), |lock| lock.check());
        if is_ours.is_ok() {
            match self.check_follows(record) {
                Err(error @ (OwnerError::Superseded { .. } | OwnerError::OtherDisk { .. })) => {
                    is_ours = Err(error);
                }
                checked => checked?,
            }
        }
        if let Err(error) = is_ours {
            if record.open {
                return Err(error);
            }
            // An open record stays so, which only keeps others away; another one's is not ours to close.
            tracing::warn!(%error, "the owner's record is not closed");
            return Ok(());
        }
        let text = text::encode(self.disk, said);
        let Some(path) = &self.beside else {
            return self.replace(&self.kept, &text);
        };
        match self.replace(path, &text) {
            // The folder was not shared when that was written: an open one of this epoch would count.
            Ok(()) if self.lock_path.is_some() => match std::fs::remove_file(&self.kept) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OwnerError::Io {
                    doing: "remove",
                    path: self.kept.clone(),
                    system: (&error).into(),
                }),
                _ => Ok(()),
            },
            Err(OwnerError::Io { system, .. })
                if !record.open && self.holder.is_none() && !self.is_open(path) =>
            {
                tracing::warn!(event = EventKind::RecordFailed.word(),
                    path = %path.display(), instead = %self.kept.display(), reason = %system,
                    "the owner's record cannot be written beside the origin: writes cannot go back later");
                self.replace(&self.kept, &text)
            }
            other => other,
        }
    }

    /// A damaged record is nobody's claim: whoever attaches the disk, or gives it up, has judged that.
    fn check_follows(&self, record: OwnerRecord) -> Result<(), OwnerError> {
        let there = match self.read(self.path()) {
            Err(OwnerError::Damaged { .. }) | Ok(None) => return Ok(()),
            Ok(Some(there)) => there,
            Err(error) => return Err(error),
        };
        there.may_be_followed_by(record)
    }

    fn is_open(&self, path: &Path) -> bool {
        // What cannot be read may be open.
        !matches!(self.read(path), Ok(None))
            && !matches!(self.read(path), Ok(Some(owner)) if !owner.record.open)
    }

    fn read(&self, path: &Path) -> Result<Option<Owner>, OwnerError> {
        let io = |error: io::Error| OwnerError::Io {
            doing: "read",
            path: path.to_owned(),
            system: (&error).into(),
        };
        let damaged = || OwnerError::Damaged {
            path: path.to_owned(),
        };
        let length = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        if length > RECORD_BYTES_MAX {
            return Err(damaged());
        }
        let bytes = std::fs::read(path).map_err(io)?;
        let (disk, owner) = text::decode(&bytes, path).ok_or_else(damaged)?;
        if disk != self.disk && owner.record.open {
            return Err(OwnerError::OtherDisk {
                path: path.to_owned(),
                disk,
                cache_name: owner.cache_name,
                host: owner.host,
            });
        }
        Ok(Some(owner))
    }

    fn replace(&self, path: &Path, text: &[u8]) -> Result<(), OwnerError> {
        let write = || {
            if path == self.kept {
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            }
            match durable_file::replace(path, Readers::Anybody, text) {
                Err(error) if is_full(&error) => match text.try_into() {
                    Ok(sector) => durable_file::overwrite(path, sector).map_err(|_| error),
                    Err(_) => Err(error),
                },
                replaced => replaced,
            }
        };
        write().map_err(|error: io::Error| OwnerError::Io {
            doing: "write",
            path: path.to_owned(),
            system: (&error).into(),
        })
    }
}

/// Whether there is no room for another file, which one that is overwritten does not need.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn added(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
