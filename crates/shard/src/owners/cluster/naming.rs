//! A hand-over that needs no store: while no time presses, the record says where the disk may go.
//!
//! ```text
//!   the disk's host                               the host that it may go to
//!   name     the record says where it may go ───► heed      keeps that in STATE_DIR/owners/ID.next
//!            ·   ·   ·   the store does not answer from here on   ·   ·   ·
//!   hand     owes the store: the other has it ──► receive   owes the store: this host has it
//!            ·   ·   ·   the store answers again   ·   ·   ·
//!   settle   whichever host comes first tells the store; the other one finds it done
//! ```
//!
//! Rules:
//! - Only a host that the record names takes a disk without the store, and only when the disk's host has granted it. So a
//!   grant adds no host to those that may have the disk by the record.
//! - A grant counts once: no host takes a disk by one that is not later than what it has handed itself.
//! - What is handed without the store is closed: the origin has all of it. Who has what the origin lacks only the store can
//!   say.
//! - A host that has handed a disk finds that written down when it starts again, and does not attach the disk.
//! - Whoever takes a disk in place of a host that is gone has to know that the named host may have it, and dirty data of it.

use super::{InCluster, Owner, OwnerError, Said, Settled, attached_at, superseded};
use crate::owners::{Holder, OwnerFile};
use cache::OwnerRecord;

/// What the name of a record ends with that names this host as the next one.
pub(super) const EXTENSION: &str = "next";

impl OwnerFile {
    /// Lets the record say that the disk, which is attached here, may go to another host; `None`: to nobody. Nothing where
    /// the record is not in the store of a cluster. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`]; [`OwnerError::Superseded`] if the disk is not attached here.
    pub fn name(&self, next: Option<&str>) -> Result<(), OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(()), |cluster| cluster.name(next))
    }

    /// Keeps the record if it says that the disk may come here. Returns whether it does, or need not. May block.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn heed(&self) -> Result<bool, OwnerError> {
        self.cluster.as_ref().map_or(Ok(true), InCluster::heed)
    }

    /// Whether the disk can be handed to another host now: the record says that it may go there, or can be replaced. May
    /// block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`].
    pub fn may_hand_to(&self, next: &str) -> Result<(), OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(()), |cluster| cluster.may_hand_to(next))
    }

    /// Takes the word of the disk's host that the disk is here in this epoch, if the record says so or would have let it
    /// come here; otherwise nothing changes. May block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`] if the store does not answer, and the record did not say that the disk may come here.
    pub fn receive(&self, granted: &Holder, from: &str) -> Result<(), OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(()), |cluster| cluster.receive(granted, from))
    }
}

impl InCluster {
    fn name(&self, next: Option<&str>) -> Result<(), OwnerError> {
        self.update(|found| match found {
            Some(found) if self.has_attached(found) => {
                let is_said = may_go_to(found) == next;
                let said = Owner {
                    attachment: found.attachment.clone().map(|mut attachment| {
                        attachment.may_go_to = next.map(str::to_owned);
                        attachment
                    }),
                    ..found.clone()
                };
                Ok((!is_said).then(|| (said, Some(self.here()))))
            }
            Some(found) => Err(superseded(found.clone())),
            None => Ok(None),
        })
    }

    fn heed(&self) -> Result<bool, OwnerError> {
        let Some((found, stored)) = self.read()? else {
            return Ok(false);
        };
        let is_named = may_go_to(&found) == Some(self.here());
        if is_named && self.read_file(&self.next)?.as_ref() != Some(&found) {
            super::write_file(&self.next, &stored.text)?;
        }
        Ok(is_named)
    }

    fn may_hand_to(&self, next: &str) -> Result<(), OwnerError> {
        if self.names(next)? {
            return Ok(());
        }
        self.reach()
    }

    /// Whether the record said, when this host wrote it last, that the disk may go to this host.
    fn names(&self, next: &str) -> Result<bool, OwnerError> {
        let kept = self.kept()?.filter(|kept| self.has_attached(kept));
        Ok(kept.is_some_and(|kept| may_go_to(&kept) == Some(next)))
    }

    /// Hands the disk while the store does not answer, or goes on here in a later epoch.
    pub(super) fn hand_alone(&self, said: Said<'_>, error: OwnerError) -> Result<(), OwnerError> {
        let Some(next) = said.holder.map(|holder| holder.host.as_str()) else {
            return Err(error);
        };
        let kept = self.kept_here(error.clone())?;
        if next == self.here() {
            return self.keep(&self.encode(said, Some(&kept), Some(next)));
        }
        let is_others = said.record.cache != kept.record.cache;
        if may_go_to(&kept) != Some(next) || is_others {
            return Err(error);
        }
        // The origin has all of it: nothing is decided before. The store may not have been told.
        let record = OwnerRecord {
            open: false,
            ..said.record
        };
        tracing::warn!(disk = %self.disk, to = next, why = %error,
            "the disk is handed over as its record foresaw, and the record follows");
        self.write_owed(Said { record, ..said }, next)
    }

    fn receive(&self, granted: &Holder, from: &str) -> Result<(), OwnerError> {
        if self.owed()?.is_some() {
            return Ok(());
        }
        let last = self.kept()?;
        let is_old = last.is_some_and(|last| epoch_of(&last) >= granted.epoch);
        let let_come = |record: &Owner| {
            let holder = record.holder.as_ref();
            !is_old
                && may_go_to(record) == Some(self.here())
                && holder.is_some_and(|of| of.host == from && of.epoch < granted.epoch)
        };
        let named = match self.read() {
            Ok(found) => found.map(|(found, _)| found).filter(let_come),
            Err(error @ OwnerError::Unreached { .. }) if self.kept_here(error.clone()).is_err() => {
                let next = self.read_file(&self.next)?;
                Some(next.filter(let_come).ok_or(error)?)
            }
            // This host has it, and has said so.
            Err(OwnerError::Unreached { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(named) = named else {
            return Ok(());
        };
        let record = OwnerRecord {
            open: false,
            ..named.record
        };
        let said = Said {
            record,
            holder: Some(granted),
            ..Said::by(&named)
        };
        self.write_owed(said, self.here())
    }

    /// Lets the store have the record of a disk that was handed over without it.
    pub(super) fn commit_handed(&self, owed: &Owner, to: &str) -> Result<Settled, OwnerError> {
        let is_here = to == self.here();
        let epoch = epoch_of(owed);
        let replaced = self.replace(|found| {
            let Some(found) = found else {
                return Ok(Some((owed.clone(), Some(to))));
            };
            let is_foreseen = may_go_to(found) == Some(to) && epoch_of(found) < epoch;
            let has_come = attached_at(found) == Some(to);
            if !is_foreseen && !(is_here && has_come) {
                // The host that handed it over has no more to say.
                return match is_here {
                    true => Err(self.attached_elsewhere(found)),
                    false => Ok(None),
                };
            }
            found.clone().may_be_followed_by(owed.record)?;
            Ok(Some((owed.clone(), Some(to))))
        })?;
        let text = match replaced {
            Some(text) => Some(text),
            None => self.read()?.map(|(_, stored)| stored.text),
        };
        Ok(Settled {
            text: text.unwrap_or_default(),
            is_known: true,
        })
    }
}

/// Where a disk may go, as its record says.
pub(super) fn may_go_to(owner: &Owner) -> Option<&str> {
    owner.attachment.as_ref()?.may_go_to.as_deref()
}

fn epoch_of(owner: &Owner) -> u64 {
    owner.holder.as_ref().map_or(0, |holder| holder.epoch)
}
