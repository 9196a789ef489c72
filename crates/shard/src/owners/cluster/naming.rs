//! A hand-over that needs no store: while no time presses, the record says where the disk may go.
//!
//! ```text
//!   the disk's host                               the host that it may go to
//!   name     the record says where it may go ───► heed      keeps that in STATE_DIR/owners/ID.next
//!            ·   ·   ·   the store may not answer from here on   ·   ·   ·
//!   hand     owes the store: the other has it ──► receive   owes the store: this host has it
//!            ·   ·   ·   the store answers again   ·   ·   ·
//!   settle   whichever host comes first tells the store; the other one finds it done
//! ```
//!
//! Rules:
//! - Neither host asks the store while the VM waits, whether the store answers or not.
//! - Only a host that the record names takes a disk so, and only when the disk's host has granted it. So a grant adds no host
//!   to those that may have the disk by the record.
//! - The record names the next host for one epoch: the one that follows. So a grant counts once, and both hosts know what the
//!   record said of caches then.
//! - What is handed so is closed: the origin has all of it. Who has what the origin lacks only the store can say.
//! - A host that has got a disk so tells the store before it hands the disk on.
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
        cluster.map_or(Ok(()), |cluster| Naming(cluster).name(next))
    }

    /// Keeps the record if it says that the disk may come here. Returns whether it does, or need not. May block.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn heed(&self) -> Result<bool, OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(true), |cluster| Naming(cluster).heed())
    }

    /// Whether the disk can be handed to another host now: the record says that it may go there, or can be replaced. May
    /// block.
    ///
    /// # Errors
    /// [`OwnerError::Unreached`].
    pub fn may_hand_to(&self, next: &str) -> Result<(), OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(()), |cluster| Naming(cluster).may_hand_to(next))
    }

    /// Hands the disk to the next host without the store, if the record says that it may go there in this epoch: what was
    /// handed is written down here, durably, and the store is told later. Nothing that the origin lacks may go along. May
    /// block, and asks nobody.
    ///
    /// # Errors
    /// [`OwnerError::Io`], [`OwnerError::Damaged`].
    pub fn hand_as_foreseen(&self, next: &Holder) -> Result<bool, OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(false), |cluster| Naming(cluster).hand_as_foreseen(next))
    }

    /// Takes the word of the host `from` that the disk is here in this epoch, if the record said that it may come: that is
    /// written down, and the store is told later. Otherwise nothing changes, and the record counts. May block.
    ///
    /// # Errors
    /// [`OwnerError::Io`], [`OwnerError::Damaged`]; [`OwnerError::Unreached`] if the store has yet to be told that the disk
    /// went away from here, and does not answer.
    pub fn receive(&self, next: &Holder, from: &str) -> Result<(), OwnerError> {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Ok(()), |cluster| Naming(cluster).receive(next, from))
    }
}

/// The record of a disk that may go to another host, or come from there.
pub(super) struct Naming<'a>(pub(super) &'a InCluster);

