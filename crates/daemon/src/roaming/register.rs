//! Which host has a disk: the owner's record beside its origin, and the decision in this host's folder.

mod taking_over;

pub(super) use taking_over::take_over;

use super::origin_lock::OriginLocked;
use super::same_origin;
use crate::control::Control;
use crate::peering::Peering;
use crate::registry::Entry;
use crate::settings;
use block_io::OriginGeometry;
use cache::OwnerRecord;
use configuration::Auto;
use durable_file::Readers;
use handoff::{Decision, Found, Holder, Kept, Record, first};
use origin::{Keeping, OriginSpec};
use shard::{Folders, OwnerError, OwnerFile};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use units::errors::chain;
use units::{Bytes, DiskId};

/// How the name of a decision's file begins; behind it is the identity of the unit's first disk.
const DECISION: &str = "given-";

/// The register of one disk. All of it may block.
#[derive(Clone)]
pub(super) struct Register {
    disk: DiskId,
    origin: OriginSpec,
    folders: Folders,
    cache: String,
    /// The first disk of the unit, and the file of its decision.
    leader: DiskId,
    decision: PathBuf,
    keeping: Option<Keeping>,
    /// The most that the origin may lack, as this host's configuration has it.
    dirty_max: Option<Bytes>,
    /// This host and the peer that the disk may go to.
    peering: Peering,
}

impl Register {
    /// Of a disk in the unit of this first disk.
    pub(super) fn new(control: &Control, entry: &Entry, peering: &Peering, leader: DiskId) -> Self {
        let dir = control.remembered().dir();
        Self {
            disk: entry.id,
            origin: settings::origin(&entry.config.origin),
            folders: dir.folders(),
            cache: entry.cache.to_string(),
            leader,
            decision: dir.path().join(format!("{DECISION}{leader}")),
            keeping: dir.keeping(),
            dirty_max: match entry.config.write_back.dirty_max.0 {
                Auto::Fixed(bytes) => Some(bytes),
                Auto::Auto => None,
            },
            peering: peering.clone(),
        }
    }

    /// What the disk is like, what the record and the decision say, and which host they make the partner.
    pub(super) fn look(&self) -> Result<(OriginGeometry, Found, Option<String>), String> {
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
        let holder = self.holder()?;
        let record = self.record_of(holder.as_ref());
        let noted = self
            .noted()?
            .filter(|noted| noted.about(self.disk).is_some());
        let decision = noted.as_ref().map(|noted| noted.decision);
        let decided = noted.and_then(|noted| Some((noted.decision, noted.to?)));
        let partner = first(decided, Some(record).zip(holder.map(|holder| holder.host)));
        let record = Some(record);
        Ok((geometry, Found { record, decision }, partner))
    }

    /// Whether the disk can be handed to the peer now.
    ///
    /// # Errors
    /// If the store of the cluster does not answer, and the record does not name the peer.
    pub(super) fn may_hand_over(&self) -> Result<(), OwnerError> {
        self.file().may_hand_to(self.peering.there())
    }

    /// Lets the record say that the disk may go to the peer.
    ///
    /// # Errors
    /// If the store of the cluster does not answer.
    pub(super) fn name_peer(&self) -> Result<(), OwnerError> {
        self.file().name(Some(self.peering.there()))
    }

    /// Lets the record say that the disk stays.
    ///
    /// # Errors
    /// If the store of the cluster does not answer.
    pub(super) fn name_nobody(&self) -> Result<(), OwnerError> {
        self.file().name(None)
    }

    /// Keeps the record if that says that the disk may come here.
    ///
    /// # Errors
    /// If the store of the cluster does not answer.
    pub(super) fn heed(&self) -> Result<(), OwnerError> {
        self.file().heed().map(drop)
    }

    /// Takes the peer's word that the disk is here in this epoch, if the record foresaw that.
    ///
    /// # Errors
    /// If the store of the cluster does not answer, and the record did not foresee it.
    pub(super) fn receive(&self, epoch: u64) -> Result<(), OwnerError> {
        let granted = shard::Holder {
            host: self.peering.here().to_owned(),
            epoch,
        };
        self.file().receive(&granted, self.peering.there())
    }

    /// Whether the store of the cluster has yet to be told who has the disk.
    pub(super) fn owes(&self) -> bool {
        self.file().owes().unwrap_or(true)
    }

    /// What the record says.
    pub(super) fn recorded(&self) -> Result<Record, String> {
        Ok(self.record_of(self.holder()?.as_ref()))
    }

