//! What this host owes the store of its cluster: the record of a disk that an operator had attached while the store was
//! away.
//!
//! ```text
//!   STATE_DIR/owners/ID.owed     the record that the store has to get; nothing is owed without it
//!
//!   vouch     the store is away ─► owed: no cache's, closed, of an epoch above any
//!   store     owed: this cache's, closed; an open one is refused
//!   settle    the store answers ─► it has the record, and nothing is owed
//! ```
//!
//! Rules:
//! - The record that the store has is not known. So the epoch is the time, in seconds since 1970: no disk is attached once
//!   a second, so no record has a later one, unless a clock is wrong.
//! - Nothing that the store has does not know of the disk is served from a dirty log: whoever finds the store's record
//!   would miss it. So what is owed is closed, and writes go through.
//! - If the store has another record than the one that this host knows, another host had the disk since. Whether that was
//!   before the operator's word is not known, so what is cached here does not count.
//! - A record of a disk that is attached at another host is never replaced.

use super::naming::Naming;
use super::{InCluster, Owner, OwnerError, Said, Unreached, attached_at, io_error, superseded};
use crate::owners::text;
use crate::owners::{Attachment, OwnerFile};
use cache::OwnerRecord;
use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the name of an owed record ends with.
pub(super) const EXTENSION: &str = "owed";

/// What became of an operator's word that no other host has a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// It is written down: the disk can be attached.
    Written,
    /// It was not needed: this host had the disk last, or owes its record already.
    Needless,
    /// The store answers, and says who has the disk.
    Answered,
}

/// A record that was owed, as the store has it now.
#[derive(Debug)]
#[must_use = "it is owed until this is concluded"]
pub struct Settled {
    pub(super) text: Vec<u8>,
    /// What was owed.
    pub(super) owed: Owner,
    /// Whether no other host had the disk since this one did.
    pub is_known: bool,
}

impl OwnerFile {
    /// Whether the record is in the store of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Takes an operator's word that no other host has the disk, and writes that down, durably: [`Self::lock`] goes by it
    /// while the store does not answer. May block.
    ///
    /// # Errors
    /// [`OwnerError::Io`] if it cannot be written down, [`OwnerError::Damaged`].
    pub fn vouch(&self) -> Result<Vouched, OwnerError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(Vouched::Needless), |cluster| {
            cluster.vouch(since.unwrap_or(Duration::ZERO))
        })
    }

    /// Whether [`Self::lock`] needs no word while the store does not answer: this host had the disk last, or owes its record.
    /// May block, and asks nobody.
    ///
    /// # Errors
    /// [`OwnerError::Io`], [`OwnerError::Damaged`].
    pub fn is_had_here(&self) -> Result<bool, OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(false), InCluster::is_had_here)
    }

    /// Whether the store has yet to be told that the disk is attached here. May block, and asks nobody.
    ///
    /// # Errors
    /// [`OwnerError::Io`], [`OwnerError::Damaged`].
    pub fn owes(&self) -> Result<bool, OwnerError> {
        let owed = self.debtor.as_ref().map(InCluster::owed);
        Ok(owed.transpose()?.flatten().is_some())
    }

    /// Tells the store of a disk that is attached here. `None` if nothing is owed. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`]; [`OwnerError::AttachedElsewhere`] or [`OwnerError::Superseded`] if another host has the
    /// disk by the store's word. It stays owed then.
    pub fn settle(&self) -> Result<Option<Settled>, OwnerError> {
        let Some(cluster) = &self.debtor else {
            return Ok(None);
        };
        let owed = cluster.owed()?;
        owed.map(|owed| cluster.commit(&owed, true)).transpose()
    }

    /// Owes nothing any more, once what is cached here and does not count is dropped. False if the disk's cache has said
    /// something new meanwhile, which is owed now. May block.
    ///
    /// # Errors
    /// [`OwnerError::Io`]; then it stays owed.
    pub fn conclude(&self, settled: &Settled) -> Result<bool, OwnerError> {
        let cluster = self.debtor.as_ref();
        cluster.map_or(Ok(true), |cluster| cluster.conclude(settled))
    }

    /// Tells the store of a disk that is not served here any more; if another host has it by the store's word, owes nothing
    /// all the same. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`]; then it stays owed.
    pub fn give_up_debt(&self) -> Result<(), OwnerError> {
        let Some(cluster) = &self.debtor else {
            return Ok(());
        };
        let Some(owed) = cluster.owed()? else {
            return Ok(());
        };
        match cluster.pay(&owed) {
            Err(OwnerError::AttachedElsewhere { .. } | OwnerError::Superseded { .. }) => {
                cluster.owe_nothing()
            }
            paid => paid,
        }
    }

    /// Takes back what was written down for a disk that was not served since. May block.
    ///
    /// # Errors
    /// [`OwnerError::Io`]; then it stays owed.
    pub fn unvouch(&self) -> Result<(), OwnerError> {
        let cluster = self.debtor.as_ref();
        cluster.map_or(Ok(()), InCluster::owe_nothing)
    }
}

impl InCluster {
    /// Takes an operator's word at this time since 1970.
    pub(super) fn vouch(&self, now: Duration) -> Result<Vouched, OwnerError> {
        match self.reach() {
            Ok(()) => return Ok(Vouched::Answered),
            Err(OwnerError::Unreached { .. }) => {}
            Err(error) => return Err(error),
        }
        if self.is_had_here()? {
            return Ok(Vouched::Needless);
        }
        let after = self.kept()?.map_or(0, |kept| kept.record.epoch + 1);
        let nobodys = self.nobodys();
        let owed = Owner {
            record: OwnerRecord {
                epoch: now.as_secs().max(after),
                ..nobodys.record
            },
            ..nobodys
        };
        self.write_owed(Said::by(&owed), self.here())?;
        Ok(Vouched::Written)
    }

