//! Which disks there are, and how far each has come.
//!
//! ```text
//!   reserve ──► Attaching ──► Attached ──► Detaching ──► (gone)
//!                 │  ▲            ▲             │
//!                 ▼  │            └─ in use ────┘
//!               Waiting  (its origin could not be opened; tried again)
//! ```
//!
//! Asked by handshakes and changed by the control, both on the runtime's threads, each for a
//! few map operations and never across a wait; hence a lock rather than a task of its own.

use crate::api::types::DiskSource;
use crate::config::{DiskConfig, Name};
use block_io::OriginGeometry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::DiskId;

/// How far a disk has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its origin is being opened.
    Attaching,
    /// Its origin could not be opened.
    Waiting {
        /// Why.
        reason: String,
    },
    /// Its shard serves it.
    Attached {
        /// What its origin is like.
        geometry: OriginGeometry,
    },
    /// Its shard is about to let go of it.
    Detaching {
        /// What its origin is like.
        geometry: OriginGeometry,
    },
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
}

impl Entry {
    /// Whose disk it is; a shared one's own name.
    pub(super) fn vm(&self) -> Name {
        self.config.tenant().clone()
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
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Entry>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The entry of the disk with this name, as a client wrote it.
    pub(super) fn get_text(&self, name: &str) -> Option<Entry> {
        self.get(&name.parse().ok()?)
    }

    /// Copies of all entries, by name.
    pub(super) fn all(&self) -> Vec<Entry> {
        self.lock().values().cloned().collect()
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
    use crate::config::{disk_id, parse};

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
            config,
        }
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
        let waiting = Phase::Waiting {
            reason: String::new(),
        };
        assert!(!registry.set_phase(&earlier, waiting.clone()));
        registry.remove(&earlier);
        let name = "a".parse().unwrap();
        assert_eq!(registry.get(&name).unwrap().phase, Phase::Attaching);
        assert!(registry.set_phase(&later, waiting));
    }
}