impl Naming<'_> {
    fn name(&self, next: Option<&str>) -> Result<(), OwnerError> {
        self.0.update(|found| match found {
            Some(found) if self.0.has_attached(found) => {
                let is_said = may_go_to(found) == next;
                let said = Owner {
                    attachment: found.attachment.clone().map(|mut attachment| {
                        attachment.may_go_to = next.map(str::to_owned);
                        attachment
                    }),
                    ..found.clone()
                };
                Ok((!is_said).then(|| (said, Some(self.0.here()))))
            }
            Some(found) => Err(superseded(found.clone())),
            None => Ok(None),
        })
    }

    fn heed(&self) -> Result<bool, OwnerError> {
        let Some((found, stored)) = self.0.read()? else {
            return Ok(false);
        };
        let is_named = may_go_to(&found) == Some(self.0.here());
        if is_named && self.0.read_file(&self.0.next)?.as_ref() != Some(&found) {
            super::write_file(&self.0.next, &stored.text)?;
        }
        Ok(is_named)
    }

    fn may_hand_to(&self, next: &str) -> Result<(), OwnerError> {
        if let Some(owed) = self.0.owed()? {
            self.0.pay(&owed)?;
        }
        match self.named(next)? {
            Some(_) => Ok(()),
            None => self.0.reach(),
        }
    }

    /// The record that this host wrote last, if that said that the disk may go to this host.
    fn named(&self, next: &str) -> Result<Option<Owner>, OwnerError> {
        let kept = self.0.kept()?.filter(|kept| self.0.has_attached(kept));
        Ok(kept.filter(|kept| may_go_to(kept) == Some(next)))
    }

    fn hand_as_foreseen(&self, next: &Holder) -> Result<bool, OwnerError> {
        if let Some(owed) = self.0.owed()? {
            return Ok(owed.holder.as_ref() == Some(next));
        }
        let named = self.named(&next.host)?;
        let Some(named) = named.filter(|named| epoch_of(named) + 1 == next.epoch) else {
            return Ok(false);
        };
        self.0.write_owed(granted(&named, next), &next.host)?;
        Ok(true)
    }

    fn receive(&self, next: &Holder, from: &str) -> Result<(), OwnerError> {
        if let Some(owed) = self.0.owed()? {
            if self.0.has_attached(&owed) {
                return Ok(());
            }
            // It went from here before, and comes back.
            self.0.pay(&owed)?;
        }
        let last = self.0.kept()?;
        if last.is_some_and(|last| epoch_of(&last) >= next.epoch) {
            return Ok(());
        }
        let Some(named) = self.0.read_file(&self.0.next)? else {
            return Ok(());
        };
        let holder = named.holder.as_ref();
        if !holder.is_some_and(|of| of.host == from && of.epoch + 1 == next.epoch) {
            return Ok(());
        }
        self.0.write_owed(granted(&named, next), self.0.here())
    }

    /// Lets the store have the record of a disk that was handed over without it.
    pub(super) fn commit_handed(&self, owed: &Owner, to: &str) -> Result<Settled, OwnerError> {
        let is_here = to == self.0.here();
        let epoch = epoch_of(owed);
        let replaced = self.0.replace(|found| {
            let Some(found) = found else {
                return Ok(Some((owed.clone(), Some(to))));
            };
            let is_foreseen = may_go_to(found) == Some(to) && epoch_of(found) < epoch;
            let has_come = attached_at(found) == Some(to);
            let is_ours = is_foreseen || (is_here && has_come);
            if !is_ours {
                // The host that handed it over has no more to say.
                return if is_here {
                    Err(self.0.attached_elsewhere(found))
                } else {
                    Ok(None)
                };
            }
            found.clone().may_be_followed_by(owed.record)?;
            Ok(Some((owed.clone(), Some(to))))
        })?;
        let text = match replaced {
            Some(text) => Some(text),
            None => self.0.read()?.map(|(_, stored)| stored.text),
        };
        Ok(Settled {
            text: text.unwrap_or_default(),
            owed: owed.clone(),
            is_known: true,
        })
    }
}

/// What the record of a disk becomes that is granted to the next host. The origin has all of it: so much was done before,
/// and the store may not have been told.
fn granted<'a>(named: &'a Owner, next: &'a Holder) -> Said<'a> {
    let record = OwnerRecord {
        open: false,
        ..named.record
    };
    Said {
        record,
        holder: Some(next),
        ..Said::by(named)
    }
}

/// Where a disk may go, as its record says.
pub(super) fn may_go_to(owner: &Owner) -> Option<&str> {
    owner.attachment.as_ref()?.may_go_to.as_deref()
}

fn epoch_of(owner: &Owner) -> u64 {
    owner.holder.as_ref().map_or(0, |holder| holder.epoch)
}