    fn is_had_here(&self) -> Result<bool, OwnerError> {
        let kept = self.kept()?;
        let is_here = kept.is_some_and(|kept| self.has_attached(&kept));
        Ok(is_here || self.owed()?.is_some())
    }

    /// The record that the store has to get.
    pub(super) fn owed(&self) -> Result<Option<Owner>, OwnerError> {
        self.read_file(&self.owed)
    }

    /// The same, if the store cannot get it now. It is not asked for a disk that was handed over: its VM waits.
    pub(super) fn owed_still(&self) -> Result<Option<Owner>, OwnerError> {
        let Some(owed) = self.owed()?.filter(|owed| owed.holder.is_none()) else {
            return self.owed();
        };
        match self.pay(&owed) {
            Err(OwnerError::Unreached { .. }) => Ok(Some(owed)),
            paid => paid.map(|()| None),
        }
    }

    /// Replaces the record that is owed by what the disk's cache says. False if none is.
    pub(super) fn owe(&self, said: Said<'_>) -> Result<bool, OwnerError> {
        let _alone = alone();
        let Some(owed) = self.owed()? else {
            return Ok(false);
        };
        if !self.has_attached(&owed) {
            return Err(superseded(owed));
        }
        // The record that the store has names this host, if the disk was handed over.
        if said.record.open && owed.holder.is_none() {
            let why = "it has yet to be told that the disk is attached here".to_owned();
            return Err(self.unreached(Unreached(why)));
        }
        if said.record == owed.record {
            return Ok(true);
        }
        owed.may_be_followed_by(said.record)?;
        self.write_owed(said, self.here())?;
        Ok(true)
    }

    /// Replaces the record that is owed of a disk which is here. False if none is.
    pub(super) fn replace_owed(&self, said: Said<'_>) -> Result<bool, OwnerError> {
        let _alone = alone();
        if !self.owed()?.is_some_and(|owed| self.has_attached(&owed)) {
            return Ok(false);
        }
        self.write_owed(said, self.here())?;
        Ok(true)
    }

    /// Owes a record by which a host has the disk attached.
    pub(super) fn write_owed(&self, said: Said<'_>, host: &str) -> Result<(), OwnerError> {
        let attachment = Attachment {
            serial: 0,
            host: Some(host.to_owned()),
            may_go_to: None,
        };
        let said = Said {
            attachment: Some(&attachment),
            ..said
        };
        super::write_file(&self.owed, &text::encode(self.disk, said))
    }

    /// Lets the store have a record that is owed, and owes nothing any more. Not for a disk that an operator had attached
    /// without the store while it is served: what is cached of that may not count.
    pub(super) fn pay(&self, owed: &Owner) -> Result<(), OwnerError> {
        let settled = self.commit(owed, false)?;
        self.conclude(&settled).map(drop)
    }

    /// Lets the store have a record that is owed. While the disk `is_served` its cache goes on in the epoch that it has.
    fn commit(&self, owed: &Owner, is_served: bool) -> Result<Settled, OwnerError> {
        if let (Some(_), Some(to)) = (&owed.holder, attached_at(owed)) {
            return Naming(self).commit_handed(owed, to);
        }
        let kept = self.kept()?;
        let is_known = Cell::new(true);
        let replaced = self.replace(|found| {
            is_known.set(is_same(found, kept.as_ref()));
            let record = self.following(found, owed.record, is_known.get() || is_served)?;
            let next = Owner {
                record,
                ..owed.clone()
            };
            Ok(Some((next, Some(self.here()))))
        });
        let text = replaced?.unwrap_or_default();
        let is_known = is_known.get();
        Ok(Settled {
            text,
            owed: owed.clone(),
            is_known,
        })
    }

    /// The record that may follow the one that was found: what is owed, if what is cached here `counts`.
    fn following(
        &self,
        found: Option<&Owner>,
        owed: OwnerRecord,
        counts: bool,
    ) -> Result<OwnerRecord, OwnerError> {
        let nobodys = OwnerRecord { cache: 0, ..owed };
        let Some(found) = found else {
            return Ok(if counts { owed } else { nobodys });
        };
        if attached_at(found).is_some_and(|host| host != self.here()) {
            return Err(self.attached_elsewhere(found));
        }
        let is_ours = (found.record.epoch, found.record.cache) == (owed.epoch, owed.cache);
        if found.record.open && !is_ours {
            // A cache of this host has what the origin lacks.
            return Err(superseded(found.clone()));
        }
        if !counts {
            return Ok(OwnerRecord {
                epoch: owed.epoch.max(found.record.epoch + 1),
                ..nobodys
            });
        }
        found.clone().may_be_followed_by(owed)?;
        Ok(owed)
    }

    fn conclude(&self, settled: &Settled) -> Result<bool, OwnerError> {
        let _alone = alone();
        if self.owed()?.is_some_and(|owed| owed != settled.owed) {
            return Ok(false);
        }
        self.keep(&settled.text)?;
        self.owe_nothing()?;
        Ok(true)
    }

    fn owe_nothing(&self) -> Result<(), OwnerError> {
        let removed = match std::fs::remove_file(&self.owed) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            removed => removed,
        };
        removed
            .and_then(|()| durable_file::sync_folder_of(&self.owed))
            .map_err(|error| io_error("remove", &self.owed, &error))
    }
}

/// Until this is gone nobody else of this process looks at a record that is owed and replaces it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the store has the record that this host knows.
fn is_same(found: Option<&Owner>, kept: Option<&Owner>) -> bool {
    let of = |owner: &Owner| (owner.record, owner.attachment.clone());
    found.map(of) == kept.map(of)
}
