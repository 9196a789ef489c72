//! The owner's record of a disk: which cache had it last, in which period, and whether that cache
//! may still have bytes that the origin lacks.
//!
//! ```text
//!   /srv/images/web.raw             the origin, a file
//!   /srv/images/web.raw.hearth      its owner's record
//!   OWNERS_DIR/HASH.hearth          the record of an origin that is no file, where hosts share a folder
//!   OWNERS_DIR/HASH.hearth.lock     locked while a disk on that origin is attached
//!   STATE_DIR/owners/ID.hearth      the record of a disk whose origin is no file, where they do not
//! ```
//!
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

mod error;
mod lock;
mod text;

pub use error::{OwnerError, SystemError};
pub use lock::LockWatch;

use cache::OwnerRecord;
use durable_file::Readers;
use lock::OriginLock;
use origin::{Identity, OriginSpec};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use text::RECORD_BYTES_MAX;
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
}

/// Which of the hosts that list a disk has it: the register of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The host's name on the link.
    pub host: String,
    /// Since which period; it only rises.
    pub epoch: u64,
}

/// Where records are that are not beside their origins.
#[derive(Clone, Debug)]
pub struct Folders {
    /// This host's own: the state directory.
    pub state: PathBuf,
    /// One that all hosts with the same origins share, if there is such.
    pub shared: Option<PathBuf>,
}

