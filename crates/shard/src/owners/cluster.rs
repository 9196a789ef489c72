//! The owner's record of a disk in the store of a cluster.
//!
//! The record also says which host has the disk *attached*, and how often it was replaced (its *serial*). A host
//! replaces what it has read, and nothing else, so of two hosts that attach a disk at once one is refused. No lease
//! is involved: a host that is gone still has its disks.
//!
//! ```text
//!   attach    nobody, or this host ─► this host         another host: refused
//!   hand      this host ─► the next one                 (a disk that roams)
//!   release   this host ─► nobody                       while it is open: left alone
//! ```
//!
//! Each record that is replaced here is kept in the state directory, too. While the store is away, what is kept
//! counts if this host has the disk attached by it: the disk was never detached, so no other host may have it. That is
//! what a daemon is started by which was stopped meanwhile. It then goes on with records that are kept alone, as long as
//! the store has one that is open: who takes the disk after the host's loss has to know that bytes may be lost. The
//! store gets the last of them when it answers again.
//!
//! A disk that an operator had attached without the store is owed to it: see `debt`. So is one that was handed over while
//! the store was away: see `naming`.

mod debt;
mod naming;

pub use debt::{Settled, Vouched};

use super::text::{self, Said};
use super::{Attachment, Owner, OwnerError};
use durable_file::Readers;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::DiskId;

/// How often a record is read again that was replaced meanwhile, or whose answer was lost.
const TRIES_MAX: usize = 8;

/// A record as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its bytes.
    pub text: Vec<u8>,
    /// By which it is known again.
    pub revision: u64,
}

/// Why the store does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached(pub String);

/// What became of a record that was to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It is.
    Yes,
    /// It was not as it had been read.
    No,
    /// The answer was lost.
    Unknown,
}

/// The records of disks in the store of a cluster. All of it may block.
pub trait ClusterRecords: fmt::Debug + Send + Sync {
    /// What this host is called there.
    fn here(&self) -> &str;

    /// The record of a disk, if there is one.
    ///
    /// # Errors
    /// [`Unreached`].
    fn read(&self, disk: DiskId) -> Result<Option<StoredRecord>, Unreached>;

    /// Replaces the record of a disk if it is as it was read: of this revision, or not there.
    ///
    /// # Errors
    /// [`Unreached`]; then it is not replaced.
    fn replace(&self, disk: DiskId, was: Option<u64>, text: &[u8]) -> Result<Replaced, Unreached>;

    /// Whether a host of this name has said lately that it is there.
    ///
    /// # Errors
    /// [`Unreached`].
    fn hears_of(&self, host: &str) -> Result<bool, Unreached>;
}

/// The place of one disk's record.
#[derive(Clone, Debug)]
pub(super) struct InCluster {
    store: Arc<dyn ClusterRecords>,
    disk: DiskId,
    /// What messages call it.
    path: PathBuf,
    /// Where it is kept besides.
    kept: PathBuf,
    /// Where it is while the store has yet to be told.
    owed: PathBuf,
    /// Where the last one is that said that the disk may come here.
    next: PathBuf,
}