    /// The host that the record names, and since which epoch.
    pub(super) fn holder(&self) -> Result<Option<shard::Holder>, String> {
        let owner = self.file().load().map_err(|error| chain(&error))?;
        Ok(owner.and_then(|owner| owner.holder))
    }

    fn record_of(&self, holder: Option<&shard::Holder>) -> Record {
        match holder {
            // Nobody's: whoever locks it first has it.
            None => Record {
                owner: Holder::Here,
                epoch: 0,
            },
            Some(shard::Holder { host, epoch }) => {
                let is_ours = host == self.peering.here();
                let owner = if is_ours { Holder::Here } else { Holder::Peer };
                let epoch = *epoch;
                Record { owner, epoch }
            }
        }
    }

    fn file(&self) -> OwnerFile {
        OwnerFile::new(self.disk, &self.origin, &self.folders, &self.cache)
    }

    /// The last decision about the disk, and who had what the origin lacked then, if anybody.
    fn decision(&self) -> Result<Option<(Decision, Option<Kept>)>, String> {
        Ok(self.noted()?.and_then(|noted| noted.about(self.disk)))
    }

    /// The last decision about the unit.
    fn noted(&self) -> Result<Option<Noted>, String> {
        match std::fs::read_to_string(&self.decision) {
            Ok(text) => Noted::read(&self.decision, &text, self.leader).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", self.decision.display())),
        }
    }

