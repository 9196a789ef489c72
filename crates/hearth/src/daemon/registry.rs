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
    /// The cache that serves it.
    pub(super) cache: Name,
    /// Who asked for it.
    pub(super) source: DiskSource,
    /// How far it has come.
    pub(super) phase: Phase,
}

impl Entry {
    /// Whose disk it is.
    pub(super) fn vm(&self) -> Name {
        self.config
            .vm
            .clone()
            .unwrap_or_else(|| self.config.name.clone())
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
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Entry>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a disk, unless its name or identity is taken.
    pub(super) fn reserve(&self, entry: Entry) -> Result<(), Taken> {
        let mut entries = self.lock();
        if entries.contains_key(&entry.config.name) {
            return Err(Taken::Name);
        }
        if let Some(other) = entries.values().find(|other| other.id == entry.id) {
            return Err(Taken::Id(other.config.name.clone()));
        }
        entries.insert(entry.config.name.clone(), entry);
        Ok(())
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

    /// Changes a disk's entry if `change` agrees to; tells whether it did.
    pub(super) fn change(
        &self,
        name: &Name,
        id: DiskId,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> bool {
        match self.lock().get_mut(name) {
            Some(entry) if entry.id == id => change(entry),
            _ => false,
        }
    }

    /// Moves a disk to another phase, if it is there.
    pub(super) fn set_phase(&self, name: &Name, id: DiskId, phase: Phase) -> bool {
        self.change(name, id, |entry| {
            entry.phase = phase;
            true
        })
    }

    /// Forgets a disk.
    pub(super) fn remove(&self, name: &Name, id: DiskId) {
        let mut entries = self.lock();
        if entries.get(name).is_some_and(|entry| entry.id == id) {
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
            config,
        }
    }

    #[test]
    fn names_and_ids_are_taken_once() {
        let registry = Registry::default();
        registry.reserve(entry("a", Some(1))).unwrap();
        assert_eq!(registry.reserve(entry("a", Some(2))), Err(Taken::Name));
        let taken = Taken::Id("a".parse().unwrap());
        assert_eq!(registry.reserve(entry("b", Some(1))), Err(taken));
        registry.remove(&"a".parse().unwrap(), DiskId::from_u128(1));
        registry.reserve(entry("b", Some(1))).unwrap();
    }

    #[test]
    fn a_late_answer_does_not_change_another_disk_of_the_same_name() {
        let registry = Registry::default();
        let name = "a".parse().unwrap();
        registry.reserve(entry("a", Some(2))).unwrap();
        let earlier = DiskId::from_u128(1);
        let waiting = Phase::Waiting {
            reason: String::new(),
        };
        assert!(!registry.set_phase(&name, earlier, waiting));
        registry.remove(&name, earlier);
        assert_eq!(registry.get(&name).unwrap().phase, Phase::Attaching);
    }
}