impl InCluster {
    pub(super) fn new(store: &Arc<dyn ClusterRecords>, disk: DiskId, kept: &Path) -> Self {
        Self {
            store: Arc::clone(store),
            disk,
            path: PathBuf::from(format!("disks/{disk}/owner")),
            kept: kept.to_owned(),
            owed: kept.with_extension(debt::EXTENSION),
            next: kept.with_extension(naming::EXTENSION),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the store answers.
    pub(super) fn reach(&self) -> Result<(), OwnerError> {
        self.read().map(drop)
    }

    fn here(&self) -> &str {
        self.store.here()
    }

    /// The record. While the store is away, the one that is kept, if the disk is attached here by it.
    pub(super) fn load(&self) -> Result<Option<Owner>, OwnerError> {
        if let Some(owed) = self.owed_still()? {
            return Ok(Some(owed));
        }
        let found = match self.read() {
            Ok(found) => found.map(|(owner, _)| owner),
            Err(error @ OwnerError::Unreached { .. }) => return self.kept_here(error).map(Some),
            Err(error) => return Err(error),
        };
        let Some(later) = self.later_than(found.as_ref())? else {
            return Ok(found);
        };
        let replaced = self.update(|found| match self.later_than(found)? {
            Some(later) => Ok(Some((later, Some(self.here())))),
            None => Ok(None),
        });
        replaced.map(|()| Some(later))
    }

    /// What is kept, if this host has the disk attached by that.
    fn kept_here(&self, error: OwnerError) -> Result<Owner, OwnerError> {
        let kept = self.kept()?.filter(|kept| self.has_attached(kept));
        kept.ok_or(error)
    }

    /// What is kept, if that is later than what the store has, and the disk was here all the time.
    fn later_than(&self, found: Option<&Owner>) -> Result<Option<Owner>, OwnerError> {
        if !found.is_some_and(|found| self.has_attached(found)) {
            return Ok(None);
        }
        let is_later =
            |kept: &Owner| self.has_attached(kept) && serial_of(Some(kept)) > serial_of(found);
        Ok(self.kept()?.filter(is_later))
    }

    /// Attaches the disk here.
    pub(super) fn attach(&self) -> Result<(), OwnerError> {
        if let Some(owed) = self.owed_still()? {
            if !self.has_attached(&owed) {
                return Err(self.attached_elsewhere(&owed));
            }
            if owed.holder.is_none() {
                tracing::warn!(disk = %self.disk, "the disk was attached without the store, and stays so");
            }
            return Ok(());
        }
        let attached = self.update(|found| match found {
            Some(found) if self.has_attached(found) => Ok(None),
            Some(found) if attached_at(found).is_some() => Err(self.attached_elsewhere(found)),
            _ => {
                let found = found.cloned().unwrap_or_else(|| self.nobodys());
                Ok(Some((found, Some(self.here()))))
            }
        });
        match attached {
            Err(error @ OwnerError::Unreached { .. }) => {
                let (disk, why) = (self.disk, error.to_string());
                let _kept = self.kept_here(error)?;
                tracing::warn!(%disk, why, "the disk was attached here, and stays so");
                Ok(())
            }
            attached => attached,
        }
    }

    /// Lets the disk go, if the origin has all of it. One that is owed stays: the store knows nothing of it.
    pub(super) fn release(&self) -> Result<(), OwnerError> {
        if self.owed()?.is_some() {
            return Ok(());
        }
        self.update(|found| {
            let ours = found.filter(|found| self.has_attached(found) && !found.record.open);
            Ok(ours.map(|found| (found.clone(), None)))
        })
    }

    /// Replaces what the record says of caches. The disk stays attached where it is.
    pub(super) fn store(&self, said: Said<'_>) -> Result<(), OwnerError> {
        if self.owe(said)? {
            return Ok(());
        }
        let stored = self.update(|found| {
            if let Some(found) = found {
                if !self.has_attached(found) {
                    return Err(superseded(found.clone()));
                }
                found.clone().may_be_followed_by(said.record)?;
            }
            Ok(Some((self.owner(said), Some(self.here()))))
        });
        match stored {
            Err(error @ OwnerError::Unreached { .. }) => self.keep_alone(said, error),
            stored => stored,
        }
    }

    /// Keeps a record that the store cannot be told now.
    fn keep_alone(&self, said: Said<'_>, error: OwnerError) -> Result<(), OwnerError> {
        if !said.record.open {
            // It stays open there, which only keeps others away.
            tracing::warn!(disk = %self.disk, %error, "the owner's record is not closed");
            return Ok(());
        }
        let kept = self.kept_here(error.clone())?;
        if !kept.record.open {
            return Err(error);
        }
        kept.clone().may_be_followed_by(said.record)?;
        self.keep(&self.encode(said, Some(&kept), Some(self.here())))
    }

    fn encode(&self, said: Said<'_>, before: Option<&Owner>, host: Option<&str>) -> Vec<u8> {
        let said_of = said
            .attachment
            .or(before.and_then(|before| before.attachment.as_ref()));
        let stays = host.is_some() && before.and_then(attached_at) == host;
        let attachment = Attachment {
            serial: serial_of(before) + 1,
            host: host.map(str::to_owned),
            may_go_to: said_of
                .filter(|_| stays)
                .and_then(|of| of.may_go_to.clone()),
        };
        let said = Said {
            attachment: Some(&attachment),
            ..said
        };
        text::encode(self.disk, said)
    }

    /// Lets the record name its next holder, which also has the disk attached, if the record is as it was found.
    pub(super) fn hand(&self, said: Said<'_>, found: Option<&Owner>) -> Result<(), OwnerError> {
        let serial = serial_of(found);
        let next = said.holder.map(|holder| holder.host.as_str());
        let goes_on = next == Some(self.here());
        if goes_on && self.replace_owed(said)? {
            return Ok(());
        }
        let handed = self.update(|there| {
            if serial_of(there) != serial {
                return Err(OwnerError::Overtaken);
            }
            // What was foreseen was foreseen of the last epoch.
            let attachment = Some(Attachment::default());
            let owner = self.owner(said);
            Ok(Some((
                Owner {
                    attachment,
                    ..owner
                },
                next,
            )))
        });
        match handed {
            Err(error @ OwnerError::Unreached { .. }) if goes_on => {
                let mut kept = self.kept_here(error)?;
                kept.attachment = kept.attachment.map(|of| Attachment {
                    may_go_to: None,
                    ..of
                });
                self.keep(&self.encode(said, Some(&kept), next))
            }
            handed => handed,
        }
    }

    fn owner(&self, said: Said<'_>) -> Owner {
        Owner {
            record: said.record,
            cache_name: said.cache_name.to_owned(),
            host: said.host.to_owned(),
            path: self.path.clone(),
            identity: said.identity,
            holder: said.holder.cloned(),
            attachment: None,
        }
    }

    fn attached_elsewhere(&self, owner: &Owner) -> OwnerError {
        OwnerError::AttachedElsewhere {
            path: self.path.clone(),
            host: attached_at(owner).unwrap_or("nobody").to_owned(),
        }
    }

    fn has_attached(&self, owner: &Owner) -> bool {
        attached_at(owner) == Some(self.here())
    }

    /// Replaces the record by what `next` makes of it, if anything, with who has the disk attached then, and keeps it.
    fn update<'a>(
        &self,
        next: impl Fn(Option<&Owner>) -> Result<Option<(Owner, Option<&'a str>)>, OwnerError>,
    ) -> Result<(), OwnerError> {
        match self.replace(next)? {
            Some(text) => self.keep(&text),
            None => Ok(()),
        }
    }

    /// The same without keeping it. Returns the record that the store has now, if it was replaced.
    fn replace<'a>(
        &self,
        next: impl Fn(Option<&Owner>) -> Result<Option<(Owner, Option<&'a str>)>, OwnerError>,
    ) -> Result<Option<Vec<u8>>, OwnerError> {
        let mut tried: Option<Vec<u8>> = None;
        for _ in 0..TRIES_MAX {
            let found = self.read()?;
            let (owner, revision) = match &found {
                Some((owner, stored)) => (Some(owner), Some(stored.revision)),
                None => (None, None),
            };
            if let (Some(tried), Some((_, stored))) = (&tried, &found)
                && *tried == stored.text
            {
                return Ok(Some(tried.clone()));
            }
            let Some((said, host)) = next(owner)? else {
                return Ok(None);
            };
            let text = self.encode(Said::by(&said), owner, host);
            match self.store.replace(self.disk, revision, &text) {
                Ok(Replaced::Yes) => return Ok(Some(text)),
                Ok(Replaced::No) => {}
                Ok(Replaced::Unknown) => tried = Some(text),
                Err(unreached) => return Err(self.unreached(unreached)),
            }
        }
        let why = format!("it was replaced {TRIES_MAX} times meanwhile");
        Err(self.unreached(Unreached(why)))
    }

    /// The record of a disk that no cache has had.
    fn nobodys(&self) -> Owner {
        let record = cache::OwnerRecord {
            epoch: 0,
            cache: 0,
            open: false,
        };
        self.owner(Said {
            record,
            cache_name: "",
            host: self.here(),
            identity: None,
            holder: None,
            attachment: None,
        })
    }

    fn read(&self) -> Result<Option<(Owner, StoredRecord)>, OwnerError> {
        let found = self.store.read(self.disk);
        let Some(stored) = found.map_err(|unreached| self.unreached(unreached))? else {
            return Ok(None);
        };
        let owner = self.decode(&stored.text, &self.path)?;
        Ok(Some((owner, stored)))
    }

    fn decode(&self, text: &[u8], path: &Path) -> Result<Owner, OwnerError> {
        match text::decode(text, path) {
            Some((disk, owner)) if disk == self.disk => Ok(owner),
            _ => Err(OwnerError::Damaged {
                path: path.to_owned(),
            }),
        }
    }

    fn kept(&self) -> Result<Option<Owner>, OwnerError> {
        self.read_file(&self.kept)
    }

    fn keep(&self, text: &[u8]) -> Result<(), OwnerError> {
        write_file(&self.kept, text)
    }

    fn read_file(&self, path: &Path) -> Result<Option<Owner>, OwnerError> {
        match std::fs::read(path) {
            Ok(text) => self.decode(&text, path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", path, &error)),
        }
    }

    fn unreached(&self, Unreached(why): Unreached) -> OwnerError {
        OwnerError::Unreached {
            path: self.path.clone(),
            why,
        }
    }
}

/// Replaces a record in the state directory, durably.
fn write_file(path: &Path, text: &[u8]) -> Result<(), OwnerError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)
        .and_then(|()| durable_file::replace(path, Readers::Anybody, text))
        .map_err(|error| io_error("write", path, &error))
}

fn io_error(doing: &'static str, path: &Path, error: &io::Error) -> OwnerError {
    OwnerError::Io {
        doing,
        path: path.to_owned(),
        system: error.into(),
    }
}

fn attached_at(owner: &Owner) -> Option<&str> {
    owner.attachment.as_ref()?.host.as_deref()
}

fn serial_of(owner: Option<&Owner>) -> u64 {
    let attachment = owner.and_then(|owner| owner.attachment.as_ref());
    attachment.map_or(0, |attachment| attachment.serial)
}

fn superseded(found: Owner) -> OwnerError {
    let host = attached_at(&found).unwrap_or("nobody").to_owned();
    OwnerError::Superseded {
        path: found.path,
        epoch: found.record.epoch,
        cache_name: found.cache_name,
        host,
    }
}

#[cfg(test)]
mod tests;
