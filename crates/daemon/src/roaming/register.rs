//! Which host has a disk: the owner's record beside its origin, and the decision in this host's folder.

mod taking_over;

use super::origin_lock::OriginLocked;
use super::same_origin;
use super::shipping::Kept;
use crate::control::Control;
use crate::peering::Peering;
use crate::registry::Entry;
use crate::settings;
use block_io::OriginGeometry;
use cache::OwnerRecord;
use configuration::Auto;
use durable_file::Readers;
use handoff::{Decision, Found, Holder, Record};
use origin::{Keeping, OriginSpec};
use shard::{Folders, OwnerFile};
use std::io::ErrorKind;
use std::path::PathBuf;
use units::errors::chain;
use units::{Bytes, DiskId};

/// The register of one disk. All of it may block.
#[derive(Clone)]
pub(super) struct Register {
    disk: DiskId,
    origin: OriginSpec,
    folders: Folders,
    cache: String,
    decision: PathBuf,
    keeping: Option<Keeping>,
    /// The most that the origin may lack, as this host's configuration has it.
    dirty_max: Option<Bytes>,
    here: String,
    there: String,
}

impl Register {
    pub(super) fn new(control: &Control, entry: &Entry, peering: &Peering) -> Self {
        let dir = control.remembered().dir();
        Self {
            disk: entry.id,
            origin: settings::origin(&entry.config.origin),
            folders: dir.folders(),
            cache: entry.cache.to_string(),
            decision: dir.path().join(format!("given-{}", entry.id)),
            keeping: dir.keeping(),
            dirty_max: match entry.config.write_back.dirty_max.0 {
                Auto::Fixed(bytes) => Some(bytes),
                Auto::Auto => None,
            },
            here: peering.here().to_owned(),
            there: peering.there().to_owned(),
        }
    }

    /// What the disk is like, and what the record and the decision say.
    pub(super) fn look(&self) -> Result<(OriginGeometry, Found), String> {
        let measured = origin::measure(&self.origin).map_err(|error| chain(&error))?;
        // A server opens it for reading when it is only asked what it is.
        let geometry = OriginGeometry {
            read_only: false,
            ..measured
        };
        let file = self.file();
        if !file.is_seen_by_others() {
            let origin = &self.origin;
            return Err(format!(
                "the origin {origin} is no regular file, and only this host would see who has the disk: set \
                 daemon.owners_dir to a folder that both hosts share"
            ));
        }
        if let Some(shared) = &self.folders.shared
            && file.path().parent() == Some(shared)
        {
            same_origin::check(shared, self.disk, &self.origin.to_string())?;
        }
        let owner = file.load().map_err(|error| chain(&error))?;
        let record = match owner.and_then(|owner| owner.holder) {
            // Nobody's: whoever locks it first has it.
            None => Record {
                owner: Holder::Here,
                epoch: 0,
            },
            Some(shard::Holder { host, epoch }) => {
                let is_ours = host == self.here;
                let owner = if is_ours { Holder::Here } else { Holder::Peer };
                Record { owner, epoch }
            }
        };
        let decision = self.decision()?.map(|(decision, _)| decision);
        let record = Some(record);
        Ok((geometry, Found { record, decision }))
    }

    fn file(&self) -> OwnerFile {
        OwnerFile::new(self.disk, &self.origin, &self.folders, &self.cache)
    }

    /// The last decision, and who had what the origin lacked then, if anybody.
    fn decision(&self) -> Result<Option<(Decision, Option<Kept>)>, String> {
        let path = self.decision.display();
        match std::fs::read_to_string(&self.decision) {
            Ok(text) => {
                let decided = decided(&text);
                decided
                    .map(Some)
                    .ok_or_else(|| format!("{path} does not hold a number"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }

    /// Notes durably that the disk goes to the peer, and who has what the origin lacks.
    pub(super) fn decide(&self, decision: Decision, kept: Option<Kept>) -> std::io::Result<()> {
        let text = words(decision, kept);
        durable_file::replace(&self.decision, Readers::Owner, text.as_bytes())
    }

    /// Lets the record name the peer with this epoch, under the origin's lock, which is held by what comes back.
    /// Nothing, if the record does already: then the peer may have locked the origin.
    pub(super) fn record(&self, epoch: u64) -> Result<Option<OriginLocked>, String> {
        let file = self.file();
        let owner = file.load().map_err(|error| chain(&error))?;
        let holder = owner.and_then(|owner| owner.holder);
        if holder.is_some_and(|holder| holder.epoch >= epoch) {
            return Ok(None);
        }
        let mut locked = OriginLocked::take(&self.origin, file).map_err(|error| chain(&*error))?;
        let next = shard::Holder {
            host: self.there.clone(),
            epoch,
        };
        let is_next = |before: Option<&shard::Holder>| {
            before.is_some_and(|before| before.host == self.here && before.epoch + 1 == epoch)
        };
        let kept = self.decision()?.and_then(|(decision, kept)| {
            let is_this = decision.epoch + 1 == epoch;
            kept.filter(|_| is_this)
        });
        // If the record has gone on from there, the peer knows more than this host does.
        let handed = match kept {
            None => locked.file().hand_to(next, is_next),
            Some(Kept { cache, period }) => {
                let record = OwnerRecord {
                    epoch: period,
                    cache,
                    open: true,
                };
                locked.file().hand_with(next, record, is_next)
            }
        };
        let _ = handed.map_err(|error| chain(&error))?;
        Ok(Some(locked))
    }
}

/// A decision as its file has it: the epoch, and the cache that has what the origin lacks with its period.
fn words(Decision { epoch }: Decision, kept: Option<Kept>) -> String {
    match kept {
        None => format!("{epoch}\n"),
        Some(Kept { cache, period }) => format!("{epoch} {cache:032x} {period}\n"),
    }
}

fn decided(text: &str) -> Option<(Decision, Option<Kept>)> {
    let mut words = text.split_whitespace();
    let epoch = words.next()?.parse().ok()?;
    let kept = match words.next() {
        None => None,
        Some(cache) => Some(Kept {
            cache: u128::from_str_radix(cache, 16).ok()?,
            period: words.next()?.parse().ok()?,
        }),
    };
    let is_all = words.next().is_none();
    is_all.then_some((Decision { epoch }, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_read_as_it_was_noted() {
        let decision = Decision { epoch: 7 };
        let kept = Kept {
            cache: 0x0123_4567_89ab_cdef,
            period: 12,
        };
        for kept in [None, Some(kept)] {
            assert_eq!(decided(&words(decision, kept)), Some((decision, kept)));
        }
        assert_eq!(decided("7"), Some((decision, None)));
        for other in ["", "x", "7 xyz 1", "7 1f", "7 1f x", "7 1f 1 1"] {
            assert_eq!(decided(other), None, "{other:?}");
        }
    }
}