    /// Lets the record name the peer with this epoch, under the origin's lock, which is held by what comes back.
    /// Nothing, if the record does already: then the peer may have locked the origin. Nothing, too, if the record foresaw
    /// it: then this host's word that it has handed the disk is written down.
    pub(super) fn record(&self, epoch: u64) -> Result<Option<OriginLocked>, String> {
        let file = self.file();
        let next = shard::Holder {
            host: self.peering.there().to_owned(),
            epoch,
        };
        let decided = self.decision()?;
        let kept = decided.and_then(|(decision, kept)| kept.filter(|_| decision.gives(epoch)));
        let is_foreseen = || file.hand_as_foreseen(&next).map_err(|error| chain(&error));
        if kept.is_none() && is_foreseen()? {
            return Ok(None);
        }
        let owner = file.load().map_err(|error| chain(&error))?;
        let holder = owner.and_then(|owner| owner.holder);
        if holder.is_some_and(|holder| holder.epoch >= epoch) {
            return Ok(None);
        }
        let mut locked = OriginLocked::take(&self.origin, file).map_err(|error| chain(&*error))?;
        let is_next = |before: Option<&shard::Holder>| {
            before.is_some_and(|before| {
                before.host == self.peering.here() && before.epoch + 1 == epoch
            })
        };
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

/// Notes durably that disks go to the peer, all with one decision, and who has what the origin of each lacks. The disks
/// are those of a unit, with the first one first.
pub(super) fn decide(
    disks: &[(Register, Option<Kept>)],
    decision: Decision,
) -> std::io::Result<()> {
    let Some((leader, _)) = disks.first() else {
        return Ok(());
    };
    let kept: Vec<_> = disks.iter().map(|(of, kept)| (of.disk, *kept)).collect();
    let text = words(decision, leader.peering.there(), &kept);
    durable_file::replace(&leader.decision, Readers::Owner, text.as_bytes())
}

/// In which epoch of a disk that roams the host with this state directory decided to give it away, alone or with the other
/// disks of its VM, if it ever did. That holds as long as the owner's record has this epoch.
///
/// # Errors
/// If what it noted cannot be read.
pub fn given_in(state_dir: &Path, disk: DiskId) -> Result<Option<u64>, String> {
    let unreadable = |error| format!("{}: {error}", state_dir.display());
    let files = match std::fs::read_dir(state_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        files => files.map_err(unreadable)?,
    };
    let mut last = None;
    for file in files {
        let file = file.map_err(unreadable)?;
        let name = file.file_name();
        let leader = name.to_str().and_then(|name| name.strip_prefix(DECISION));
        let Some(leader) = leader.and_then(|leader| leader.parse::<DiskId>().ok()) else {
            continue;
        };
        let path = file.path();
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let about = Noted::read(&path, &text, leader)?.about(disk);
        last = last.max(about.map(|(decision, _)| decision.epoch));
    }
    Ok(last)
}

/// A decision as its file has it: the epoch and the host that the disks go to; and a line for each disk, with the cache
/// that has what the origin lacks, and its period.
fn words(Decision { epoch }: Decision, to: &str, disks: &[(DiskId, Option<Kept>)]) -> String {
    let lines = disks.iter().map(|(disk, kept)| match kept {
        None => format!("{disk}\n"),
        Some(Kept { cache, period }) => format!("{disk} {cache:032x} {period}\n"),
    });
    format!("{epoch} {to}\n{}", lines.collect::<String>())
}

/// A decision that was noted, and the disks that it is about, each with who has what its origin lacks.
#[derive(Debug, PartialEq, Eq)]
struct Noted {
    decision: Decision,
    /// The host that the disks go to, if that is said.
    to: Option<String>,
    disks: Vec<(DiskId, Option<Kept>)>,
}

impl Noted {
    /// What the text of a file says, the file of the unit with this first disk.
    fn read(file: &Path, text: &str, leader: DiskId) -> Result<Self, String> {
        let noted = Self::parse(text, leader);
        noted.ok_or_else(|| format!("{} does not hold a decision", file.display()))
    }

    /// A text of one line is about the first disk alone: the epoch, and who has what its origin lacks.
    fn parse(text: &str, leader: DiskId) -> Option<Self> {
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let mut head = head.split_whitespace();
        let epoch = head.next()?.parse().ok()?;
        let decision = Decision { epoch };
        if lines.is_empty() {
            let disks = vec![(leader, kept(head).ok()?)];
            let to = None;
            return Some(Self {
                decision,
                to,
                disks,
            });
        }
        let to = head.next().map(str::to_owned);
        let mut disks = Vec::new();
        for line in lines.lines() {
            let mut words = line.split_whitespace();
            let disk = words.next()?.parse().ok()?;
            disks.push((disk, kept(words).ok()?));
        }
        Some(Self {
            decision,
            to,
            disks,
        })
    }

    /// The decision, if it is about this disk, and who has what the disk's origin lacks.
    fn about(&self, disk: DiskId) -> Option<(Decision, Option<Kept>)> {
        let found = self.disks.iter().find(|(of, _)| *of == disk);
        found.map(|(_, kept)| (self.decision, *kept))
    }
}

/// Words that say nothing.
struct Unreadable;

/// Who has what an origin lacks, if anybody.
fn kept<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Option<Kept>, Unreadable> {
    let Some(cache) = words.next() else {
        return Ok(None);
    };
    let period = words.next().and_then(|period| period.parse().ok());
    let kept = Kept {
        cache: u128::from_str_radix(cache, 16).map_err(|_| Unreadable)?,
        period: period.ok_or(Unreadable)?,
    };
    let is_all = words.next().is_none();
    is_all.then_some(Some(kept)).ok_or(Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_read_as_it_was_noted() {
        let decision = Decision { epoch: 7 };
        let shipped = Some(Kept {
            cache: 0x0123_4567_89ab_cdef,
            period: 12,
        });
        let [first, second, other] = [1, 2, 3].map(DiskId::from_u128);
        let text = words(decision, "node-b", &[(first, shipped), (second, None)]);
        let about = |text: &str, disk| Noted::parse(text, first).map(|noted| noted.about(disk));
        assert_eq!(about(&text, first), Some(Some((decision, shipped))));
        assert_eq!(about(&text, second), Some(Some((decision, None))));
        assert_eq!(about(&text, other), Some(None), "it was not about that one");
        // Of one disk, as it was noted once.
        assert_eq!(about("7\n", first), Some(Some((decision, None))));
        assert_eq!(about("7\n", second), Some(None));
        let alone = "7 00000000000000000123456789abcdef 12\n";
        assert_eq!(about(alone, first), Some(Some((decision, shipped))));
        for wrong in ["", "x", "7 xyz 1", "7 1f", "7 1f x", "7 1f 1 1", "7 b\nx"] {
            assert_eq!(about(wrong, first), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_disk_that_leaves_is_found_in_the_decision_of_its_unit() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, alone, other] = [1, 2, 3, 4].map(DiskId::from_u128);
        let note = |leader: DiskId, text: &str| {
            std::fs::write(folder.path().join(format!("{DECISION}{leader}")), text).unwrap();
        };
        note(
            first,
            &words(
                Decision { epoch: 7 },
                "node-b",
                &[(first, None), (second, None)],
            ),
        );
        note(second, "3\n");
        note(alone, "5\n");
        std::fs::write(folder.path().join("given-nothing"), "").unwrap();
        let given = |disk| given_in(folder.path(), disk);
        assert_eq!(given(first), Ok(Some(7)));
        assert_eq!(
            given(second),
            Ok(Some(7)),
            "what was noted before it had a unit"
        );
        assert_eq!(given(alone), Ok(Some(5)));
        assert_eq!(given(other), Ok(None));
        assert_eq!(given_in(&folder.path().join("none"), first), Ok(None));
        note(alone, "x");
        assert!(given(alone).is_err());
    }
}
