//! What operators want of each cache's policy: the configuration file's word, and over it what was
//! changed while the daemon ran. As [`super::vms`] for VMs.

use configuration::{CacheConfig, Name, PolicyChange, PolicyConfig};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The policy of every cache.
#[derive(Debug, Default)]
pub(super) struct PolicyBook {
    file: Mutex<BTreeMap<Name, PolicyConfig>>,
    changed: Mutex<BTreeMap<Name, PolicyChange>>,
}

impl PolicyBook {
    pub(super) fn new(file: &[CacheConfig], changed: BTreeMap<Name, PolicyChange>) -> Self {
        let file = file.iter();
        Self {
            file: Mutex::new(
                file.map(|cache| (cache.name.clone(), cache.policy.clone()))
                    .collect(),
            ),
            changed: Mutex::new(changed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, PolicyChange>> {
        // A panic elsewhere leaves the map whole: every change is one map operation.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, BTreeMap<Name, PolicyConfig>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what the file has of a cache; returns what it had.
    pub(super) fn set_file(&self, cache: &Name, policy: PolicyConfig) -> PolicyConfig {
        let before = self.file().insert(cache.clone(), policy);
        before.unwrap_or_default()
    }

    /// What holds for a cache.
    pub(super) fn settings(&self, cache: &Name) -> PolicyConfig {
        self.with(cache, &self.change_of(cache))
    }

    /// What would hold for a cache with this change instead of the present one.
    pub(super) fn with(&self, cache: &Name, change: &PolicyChange) -> PolicyConfig {
        let mut settings = self.file().get(cache).cloned().unwrap_or_default();
        change.apply(&mut settings);
        settings
    }

    /// What was changed of a cache since the file was read.
    pub(super) fn change_of(&self, cache: &Name) -> PolicyChange {
        self.lock().get(cache).cloned().unwrap_or_default()
    }

    /// All changes, to be written down.
    pub(super) fn changes(&self) -> BTreeMap<Name, PolicyChange> {
        self.lock().clone()
    }

    /// Replaces what is changed of a cache; no change forgets it.
    pub(super) fn set(&self, cache: &Name, change: PolicyChange) {
        let mut changed = self.lock();
        if change == PolicyChange::default() {
            changed.remove(cache);
        } else {
            changed.insert(cache.clone(), change);
        }
    }
}
