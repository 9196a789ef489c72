//! Which disks there are, and how far each has come.
//!
//! ```text
//!   reserve ──► Attaching ──► Attached ──► Detaching ──► (gone)
//!                 │  ▲            ▲             │
//!                 ▼  │            └─ in use ────┘
//!               Waiting  (it could not be attached; tried again)
//!                 │  ▲
//!                 ▼  └── cannot be written down
//!              Forgetting ──► (gone)
//! ```
//!
//! Asked by handshakes and changed by the control, both on the runtime's threads, each for a
//! few map operations and never across a wait; hence a lock rather than a task of its own.

use super::claims::{Claims, User};
use api::types::{DiskSource, DiskState, Problem};
use block_io::OriginGeometry;
use configuration::{DiskConfig, Name, NbdConfig, OriginPlace};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use units::DiskId;

/// How far a disk has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its origin is being opened.
    Attaching,
    /// It could not be attached, of its origin most of the time; that is tried again.
    Waiting {
        /// Why.
        why: Problem,
    },
    /// It waited, and is about to be gone: nothing attaches it meanwhile.
    Forgetting {
        /// Why it waited.
        why: Problem,
    },
    /// Its shard serves it.
    Attached {
        /// What its origin is like.
        geometry: OriginGeometry,
    },
    /// It roams, and is not here: its clients stand by.
    Standby {
        /// What it is like.
        geometry: OriginGeometry,
    },
    /// Its shard is about to let go of it.
    Detaching {
        /// What its origin is like.
        geometry: OriginGeometry,
    },
}

impl Phase {
    /// As people are told.
    pub(super) fn state(&self) -> DiskState {
        match self {
            Self::Attaching => DiskState::Attaching,
            Self::Waiting { .. } => DiskState::Waiting,
            Self::Attached { .. } => DiskState::Attached,
            Self::Standby { .. } => DiskState::Standby,
            Self::Forgetting { .. } | Self::Detaching { .. } => DiskState::Detaching,
        }
    }
}

/// A disk.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As it was asked for, with its cache and VM filled in.
    pub(super) config: DiskConfig,
    /// Its identity.
    pub(super) id: DiskId,
    /// Tells this attachment from earlier ones of the same disk.
    pub(super) serial: u64,
    /// The cache that serves it.
    pub(super) cache: Name,
    /// Who asked for it.
    pub(super) source: DiskSource,
    /// How far it has come.
    pub(super) phase: Phase,
    /// Why its writes go through although they are to go back later; tried again until they may.
    pub(super) without_back: Option<Problem>,
    /// Where its owner's record is or would be, once the origin's file system has said so.
    pub(super) record: Option<PathBuf>,
    /// Why the cluster's store has yet to be told that it is attached here, if an operator had it attached without.
    pub(super) owes: Option<Problem>,
}

impl Entry {
    /// Whose disk it is; a shared one's own name.
    pub(super) fn vm(&self) -> Name {
        self.config.tenant().clone()
    }

    /// Whether it is this VM's own disk, and no base image.
    pub(super) fn is_of(&self, vm: &Name) -> bool {
        !self.config.shared && self.config.tenant() == vm
    }
}

/// Why a disk cannot be reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A disk has its name.
    Name,
    /// The disk of this name has its identity.
    Id(Name),
}

/// Which disks there are.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Mutex<BTreeMap<Name, Entry>>,
    serials: AtomicU64,
    /// Which origins they use.
    claims: Claims,
    /// The cluster's store has something to be told.
    owing: Notify,
}

impl Registry {
    /// Notes that the cluster's store has yet to be told of a disk, or that it was.
    pub(super) fn owe(&self, of: &Entry, why: Option<Problem>) {
        let owes = why.is_some();
        self.update(of, |entry| entry.owes = why);
        if owes {
            self.owing.notify_one();
        }
    }