impl Folders {
    /// None is shared.
    pub fn alone(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
            shared: None,
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

/// What becomes of what a record says of a cache when the disk goes to another host.
#[derive(Clone, Copy)]
enum Becomes {
    /// It stays.
    AsItWas,
    /// The next host's cache has what the origin lacks.
    OfNext(OwnerRecord),
    /// No cache has any bytes of the disk that count.
    Lost,
}

impl OwnerFile {
    /// Where the record of this disk is, as the cache with this name writes it.
    pub fn new(disk: DiskId, origin: &OriginSpec, folders: &Folders, cache_name: &str) -> Self {
        let beside = beside(origin);
        let hash = xxh3_128(origin.to_string().as_bytes());
        let shared = folders.shared.as_ref().filter(|_| beside.is_none());
        let shared = shared.map(|shared| shared.join(format!("{hash:032x}{SUFFIX}")));
        Self {
            disk,
            lock_path: shared.as_deref().map(|path| added(path, LOCK_SUFFIX)),
            lock: None,
            beside: beside.or(shared),
            kept: folders.state.join(FOLDER).join(format!("{disk}{SUFFIX}")),
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
        self.beside.as_deref().unwrap_or(&self.kept)
    }

    /// Whether other hosts that reach the origin see the record.
    pub fn is_seen_by_others(&self) -> bool {
        self.beside.is_some()
    }

    /// Locks an origin that is no file, if hosts share a folder of records, until this and all its
    /// clones are gone. Readers share it. May block.
    ///
    /// # Errors
    /// [`OwnerError::InUse`], or [`OwnerError::Io`] if nothing can be locked there.
    pub fn lock(&mut self, read_only: bool) -> Result<(), OwnerError> {
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

    /// The record, or `None` if there is none. May block.
    ///
    /// # Errors
    /// [`OwnerError`]; then the disk must not be attached.
    pub fn load(&self) -> Result<Option<Owner>, OwnerError> {
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
        tracing::warn!(record = %owner.path.display(), %then, %now,
            "the origin is another file than it was: what is cached of the disk does not count");
        let record = OwnerRecord {
            cache: 0,
            ..owner.record
        };
        Ok(Owner { record, ..owner })
    }

    /// Makes `next` the holder of a disk that roams, durably, if `may_follow` agrees to who that was until now;
    /// records that are written from now on name it, too. Returns whether it is the holder. May block.
    ///
    /// # Errors
    /// [`OwnerError`]; then the new holder may stand in the record all the same.
    pub fn hand_to(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::AsItWas)
    }

    /// The same, with the record of the cache at `next` that has what the origin lacks.
    ///
    /// # Errors
    /// As [`OwnerFile::hand_to`].
    pub fn hand_with(
        &mut self,
        next: Holder,
        kept: OwnerRecord,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::OfNext(kept))
    }

    /// The same, and no cache may have bytes any more that the origin lacks: those of the one that did are lost, and what
    /// else it has of the disk does not count. May block.
    ///
    /// # Errors
    /// As [`OwnerFile::hand_to`].
    pub fn hand_to_without_dirty(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::Lost)
    }

    fn hand(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
        becomes: Becomes,
    ) -> Result<bool, OwnerError> {
        let found = self.load()?;
        let before = found.as_ref().and_then(|owner| owner.holder.as_ref());
        if before != Some(&next) {
            if !may_follow(before) {
                return Ok(false);
            }
            let record = found.as_ref().map(|owner| owner.record);
            let record = record.unwrap_or(OwnerRecord {
                epoch: 0,
                cache: 0,
                open: false,
            });
            let cache_name = found.as_ref().map_or("", |owner| &owner.cache_name);
            let text = match becomes {
                Becomes::AsItWas => {
                    text::encode(self.disk, record, cache_name, self.identity, Some(&next))
                }
                Becomes::Lost => {
                    let record = OwnerRecord {
                        epoch: record.epoch + 1,
                        cache: 0,
                        open: false,
                    };
                    text::encode(self.disk, record, cache_name, self.identity, Some(&next))
                }
                // What the peer calls its cache it says when it has it.
                Becomes::OfNext(kept) => text::encode_of(
                    self.disk,
                    kept,
                    (&next.host, &next.host),
                    self.identity,
                    Some(&next),
                ),
            };
            // Beside the origin or nowhere: the other host has to see it.
            self.replace(self.path(), &text)?;
        }
        self.holder = Some(next);
        Ok(true)
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
        let text = text::encode(
            self.disk,
            record,
            &self.cache_name,
            self.identity,
            self.holder.as_ref(),
        );
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
                tracing::warn!(path = %path.display(), instead = %self.kept.display(), reason = %system,
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
        let is_same = there.record.epoch == record.epoch && there.record.cache == record.cache;
        if record.epoch > there.record.epoch || is_same {
            return Ok(());
        }
        Err(OwnerError::Superseded {
            path: there.path,
            epoch: there.record.epoch,
            cache_name: there.cache_name,
            host: there.host,
        })
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

/// Beside an origin that is a file; other origins have no folder that goes where they go.
fn beside(origin: &OriginSpec) -> Option<PathBuf> {
    let OriginSpec::File(file) = origin else {
        return None;
    };
    // A link is not the file: two of them must not lead to two records.
    let path = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    if !std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    Some(added(&path, SUFFIX))
}

fn added(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use origin::FileSpec;

    const OPEN: OwnerRecord = OwnerRecord {
        epoch: 3,
        cache: 7,
        open: true,
    };
    const CLOSED: OwnerRecord = OwnerRecord {
        open: false,
        ..OPEN
    };

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("images")).unwrap();
            std::fs::write(folder.path().join("images/web"), "bytes").unwrap();
            Self { folder }
        }

        fn file(&self, disk: u128) -> OwnerFile {
            let origin = OriginSpec::File(FileSpec {
                path: self.folder.path().join("images/web"),
                direct: false,
            });
            OwnerFile::new(DiskId::from_u128(disk), &origin, &self.alone(), "main")
        }

        fn alone(&self) -> Folders {
            Folders::alone(self.folder.path())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
    }

    fn record(file: &OwnerFile) -> Option<OwnerRecord> {
        file.load().unwrap().map(|owner| owner.record)
    }

    #[test]
    fn a_disk_that_roams_goes_to_who_may_follow_and_its_records_keep_saying_so() {
        let place = Place::new();
        let to = |host: &str, epoch| Holder {
            host: host.to_owned(),
            epoch,
        };
        let holder = || place.file(1).load().unwrap().unwrap().holder;
        let mut here = place.file(1);
        assert!(here.hand_to(to("a", 1), |before| before.is_none()).unwrap());
        here.store(OPEN, 0).unwrap();
        here.store(CLOSED, 1).unwrap();
        assert_eq!(holder(), Some(to("a", 1)));
        let mut there = place.file(1);
        assert!(
            !there
                .hand_to(to("b", 2), |before| before.is_none())
                .unwrap()
        );
        assert_eq!(holder(), Some(to("a", 1)));
        assert!(
            there
                .hand_to(to("b", 2), |before| before == Some(&to("a", 1)))
                .unwrap()
        );
        assert_eq!(holder(), Some(to("b", 2)));
        assert_eq!(
            record(&there),
            Some(CLOSED),
            "the cache's own record stands"
        );
        // Again, after a write of which it was not known whether it stands.
        assert!(there.hand_to(to("b", 2), |_| false).unwrap());
    }

    #[test]
    fn a_record_is_beside_its_origin_and_read_as_it_was_written() {
        let place = Place::new();
        let file = place.file(1);
        assert_eq!(record(&file), None);
        file.store(OPEN, 0).unwrap();
        let owner = file.load().unwrap().unwrap();
        assert_eq!(owner.record, OPEN);
        assert_eq!(owner.cache_name, "main");
        assert_eq!(owner.path, place.path("images/web.hearth"));
        file.store(CLOSED, 1).unwrap();
        assert_eq!(record(&file), Some(CLOSED));
        assert!(!place.path("images/web.hearth.new").exists());
    }

    #[test]
    fn an_origin_that_is_no_file_has_its_record_in_the_state_directory() {
        let place = Place::new();
        let device = OriginSpec::File(FileSpec {
            path: "/dev/null".into(),
            direct: false,
        });
        let file = OwnerFile::new(DiskId::from_u128(5), &device, &place.alone(), "main");
        file.store(OPEN, 0).unwrap();
        assert!(
            place
                .path(&format!("owners/{}.hearth", DiskId::from_u128(5)))
                .exists()
        );
        assert_eq!(record(&file), Some(OPEN));
        assert!(!file.is_seen_by_others() && place.file(1).is_seen_by_others());
        let shared = Folders {
            shared: Some(place.path("shared")),
            ..place.alone()
        };
        let file = OwnerFile::new(DiskId::from_u128(5), &device, &shared, "main");
        assert!(file.is_seen_by_others());
    }

    #[test]
    fn a_damaged_record_is_an_error_and_never_none() {
        let place = Place::new();
        let file = place.file(1);
        file.store(OPEN, 0).unwrap();
        let path = place.path("images/web.hearth");
        let whole = std::fs::read_to_string(&path).unwrap();
        let closed = whole.replace("open", "closed");
        let later = whole.replace("\"epoch\": 3", "\"epoch\": 4");
        for damaged in [
            "",
            "{}",
            &whole[..whole.trim_end().len() / 2],
            &closed,
            &later,
        ] {
            std::fs::write(&path, damaged).unwrap();
            let error = file.load().unwrap_err();
            assert!(matches!(error, OwnerError::Damaged { .. }), "{damaged}");
        }
        std::fs::write(&path, vec![b' '; 5000]).unwrap();
        assert!(matches!(file.load(), Err(OwnerError::Damaged { .. })));
    }

    #[test]
    fn an_error_of_the_system_has_the_path_and_the_number() {
        let place = Place::new();
        let path = place.path("images/web.hearth");
        std::fs::create_dir(&path).unwrap();
        let error = place.file(1).load().unwrap_err();
        let told = format!("{}: Is a directory (os error 21)", path.display());
        assert!(error.to_string().ends_with(&told), "{error}");
    }

    #[test]
    fn an_origin_that_another_disk_has_open_is_refused_and_one_that_it_closed_is_not() {
        let place = Place::new();
        place.file(1).store(OPEN, 0).unwrap();
        let other = place.file(2);
        let error = other.load().unwrap_err();
        assert!(matches!(error, OwnerError::OtherDisk { .. }), "{error}");
        place.file(1).store(CLOSED, 0).unwrap();
        assert_eq!(record(&other), Some(CLOSED));
    }

    #[test]
    fn an_earlier_record_that_comes_late_does_not_replace_a_later_one() {
        let place = Place::new();
        let file = place.file(1);
        file.store(CLOSED, 2).unwrap();
        assert!(matches!(
            file.clone().store(OPEN, 1),
            Err(OwnerError::Overtaken)
        ));
        assert_eq!(record(&file), Some(CLOSED));
    }

    #[test]
    fn of_two_records_the_later_counts_and_of_equals_the_open_one() {
        let place = Place::new();
        let file = place.file(1);
        let kept = OwnerFile {
            beside: None,
            ..file.clone()
        };
        file.store(OPEN, 0).unwrap();
        kept.store(CLOSED, 1).unwrap();
        assert_eq!(record(&file), Some(OPEN));
        let later = OwnerRecord { epoch: 4, ..CLOSED };
        kept.store(later, 2).unwrap();
        assert_eq!(record(&file), Some(later));
        // Another host, which could write beside the origin, knew nothing of what we keep.
        let there = OwnerRecord { cache: 8, ..later };
        file.store(there, 3).unwrap();
        assert_eq!(record(&file), Some(there));
    }

    #[test]
    fn a_closed_record_goes_to_the_state_directory_when_the_origins_folder_takes_nothing() {
        let place = Place::new();
        let file = place.file(1);
        // Whoever runs this, a folder in the way is no file to be replaced.
        std::fs::create_dir(place.path("images/web.hearth.new")).unwrap();
        assert!(file.store(OPEN, 0).is_err());
        file.store(CLOSED, 1).unwrap();
        assert!(!place.path("images/web.hearth").exists());
        assert_eq!(record(&file), Some(CLOSED));
    }

    #[test]
    fn a_closed_record_of_another_file_is_nobodys_and_an_open_one_an_error() {
        let place = Place::new();
        let identity = |inode| Some(Identity { inode, born: None });
        let before = place.file(1).of_file(identity(7));
        let now = place.file(1).of_file(identity(8));
        before.store(CLOSED, 0).unwrap();
        assert_eq!(record(&before), Some(CLOSED));
        let nobodys = OwnerRecord { cache: 0, ..CLOSED };
        assert_eq!(record(&now), Some(nobodys));
        assert_eq!(record(&place.file(1)), Some(CLOSED), "nothing to compare");
        before.store(OPEN, 1).unwrap();
        let error = now.load().unwrap_err();
        assert!(matches!(error, OwnerError::OtherFile { .. }), "{error}");
        now.store(OPEN, 0).unwrap();
        assert_eq!(record(&now), Some(OPEN));
    }

    #[test]
    fn a_lock_that_is_lost_is_noticed_and_nothing_is_written_then() {
        let place = Place::new();
        let [mut one, mut two] = [1, 2].map(|host| export(&place, host));
        one.lock(false).unwrap();
        one.store(OPEN, 0).unwrap();
        let watch = one.watch().unwrap();
        assert_eq!(watch.check(), Some(Ok(())));
        // As whoever tidies up the folder does.
        std::fs::remove_file(one.lock_path.as_ref().unwrap()).unwrap();
        two.lock(false).unwrap();
        let lost = |result| matches!(result, Err(OwnerError::LockLost { .. }));
        assert!(lost(watch.check().unwrap()));
        assert!(lost(one.store(OwnerRecord { epoch: 9, ..OPEN }, 1)));
        one.store(CLOSED, 2).unwrap();
        assert_eq!(record(&one), Some(OPEN), "it is not ours to close");
        drop(one);
        assert_eq!(watch.check(), None);
    }

    #[test]
    fn a_record_only_rises() {
        let place = Place::new();
        let [here, there] = [1, 1].map(|disk| place.file(disk));
        let later = OwnerRecord {
            epoch: 4,
            cache: 8,
            ..OPEN
        };
        here.store(OPEN, 0).unwrap();
        there.store(later, 0).unwrap();
        let of_the_same_epoch = OwnerRecord { epoch: 4, ..OPEN };
        for (number, earlier) in (1..).zip([OPEN, of_the_same_epoch]) {
            let error = here.store(earlier, number).unwrap_err();
            assert!(matches!(error, OwnerError::Superseded { epoch: 4, .. }));
            assert_eq!(record(&here), Some(later));
        }
        here.store(CLOSED, 3).unwrap();
        assert_eq!(record(&here), Some(later), "it is not ours to close");
        let closed = OwnerRecord {
            open: false,
            ..later
        };
        there.store(closed, 1).unwrap();
        assert_eq!(record(&here), Some(closed));
    }

    #[test]
    fn a_link_leads_to_the_record_of_the_file() {
        let place = Place::new();
        place.file(1).store(OPEN, 0).unwrap();
        let link = place.path("link");
        std::os::unix::fs::symlink(place.path("images/web"), &link).unwrap();
        let origin = OriginSpec::File(FileSpec {
            path: link,
            direct: false,
        });
        let file = OwnerFile::new(DiskId::from_u128(1), &origin, &place.alone(), "main");
        assert_eq!(record(&file), Some(OPEN));
    }

    /// As a host with this number sees an export, with a folder that all of them share.
    fn export(place: &Place, host: u128) -> OwnerFile {
        let origin = OriginSpec::File(FileSpec {
            path: "/dev/null".into(),
            direct: false,
        });
        let folders = Folders {
            state: place.path(&format!("host-{host}")),
            shared: Some(place.folder.path().to_owned()),
        };
        OwnerFile::new(DiskId::from_u128(host), &origin, &folders, "main")
    }

    #[test]
    fn hosts_that_share_a_folder_see_each_others_records_of_what_is_no_file() {
        let place = Place::new();
        let (one, two) = (export(&place, 1), export(&place, 2));
        one.store(OPEN, 0).unwrap();
        assert!(matches!(
            two.load().unwrap_err(),
            OwnerError::OtherDisk { .. }
        ));
        one.store(CLOSED, 1).unwrap();
        assert_eq!(record(&two), Some(CLOSED));
        assert!(!place.path("host-1").exists());
    }

    #[test]
    fn what_is_no_file_has_one_writer_or_readers() {
        let place = Place::new();
        let [mut one, mut two, mut three] = [1, 2, 3].map(|host| export(&place, host));
        one.lock(false).unwrap();
        let copy = one.clone();
        drop(one);
        assert!(matches!(two.lock(true), Err(OwnerError::InUse { .. })));
        drop(copy);
        two.lock(true).unwrap();
        three.lock(true).unwrap();
        let mut four = export(&place, 4);
        assert!(matches!(four.lock(false), Err(OwnerError::InUse { .. })));
    }

    #[test]
    fn a_shared_folder_that_is_away_is_an_error_and_never_none() {
        let place = Place::new();
        let mut one = export(&place, 1);
        one.lock_path = Some(place.path("away/record.hearth.lock"));
        assert!(matches!(one.lock(false), Err(OwnerError::Io { .. })));
    }

    #[test]
    fn a_record_from_before_a_folder_was_shared_counts_until_there_is_a_later_one() {
        let place = Place::new();
        let shared = export(&place, 1);
        let before = OwnerFile {
            beside: None,
            ..shared.clone()
        };
        before.store(OPEN, 0).unwrap();
        assert_eq!(record(&shared), Some(OPEN));
        shared.store(CLOSED, 1).unwrap();
        assert_eq!(record(&shared), Some(CLOSED));
    }
}