    /// Waits until the cluster's store has something more to be told.
    pub(super) async fn owing(&self) {
        self.owing.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Entry>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a daemon that serves disks so.
    pub(super) fn of(nbd: &NbdConfig) -> Self {
        Self {
            claims: Claims::new(nbd.clone()),
            owing: Notify::new(),
            ..Self::default()
        }
    }

    /// Enters that an attachment uses the origin at `place`, until it gives that back or is gone.
    ///
    /// # Errors
    /// If a disk uses it and one of both writes, or it is this daemon's own export.
    pub(super) fn claim_origin(&self, of: &Entry, place: OriginPlace) -> Result<(), Problem> {
        let user = User {
            serial: of.serial,
            name: &of.config.name,
            read_only: of.config.read_only || of.config.shared,
        };
        let is_there = |serial| self.lock().values().any(|entry| entry.serial == serial);
        self.claims.claim(user, place, is_there)
    }

    /// The attachment does not use its origin any more.
    pub(super) fn give_origin_back(&self, of: &Entry) {
        self.claims.give_back(of.serial);
    }

    /// Enters a disk under a serial number of its own, unless its name or identity is taken.
    pub(super) fn reserve(&self, mut entry: Entry) -> Result<Entry, Taken> {
        let mut entries = self.lock();
        entry.serial = self.serials.fetch_add(1, Ordering::Relaxed);
        if entries.contains_key(&entry.config.name) {
            return Err(Taken::Name);
        }
        if let Some(other) = entries.values().find(|other| other.id == entry.id) {
            return Err(Taken::Id(other.config.name.clone()));
        }
        entries.insert(entry.config.name.clone(), entry.clone());
        Ok(entry)
    }

    /// A copy of a disk's entry.
    pub(super) fn get(&self, name: &Name) -> Option<Entry> {
        self.lock().get(name).cloned()
    }

    /// Whether this attachment of a disk is there.
    pub(super) fn has(&self, name: &Name, serial: u64) -> bool {
        self.lock()
            .get(name)
            .is_some_and(|entry| entry.serial == serial)
    }

    /// A copy of a disk's entry, for an operator who named it.
    ///
    /// # Errors
    /// If there is no such disk.
    pub(super) fn entry(&self, name: &Name) -> Result<Entry, Problem> {
        self.get(name)
            .ok_or_else(|| Problem::no_such_disk(name.as_str()))
    }

    /// The entry of the disk with this name, as a client wrote it.
    pub(super) fn get_text(&self, name: &str) -> Option<Entry> {
        self.get(&name.parse().ok()?)
    }

    /// Copies of all entries, by name.
    pub(super) fn all(&self) -> Vec<Entry> {
        self.lock().values().cloned().collect()
    }

    /// What `pick` takes of each entry, by name: less than [`Self::all`] where many disks ask for something of a few.
    pub(super) fn select<T>(&self, pick: impl FnMut(&Entry) -> Option<T>) -> Vec<T> {
        self.lock().values().filter_map(pick).collect()
    }

    /// How many disks there are.
    pub(super) fn len(&self) -> u64 {
        self.lock().len() as u64
    }

    /// Changes the entry of this attachment if `change` agrees to; tells whether it did.
    pub(super) fn change(&self, of: &Entry, change: impl FnOnce(&mut Entry) -> bool) -> bool {
        match self.lock().get_mut(&of.config.name) {
            Some(entry) if entry.serial == of.serial => change(entry),
            _ => false,
        }
    }

    /// Changes the entry of this attachment, if it is still there.
    pub(super) fn update(&self, of: &Entry, change: impl FnOnce(&mut Entry)) {
        self.change(of, |entry| {
            change(entry);
            true
        });
    }

    /// Those that have their place before this one: who is attached, or waits for nothing but its
    /// shard, and who was there first, in their order. All others are before one that is attached.
    pub(super) fn before(&self, of: &Entry) -> Vec<Entry> {
        let holds = |entry: &Entry| matches!(entry.phase, Phase::Attached { .. });
        let mut entries = self.all();
        entries.retain(|other| {
            let is_before = holds(of) || holds(other) || other.serial < of.serial;
            other.serial != of.serial && is_before
        });
        entries.sort_by_key(|other| (!holds(other), other.serial));
        entries
    }

    /// Gives an attachment other settings, if it is still in the phase that it had.
    pub(super) fn reconfigure(&self, of: &Entry, config: &DiskConfig) -> bool {
        self.change(of, |entry| {
            let is_same = entry.phase == of.phase && entry.config == of.config;
            if is_same {
                entry.config = config.clone();
            }
            is_same
        })
    }

    /// Lets a disk whose origin is open go to its shard: from here on it is no longer only
    /// forgotten. False if it was forgotten before, or has other settings now.
    pub(super) fn begin(&self, of: &Entry) -> bool {
        self.change(of, |entry| {
            let waits = matches!(
                entry.phase,
                Phase::Attaching | Phase::Waiting { .. } | Phase::Standby { .. }
            );
            let may = waits && entry.config == of.config;
            // Clients of a standby find the disk meanwhile.
            if may && !matches!(entry.phase, Phase::Standby { .. }) {
                entry.phase = Phase::Attaching;
            }
            may
        })
    }

    /// Lets a disk that could not be attached wait, unless it is being forgotten; tells whether it
    /// is still there.
    pub(super) fn wait(&self, of: &Entry, why: Problem) -> bool {
        self.change(of, |entry| {
            if !matches!(entry.phase, Phase::Forgetting { .. }) {
                entry.phase = Phase::Waiting { why };
            }
            true
        })
    }

    /// Begins to forget a disk that waits. False if it does not, or is being forgotten already.
    pub(super) fn forget(&self, of: &Entry) -> bool {
        self.change(of, |entry| match &entry.phase {
            Phase::Waiting { why } => {
                entry.phase = Phase::Forgetting { why: why.clone() };
                true
            }
            _ => false,
        })
    }

    /// Moves this attachment to another phase; tells whether it was still there.
    pub(super) fn set_phase(&self, of: &Entry, phase: Phase) -> bool {
        self.change(of, |entry| {
            entry.phase = phase;
            true
        })
    }

    /// Forgets this attachment.
    pub(super) fn remove(&self, of: &Entry) {
        let mut entries = self.lock();
        let name = &of.config.name;
        if entries
            .get(name)
            .is_some_and(|entry| entry.serial == of.serial)
        {
            entries.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::problem::ProblemKind;
    use configuration::{disk_id, parse};

    fn entry(name: &str, id: Option<u128>) -> Entry {
        let text = format!(
            "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='{name}'\norigin={{ file='/{name}' }}\n"
        );
        let config = parse(&text).unwrap().disks.remove(0);
        Entry {
            id: id.map_or_else(|| disk_id(&config), DiskId::from_u128),
            cache: "c".parse().unwrap(),
            source: DiskSource::Runtime,
            phase: Phase::Attaching,
            serial: 0,
            without_back: None,
            owes: None,
            record: None,
            config,
        }
    }

    fn why() -> Problem {
        Problem::new(ProblemKind::Origin, "gone")
    }

    #[test]
    fn names_and_ids_are_taken_once() {
        let registry = Registry::default();
        let first = registry.reserve(entry("a", Some(1))).unwrap();
        let taken = |entry| registry.reserve(entry).unwrap_err();
        assert_eq!(taken(entry("a", Some(2))), Taken::Name);
        assert_eq!(taken(entry("b", Some(1))), Taken::Id("a".parse().unwrap()));
        registry.remove(&first);
        registry.reserve(entry("b", Some(1))).unwrap();
    }

    #[test]
    fn a_late_answer_does_not_change_a_later_attachment_of_the_disk() {
        let registry = Registry::default();
        let earlier = registry.reserve(entry("a", None)).unwrap();
        registry.remove(&earlier);
        let later = registry.reserve(entry("a", None)).unwrap();
        assert!(!registry.wait(&earlier, why()));
        registry.remove(&earlier);
        let name = "a".parse().unwrap();
        assert_eq!(registry.get(&name).unwrap().phase, Phase::Attaching);
        assert!(registry.wait(&later, why()));
    }

    #[test]
    fn those_that_are_attached_and_those_that_were_first_have_their_place() {
        let registry = Registry::default();
        let names = ["d", "c", "b", "a"];
        let disks = names.map(|name| registry.reserve(entry(name, None)).unwrap());
        let before = |at: usize| -> Vec<String> {
            let entry = registry.get(&disks[at].config.name).unwrap();
            let names = registry.before(&entry).into_iter();
            names.map(|entry| entry.config.name.to_string()).collect()
        };
        assert_eq!(before(0), Vec::<String>::new());
        assert_eq!(before(2), ["d", "c"]);
        let geometry = OriginGeometry {
            size: units::Bytes::mib(1),
            sector: units::Bytes::new(512),
            can_discard: false,
            read_only: false,
        };
        registry.set_phase(&disks[3], Phase::Attached { geometry });
        assert_eq!(before(0), ["a"]);
        assert_eq!(before(2), ["a", "d", "c"]);
        assert_eq!(before(3), ["d", "c", "b"]);
    }

    #[test]
    fn a_disk_with_other_settings_is_not_attached_by_its_old_ones() {
        let registry = Registry::default();
        let disk = registry.reserve(entry("a", None)).unwrap();
        registry.wait(&disk, why());
        let waits = registry.get(&disk.config.name).unwrap();
        let mut config = waits.config.clone();
        config.read_only = true;
        assert!(registry.reconfigure(&waits, &config));
        assert!(!registry.reconfigure(&waits, &config), "it was changed");
        assert!(!registry.begin(&waits));
        let now = registry.get(&disk.config.name).unwrap();
        assert!(now.config.read_only && registry.begin(&now));
    }

    #[test]
    fn a_disk_that_is_being_forgotten_is_not_attached() {
        let registry = Registry::default();
        let disk = registry.reserve(entry("a", None)).unwrap();
        assert!(!registry.forget(&disk), "its origin is being opened");
        assert!(registry.wait(&disk, why()));
        assert!(registry.forget(&disk));
        assert!(!registry.begin(&disk));
        assert!(registry.wait(&disk, why()), "an attempt ends meanwhile");
        let phase = || registry.get(&disk.config.name).unwrap().phase;
        assert_eq!(phase(), Phase::Forgetting { why: why() });
        // It could not be written down that it is gone.
        assert!(registry.set_phase(&disk, Phase::Waiting { why: why() }));
        assert!(registry.begin(&disk));
        assert!(!registry.forget(&disk), "its shard has it");
    }
}
